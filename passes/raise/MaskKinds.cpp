//===- MaskKinds.cpp - Masks are evaluated, not pattern-matched --------------------------===//
#include "passes/raise/MaskKinds.h"
#include "mlir/IR/Matchers.h"
#include "passes/raise/Probe.h"
#include <set>

using namespace mlir;

namespace omnibal::raise {
namespace {

/// Longest probe whose whole mask is evaluated; beyond it chosen positions stand for the row.
constexpr int64_t longestWhole = 192;
constexpr int64_t largestConstant = int64_t(1) << 20;

/// Who sees whom at the probed positions.
struct Sight {
  SmallVector<int64_t> positions;
  std::vector<char> sees; ///< [query, key]
  bool at(size_t query, size_t key) const { return sees[query * positions.size() + key]; }
  bool isConsistent(llvm::function_ref<bool(size_t, size_t)> rule) const {
    for (size_t q = 0; q < positions.size(); ++q)
      for (size_t k = 0; k < positions.size(); ++k)
        if (at(q, k) != rule(q, k))
          return false;
    return true;
  }
};

/// Integers in the subgraph at which a mask may change: windows, offsets, chunk sizes.
std::set<int64_t> constantsIn(Value mask) {
  std::set<int64_t> found;
  for (Operation *op : backwardOps(mask)) {
    auto constant = dyn_cast<ConstantOp>(op);
    if (!constant || constant.getValue().getNumElements() > 16)
      continue;
    auto note = [&](double value) {
      double size = std::abs(value);
      if (size >= 1 && size <= largestConstant && size == std::floor(size))
        found.insert(static_cast<int64_t>(size));
    };
    if (auto ints = dyn_cast<DenseIntElementsAttr>(constant.getValue())) {
      for (const APInt &value : ints.getValues<APInt>())
        note(static_cast<double>(value.getSExtValue()));
    } else if (auto floats = dyn_cast<DenseFPElementsAttr>(constant.getValue())) {
      for (const APFloat &value : floats.getValues<APFloat>())
        note(value.convertToDouble());
    }
  }
  return found;
}

/// Position sets to probe: whole rows of small lengths, chosen positions around large constants.
std::vector<ProbeInputs> probesFor(Value mask) {
  std::set<int64_t> lengths = {1, 2, 3, 5, 9};
  std::set<int64_t> chosen = {0, 1, 2};
  bool sampled = false;
  for (int64_t constant : constantsIn(mask))
    for (int64_t length : {constant - 1, constant, constant + 1, constant + 3}) {
      if (length >= 1 && length <= longestWhole)
        lengths.insert(length);
      if (length > longestWhole) {
        sampled = true;
        chosen.insert({length, length + 1, 2 * length});
      }
    }
  // Neighbouring lengths tell nothing new once there are many; the largest see all the rules.
  while (lengths.size() > 24)
    lengths.erase(std::next(lengths.begin(), 5));
  std::vector<ProbeInputs> probes;
  for (int64_t length : lengths) {
    ProbeInputs probe;
    probe.tokens = length;
    probes.push_back(probe);
  }
  if (sampled) {
    ProbeInputs probe;
    probe.positions.assign(chosen.begin(), chosen.end());
    probe.tokens = probe.positions.size();
    probe.replaceRanges = true;
    probes.push_back(probe);
  }
  return probes;
}

std::optional<Sight> readSight(const HostTensor &mask, const ProbeInputs &inputs) {
  int64_t n = inputs.tokens, size = mask.size();
  // Broadcast to [.., N, N]; all leading entries must agree.
  int64_t columns = mask.rank() >= 1 ? mask.shape.back() : 1;
  int64_t rows = mask.rank() >= 2 ? mask.shape[mask.rank() - 2] : 1;
  if ((columns != n && columns != 1) || (rows != n && rows != 1) || size == 0)
    return std::nullopt;
  Sight sight;
  for (int64_t i = 0; i < n; ++i)
    sight.positions.push_back(inputs.positions.empty() ? i : inputs.positions[i]);
  sight.sees.resize(n * n);
  for (int64_t lead = 0; lead < size / (rows * columns); ++lead)
    for (int64_t q = 0; q < n; ++q)
      for (int64_t k = 0; k < n; ++k) {
        double value =
            mask.at((lead * rows + (rows == 1 ? 0 : q)) * columns + (columns == 1 ? 0 : k));
        bool sees = mask.isFloat() ? value == 0 : value != 0;
        if (mask.isFloat() && !sees && value > -1e3)
          return std::nullopt; // a bias, not a mask
        if (lead > 0 && sees != static_cast<bool>(sight.sees[q * n + k]))
          return std::nullopt;
        sight.sees[q * n + k] = sees;
      }
  return sight;
}

bool agrees(const Sight &sight, const MaskClass &mask, ArrayRef<int64_t> types = {}) {
  return sight.isConsistent([&](size_t q, size_t k) {
    int64_t distance = sight.positions[q] - sight.positions[k];
    switch (mask.kind) {
    case MaskKind::Full:
      return true;
    case MaskKind::Causal:
      return distance >= 0;
    case MaskKind::Sliding:
      return distance >= 0 && distance < mask.window;
    case MaskKind::Prefix:
      return distance >= 0 || types[k % types.size()] == 0;
    case MaskKind::Explicit:
      break;
    }
    return false;
  });
}

/// The classes that a set of observations allows, simplest first.
std::optional<MaskClass> classOf(ArrayRef<Sight> sights) {
  int64_t window = std::numeric_limits<int64_t>::max();
  for (const Sight &sight : sights)
    for (size_t q = 0; q < sight.positions.size(); ++q)
      for (size_t k = 0; k < sight.positions.size(); ++k)
        if (!sight.at(q, k) && sight.positions[q] >= sight.positions[k])
          window = std::min(window, sight.positions[q] - sight.positions[k]);
  for (const MaskClass &candidate :
       {MaskClass{MaskKind::Full, 0, {}}, MaskClass{MaskKind::Causal, 0, {}},
        MaskClass{MaskKind::Sliding, window, {}}})
    if (llvm::all_of(sights, [&](const Sight &sight) { return agrees(sight, candidate); }))
      return candidate;
  return std::nullopt;
}

std::string describeSight(const Sight &sight) {
  std::string text;
  size_t shown = std::min<size_t>(sight.positions.size(), 9);
  for (size_t q = 0; q < shown; ++q) {
    text += "\n  ";
    for (size_t k = 0; k < shown; ++k)
      text += sight.at(q, k) ? 'x' : '.';
  }
  return text;
}
} // namespace

FailureOr<MaskClass> MaskClassifier::classify(Value mask, Operation *user) {
  auto it = known.find(mask);
  if (it != known.end())
    return it->second;
  auto result = evaluateAndClassify(mask, user);
  if (succeeded(result))
    known[mask] = *result;
  return result;
}

FailureOr<unsigned> MaskClassifier::classifySegments(Value mask, Operation *user) {
  auto it = knownSegments.find(mask);
  if (it != knownSegments.end())
    return it->second;
  auto error = [&]() { return user->emitError() << describe(user) << ": the attention mask "; };
  std::optional<unsigned> source;
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (!(dependence.of(mask) & Dependence::argument(index)))
      continue;
    if (roleOf(function, index) != Role::Segments || source)
      return error() << "within pictures depends on graph input '" << inputName(function, index)
                     << "'; supported is one input that numbers the segments";
    source = index;
  }
  if (!source)
    return error() << "within pictures depends on no graph input";
  // Units of one segment, of three, and of two unequal ones.
  const int64_t rows = shapeOf(function.getArgument(*source)).front().perTile;
  static constexpr int64_t patterns[][3] = {{0, 0, 0}, {0, 1, 2}, {0, 0, 1}, {4, 7, 7}};
  for (const auto &units : patterns) {
    ProbeInputs inputs;
    inputs.tiles = std::size(units);
    inputs.tokens = inputs.tiles * rows; // of the mask's sides
    SmallVector<int64_t> &ids = inputs.visibility[*source];
    for (int64_t unit : units)
      ids.append(rows, unit);
    auto value = probe(function, mask, inputs);
    auto sight = succeeded(value) ? readSight(*value, inputs) : std::nullopt;
    if (!sight)
      return error() << "within pictures cannot be evaluated";
    if (!sight->isConsistent([&](size_t q, size_t k) { return ids[q] == ids[k]; }))
      return error() << "within pictures is not that of segments; with the numbers " << units[0]
                     << ", " << units[1] << ", " << units[2] << " for " << rows
                     << " rows each it is (x: seen)" << describeSight(*sight);
  }
  knownSegments[mask] = *source;
  return *source;
}

LogicalResult MaskClassifier::requireEverywhere(Value control, bool expected, Operation *user) {
  for (ProbeInputs inputs : probesFor(control)) {
    FailureOr<HostTensor> value = failure();
    {
      ScopedDiagnosticHandler silent(user->getContext(), [&](Diagnostic &) {
        return success(inputs.replaceRanges); // a second way follows
      });
      value = probe(function, control, inputs);
    }
    if (failed(value) && inputs.replaceRanges) {
      inputs.visibilityLength = inputs.positions.back() + 1;
      value = probe(function, control, inputs);
    }
    if (failed(value))
      return user->emitError() << describe(user) << ": its choice among the results of an "
                               << "attention cannot be evaluated for " << inputs.tokens
                               << " tokens";
    for (int64_t i = 0; i < value->size(); ++i)
      if (value->at(i) != (expected ? 1 : 0))
        return user->emitError() << describe(user) << " changes results of an attention by masks "
                                 << "or positions (with " << inputs.tokens
                                 << " tokens that all count), which is not supported";
  }
  return success();
}

FailureOr<MaskClass> MaskClassifier::evaluateAndClassify(Value mask, Operation *user) {
  Operation *maskOp = mask.getDefiningOp();
  auto error = [&]() -> InFlightDiagnostic {
    InFlightDiagnostic diagnostic = user->emitError() << describe(user) << ": the attention mask ";
    if (maskOp)
      diagnostic << "from " << describe(maskOp) << " ";
    return diagnostic;
  };
  auto look = [&](const ProbeInputs &inputs) -> std::optional<Sight> {
    auto value = probe(function, mask, inputs);
    return succeeded(value) ? readSight(*value, inputs) : std::nullopt;
  };

  // A visibility input whose 0 hides a token is an attention mask; others hold token types.
  std::optional<unsigned> types;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (roleOf(function, i) != Role::Visibility || !(dependence.of(mask) & Dependence::argument(i)))
      continue;
    ProbeInputs inputs;
    inputs.tokens = 3;
    inputs.visibility[i] = {0, 1, 1};
    auto sight = look(inputs);
    if (!sight)
      return error() << "cannot be evaluated";
    if (sight->at(2, 0)) {
      if (types)
        return error() << "depends on two inputs of token types";
      types = i;
    }
  }

  std::vector<Sight> sights;
  for (ProbeInputs inputs : probesFor(mask)) {
    std::optional<Sight> sight;
    {
      ScopedDiagnosticHandler silent(user->getContext(), [&](Diagnostic &) {
        return success(inputs.replaceRanges); // a second way follows
      });
      sight = look(inputs);
    }
    if (!sight && inputs.replaceRanges) {
      inputs.visibilityLength = inputs.positions.back() + 1;
      sight = look(inputs);
    }
    if (!sight)
      return error() << "cannot be evaluated for " << inputs.tokens
                     << " tokens, or adds values other than 0 and minus infinity";
    sights.push_back(std::move(*sight));
  }
  auto found = classOf(sights);
  if (!found)
    return error() << "is not full, causal, sliding or prefix; for "
                   << sights.back().positions.size() << " tokens it is (x: seen)"
                   << describeSight(sights.back());

  // Positions that start again (packed samples) must separate the samples, if they are an input.
  if (dependence.of(mask) & dependence.arguments(Role::Positions)) {
    ProbeInputs packed;
    packed.tokens = 7;
    packed.positions = {0, 1, 2, 0, 1, 2, 3};
    auto sight = look(packed);
    MaskClass kind = *found;
    if (!sight || !sight->isConsistent([&](size_t q, size_t k) {
          int64_t distance = static_cast<int64_t>(q) - static_cast<int64_t>(k);
          bool same = (q < 3) == (k < 3);
          return same &&
                 (kind.kind == MaskKind::Full ||
                  (distance >= 0 && (kind.kind == MaskKind::Causal || distance < kind.window)));
        }))
      user->emitRemark() << describe(user)
                         << ": the mask does not separate packed samples by itself; attention is "
                         << "kept within samples all the same";
  }
  if (!types)
    return *found;

  // Token types: type 0 is seen by everybody, everything else causally.
  MaskClass prefix{MaskKind::Prefix, 0, types};
  bool isPrefix = true, isIgnored = true;
  for (const SmallVector<int64_t> &pattern :
       {SmallVector<int64_t>{0, 0, 0, 0, 0, 0}, SmallVector<int64_t>{0, 0, 1, 1, 1, 1},
        SmallVector<int64_t>{1, 1, 1, 1, 1, 1}, SmallVector<int64_t>{0, 0, 0, 0, 0, 1}}) {
    ProbeInputs inputs;
    inputs.tokens = pattern.size();
    inputs.visibility[*types] = pattern;
    auto sight = look(inputs);
    if (!sight)
      return error() << "cannot be evaluated with token types";
    isPrefix = isPrefix && agrees(*sight, prefix, pattern);
    isIgnored = isIgnored && agrees(*sight, *found);
  }
  if (isIgnored)
    return *found;
  if (isPrefix)
    return prefix;
  return error() << "depends on token types in another way than a prefix that all tokens see";
}

} // namespace omnibal::raise
