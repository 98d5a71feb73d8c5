//===- MaskKinds.cpp - Masks are evaluated, not pattern-matched --------------------------===//
#include "passes/raise/attention/MaskKinds.h"
#include "mlir/IR/Matchers.h"
#include <set>

using namespace mlir;

namespace omnibal::raise {
namespace {

/// Longest probe whose whole mask is evaluated; beyond it chosen positions stand for the row.
constexpr int64_t longestWhole = 192;
constexpr int64_t largestConstant = int64_t(1) << 20;

/// Integers in the subgraph at which a mask may change: windows, offsets, chunk sizes.
std::set<int64_t> constantsIn(Value mask) {
  std::set<int64_t> found;
  for (Operation *op : backwardOps(mask)) {
    auto constant = dyn_cast<ConstantOp>(op);
    if (!constant || constant.getValue().getNumElements() > mostConstantElements)
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
std::vector<ProbeInputs> probesFor(Value mask, const std::map<int64_t, int64_t> &substitutes = {}) {
  std::set<int64_t> lengths = {1, 2, 3, 5, 9};
  std::set<int64_t> chosen = {0, 1, 2};
  bool sampled = false;
  for (int64_t constant : constantsIn(mask)) {
    auto substitute = substitutes.find(constant);
    if (substitute != substitutes.end())
      constant = substitute->second;
    for (int64_t length : {constant - 1, constant, constant + 1, constant + 3}) {
      if (length >= 1 && length <= longestWhole)
        lengths.insert(length);
      if (length > longestWhole) {
        sampled = true;
        chosen.insert({length, length + 1, 2 * length});
      }
    }
  }
  // Neighboring lengths tell nothing new once there are many; the largest see all the rules.
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
  for (ProbeInputs &probe : probes)
    probe.substitutes = substitutes;
  return probes;
}

/// Returns, for constants that are too large to evaluate whole masks, small ones at the same
/// distances, from `least` on; none if they are too far apart.
std::map<int64_t, int64_t> substitutesFor(Value mask, int64_t least) {
  constexpr int64_t widest = 16;
  std::map<int64_t, int64_t> result;
  std::optional<int64_t> first;
  for (int64_t constant : constantsIn(mask)) {
    if (constant <= longestWhole)
      continue;
    first = first.value_or(constant);
    if (constant - *first > widest)
      return {};
    result[constant] = least + constant - *first;
  }
  return result;
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
  for (int64_t i = 0; i < n; ++i)
    sight.places.push_back(inputs.visibilityLength > 0 ? sight.positions[i] : i);
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

/// `types` are those of the inputs' places, again and again.
bool agrees(const Sight &sight, const MaskClass &mask, ArrayRef<int64_t> types = {}) {
  auto typeAt = [&](int64_t place) { return types[place % types.size()]; };
  auto counts = [&](int64_t place) {
    return !mask.typeRange ||
           (typeAt(place) >= mask.typeRange->first && typeAt(place) <= mask.typeRange->second);
  };
  return sight.isConsistent([&](size_t q, size_t k) {
    int64_t query = sight.places[q], key = sight.places[k];
    int64_t distance = sight.positions[q] - sight.positions[k];
    bool past = distance >= 0 && (mask.window == 0 || distance < mask.window);
    switch (mask.kind) {
    case MaskKind::Full:
      return true;
    case MaskKind::Causal:
    case MaskKind::Sliding:
      return past;
    case MaskKind::Chunked:
      return distance >= 0 && sight.positions[q] / mask.window == sight.positions[k] / mask.window;
    case MaskKind::Prefix:
      return past || (typeAt(key) == 0 && counts(query));
    case MaskKind::Blocks:
      return (mask.window == 0 || distance < mask.window) &&
             (distance >= 0 ||
              llvm::all_of(llvm::seq(std::min(query, key), std::max(query, key) + 1), counts));
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
  int64_t chunk = std::numeric_limits<int64_t>::max(); // the first that does not see the first
  for (const Sight &sight : sights)
    for (size_t q = 0; q < sight.positions.size(); ++q)
      if (sight.positions.front() == 0 && !sight.at(q, 0))
        chunk = std::min(chunk, std::max<int64_t>(sight.positions[q], 1));
  for (const MaskClass &candidate :
       {MaskClass{MaskKind::Full, 0, {}, {}}, MaskClass{MaskKind::Causal, 0, {}, {}},
        MaskClass{MaskKind::Sliding, window, {}, {}}, MaskClass{MaskKind::Chunked, chunk, {}, {}}})
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
      return user->emitError() << describe(user) << ": its choice by masks or positions cannot be "
                               << "evaluated for " << inputs.tokens << " tokens";
    for (int64_t i = 0; i < value->size(); ++i)
      if (value->at(i) != (expected ? 1 : 0))
        return user->emitError() << describe(user) << " changes values by masks or positions (with "
                                 << inputs.tokens
                                 << " tokens that all count), which is not supported";
  }
  return success();
}

InFlightDiagnostic MaskClassifier::error(Value mask, Operation *user) {
  InFlightDiagnostic diagnostic = user->emitError() << describe(user) << ": the attention mask ";
  if (Operation *op = mask.getDefiningOp())
    diagnostic << "from " << describe(op) << " ";
  return diagnostic;
}

std::optional<Sight> MaskClassifier::look(Value mask, ProbeInputs inputs, Operation *user) {
  auto sightOf = [&]() -> std::optional<Sight> {
    auto value = probe(function, mask, inputs);
    return succeeded(value) ? readSight(*value, inputs) : std::nullopt;
  };
  std::optional<Sight> sight;
  {
    ScopedDiagnosticHandler silent(user->getContext(), [&](Diagnostic &) {
      return success(inputs.replaceRanges); // a second way follows
    });
    sight = sightOf();
  }
  if (!sight && inputs.replaceRanges) {
    inputs.visibilityLength = inputs.positions.back() + 1;
    sight = sightOf();
  }
  return sight;
}

FailureOr<std::vector<Sight>> MaskClassifier::lookEverywhere(Value mask, Operation *user,
                                                             std::optional<unsigned> types,
                                                             ArrayRef<int64_t> pattern,
                                                             const Substitutes &constants) {
  std::vector<Sight> sights;
  for (ProbeInputs inputs : probesFor(mask, constants)) {
    if (types)
      inputs.visibility[*types].assign(pattern.begin(), pattern.end());
    std::optional<Sight> sight = look(mask, inputs, user);
    if (!sight)
      return error(mask, user) << "cannot be evaluated for " << inputs.tokens
                               << " tokens, or adds values other than 0 and minus infinity";
    sights.push_back(std::move(*sight));
  }
  return sights;
}

FailureOr<MaskClass> MaskClassifier::evaluateAndClassify(Value mask, Operation *user) {
  // A visibility input whose 0 hides a token is an attention mask; others hold token types.
  std::optional<unsigned> types;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (roleOf(function, i) != Role::Visibility || !(dependence.of(mask) & Dependence::argument(i)))
      continue;
    ProbeInputs inputs;
    inputs.tokens = 3;
    inputs.visibility[i] = {0, 1, 1};
    auto sight = look(mask, inputs, user);
    if (!sight)
      return error(mask, user) << "cannot be evaluated";
    if (!sight->at(2, 0)) {
      padding |= Dependence::argument(i);
    } else if (types) {
      return error(mask, user) << "depends on two inputs of token types";
    } else {
      types = i;
    }
  }
  auto found = types ? classifyByTypes(mask, *types, user) : classifyPlain(mask, user);
  if (succeeded(found) && found->kind != MaskKind::Blocks &&
      (dependence.of(mask) & dependence.arguments(Role::Positions)))
    checkPacked(mask, *found, user);
  return found;
}

FailureOr<MaskClass> MaskClassifier::classifyPlain(Value mask, Operation *user) {
  auto sights = lookEverywhere(mask, user, std::nullopt, {}, {});
  if (failed(sights))
    return failure();
  auto found = classOf(*sights);
  if (!found)
    return error(mask, user) << "is not full, causal, sliding, chunked, prefix or blocks; for "
                             << sights->back().positions.size() << " tokens it is (x: seen)"
                             << describeSight(sights->back());
  return *found;
}

/// Positions that start again (packed samples) must separate the samples, if they are an input.
void MaskClassifier::checkPacked(Value mask, const MaskClass &found, Operation *user) {
  ProbeInputs packed;
  packed.tokens = 7;
  packed.positions = {0, 1, 2, 0, 1, 2, 3};
  auto sight = look(mask, packed, user);
  if (!sight || !sight->isConsistent([&](size_t q, size_t k) {
        int64_t distance = static_cast<int64_t>(q) - static_cast<int64_t>(k);
        bool past = distance >= 0 && (found.window == 0 || distance < found.window);
        return (q < 3) == (k < 3) && (found.kind == MaskKind::Full || past);
      }))
    user->emitRemark() << describe(user)
                       << ": the mask does not separate packed samples by itself; attention is "
                       << "kept within samples all the same";
}

/// Large windows are evaluated as two small ones: the window found must be the constant's.
FailureOr<MaskClass> MaskClassifier::classifyByTypes(Value mask, unsigned types, Operation *user) {
  constexpr int64_t small = 40, other = 57;
  Substitutes constants = substitutesFor(mask, small);
  auto found = classifyByTypes(mask, types, user, constants);
  if (failed(found) || constants.empty())
    return found;
  auto second = classifyByTypes(mask, types, user, substitutesFor(mask, other));
  if (failed(second))
    return failure();
  bool windowed = found->window != 0;
  if (second->kind != found->kind || second->typeRange != found->typeRange ||
      second->window != found->window + (windowed ? other - small : 0))
    return error(mask, user) << "depends on " << constants.begin()->first
                             << " in another way than a window";
  if (windowed)
    found->window += constants.begin()->first - small;
  return found;
}

/// With one type for all tokens the mask is causal (or sliding), or shows what comes later: then
/// tokens of this type see each other, those of the prefix or of their block. Mixed types tell
/// which.
FailureOr<MaskClass> MaskClassifier::classifyByTypes(Value mask, unsigned types, Operation *user,
                                                     const Substitutes &constants) {
  constexpr int64_t tried = 4;
  std::optional<MaskClass> base;
  SmallVector<int64_t> counting, others;
  for (int64_t type = 0; type < tried; ++type) {
    auto sights = lookEverywhere(mask, user, types, {type}, constants);
    if (failed(sights))
      return failure();
    auto found = classOf(*sights);
    bool showsLater = llvm::any_of(*sights, [](const Sight &sight) {
      return sight.positions.size() > 1 && sight.at(0, sight.positions.size() - 1);
    });
    if (showsLater) {
      counting.push_back(type);
      continue;
    }
    if (!found)
      return error(mask, user) << "is not full, causal, sliding, chunked, prefix or blocks; for "
                               << sights->back().positions.size() << " tokens of type " << type
                               << " it is (x: seen)" << describeSight(sights->back());
    if (base && (base->kind != found->kind || base->window != found->window))
      return error(mask, user) << "is of another kind for tokens of type " << type;
    base = found;
    others.push_back(type);
  }
  SmallVector<MaskClass> candidates;
  if (counting.empty() || others.empty()) { // of one kind whatever the types
    candidates.push_back(base.value_or(MaskClass()));
    counting = others = {0, 1, 2, 3};
  } else {
    std::pair range(counting.front(), counting.back());
    if (range == std::pair<int64_t, int64_t>(0, 0) && base->kind != MaskKind::Chunked) {
      candidates.push_back({MaskKind::Prefix, base->window, types, std::nullopt});
      candidates.push_back({MaskKind::Prefix, base->window, types, range});
    }
    if (range.second - range.first + 1 == int64_t(counting.size()))
      candidates.push_back({MaskKind::Blocks, base->window, types, range});
  }
  // Blocks and what lies between them, of all types that were tried.
  int64_t c = counting.front(), d = counting.back(), n = others.front(), m = others.back();
  for (const SmallVector<int64_t> &pattern :
       {SmallVector<int64_t>{c, d, n, m, n, n, m}, SmallVector<int64_t>{n, c, d, m, c, n, d, d, c},
        SmallVector<int64_t>{c, n}, SmallVector<int64_t>{m, n, n, n, n, d, c},
        SmallVector<int64_t>{c, c, c, d, c, c, c, c, c, c, c, c, m}}) {
    auto sights = lookEverywhere(mask, user, types, pattern, constants);
    if (failed(sights))
      return failure();
    llvm::erase_if(candidates, [&](const MaskClass &candidate) {
      return !llvm::all_of(*sights,
                           [&](const Sight &sight) { return agrees(sight, candidate, pattern); });
    });
  }
  if (candidates.empty())
    return error(mask, user) << "depends on token types in another way than a prefix or blocks of "
                             << "neighboring tokens that see each other";
  return candidates.front();
}

} // namespace omnibal::raise
