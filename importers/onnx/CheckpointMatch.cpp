//===- CheckpointMatch.cpp - Initializers found in a checkpoint --------------------------===//
#include "importers/onnx/CheckpointMatch.h"
#include "importers/onnx/Diagnostics.h"
#include "importers/onnx/Tensors.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include <map>
#include <set>

using namespace mlir;

namespace omnibal::onnx {

namespace {

struct Candidate {
  const rt::StoredTensor *tensor = nullptr;
  bool transposed = false;
  bool operator<(const Candidate &other) const { return tensor->name < other.tensor->name; }
};

/// Number of trailing parts ("weight", "0", ...) that two dotted names share.
size_t commonSuffix(llvm::StringRef a, llvm::StringRef b) {
  size_t parts = 0;
  while (!a.empty() && !b.empty()) {
    auto [restA, lastA] = a.rsplit('.');
    auto [restB, lastB] = b.rsplit('.');
    bool wholeA = !a.contains('.'), wholeB = !b.contains('.');
    if ((wholeA ? a : lastA) != (wholeB ? b : lastB))
      break;
    ++parts;
    a = wholeA ? llvm::StringRef() : restA;
    b = wholeB ? llvm::StringRef() : restB;
  }
  return parts;
}

class Matcher {
public:
  Matcher(rt::TensorFiles &checkpoint, ExternalFiles &files, Location where)
      : checkpoint(checkpoint), files(files), where(where) {
    for (const auto &file : checkpoint.files())
      for (const rt::StoredTensor &tensor : file->tensors())
        byShape[tensor.shape].push_back(&tensor);
  }

  LogicalResult run(const std::vector<Initializer *> &initializers) {
    std::vector<std::vector<Candidate>> equal(initializers.size());
    for (auto [i, initializer] : llvm::enumerate(initializers)) {
      FailureOr<std::vector<Candidate>> found = equalTensors(*initializer);
      if (failed(found))
        return failure();
      equal[i] = std::move(*found);
    }
    for (auto [i, initializer] : llvm::enumerate(initializers)) {
      const rt::StoredTensor *sameName = checkpoint.find(initializer->tensor->name());
      if (sameName && llvm::ArrayRef<int64_t>(sameName->shape) == initializer->type.getShape())
        set(*initializer, {sameName, false});
    }
    for (auto [i, initializer] : llvm::enumerate(initializers)) {
      if (equal[i].empty())
        dropUnmatched(*initializer);
      else if (failed(assign(initializers, equal, i)))
        return failure();
    }
    return success();
  }

private:
  void set(Initializer &initializer, Candidate candidate) {
    initializer.isParameter = true;
    initializer.parameter = candidate.tensor->name;
    initializer.transposed = candidate.transposed;
    matched.insert(&initializer);
    taken.insert(candidate.tensor);
  }

  /// Tables such as inverse frequencies may lie in an external file that is not the checkpoint.
  void dropUnmatched(Initializer &initializer) {
    if (!matched.contains(&initializer) && initializer.type.getRank() < 2)
      initializer.isParameter = false;
  }

  LogicalResult assign(const std::vector<Initializer *> &initializers,
                       const std::vector<std::vector<Candidate>> &equal, size_t i) {
    Initializer &initializer = *initializers[i];
    // Initializers of the same content see the same tensors.
    size_t sharers = 0;
    for (const auto &other : equal)
      sharers += !other.empty() && other.front().tensor == equal[i].front().tensor;
    if (equal[i].size() > sharers && initializer.uses > 1)
      return merged(initializer, equal[i]);
    if (matched.contains(&initializer))
      return success();
    const Candidate *best = nullptr;
    size_t bestParts = 0;
    bool tie = false;
    for (const Candidate &candidate : equal[i]) {
      if (taken.contains(candidate.tensor))
        continue;
      size_t parts = commonSuffix(candidate.tensor->name, initializer.tensor->name());
      if (!best || parts > bestParts) {
        best = &candidate;
        bestParts = parts;
        tie = false;
      } else {
        tie |= parts == bestParts;
      }
    }
    if (!best || tie)
      return merged(initializer, equal[i]);
    set(initializer, *best);
    return success();
  }

  LogicalResult merged(const Initializer &initializer, const std::vector<Candidate> &candidates) {
    auto diagnostic = notSupported(where);
    diagnostic << "initializer '" << initializer.tensor->name() << "' may stand for "
               << candidates.size() << " tensors of '" << checkpoint.path()
               << "' with equal bytes (";
    for (size_t i = 0; i < std::min<size_t>(candidates.size(), 3); ++i)
      diagnostic << (i ? ", " : "") << "'" << candidates[i].tensor->name << "'";
    diagnostic << (candidates.size() > 3 ? ", ...)" : ")")
               << ": the exporter merged parameters that must train apart; export again with "
                  "torch.onnx.export(..., dynamo=True, optimize=False)";
    return diagnostic;
  }

  FailureOr<std::vector<Candidate>> equalTensors(const Initializer &initializer) {
    const TensorProto &tensor = *initializer.tensor;
    const bool external = tensor.data_location() == TensorProto::EXTERNAL;
    if (external) {
      FailureOr<ExternalRange> range = files.locate(tensor, where);
      if (failed(range))
        return failure();
      if (range->file->absent)
        return std::vector<Candidate>();
    }
    std::vector<int64_t> shape(initializer.type.getShape());
    std::vector<int64_t> turned(shape.rbegin(), shape.rend());
    if (!byShape.contains(shape) && (shape.size() != 2 || !byShape.contains(turned)))
      return std::vector<Candidate>();
    FailureOr<DenseElementsAttr> elements =
        external ? files.value(tensor, where) : tensorValue(tensor, {}, where);
    if (failed(elements))
      return failure();
    std::vector<float> values;
    values.reserve(size_t(elements->getNumElements()));
    if (elements->getElementType().isF64())
      for (double v : elements->getValues<double>())
        values.push_back(float(v));
    else
      values.assign(elements->value_begin<float>(), elements->value_end<float>());

    std::vector<Candidate> result;
    if (auto same = byShape.find(shape); same != byShape.end())
      for (const rt::StoredTensor *stored : same->second)
        if (isEqual(*stored, values, {}))
          result.push_back({stored, false});
    if (auto flipped = byShape.find(turned); shape.size() == 2 && flipped != byShape.end())
      for (const rt::StoredTensor *stored : flipped->second)
        if (isEqual(*stored, values, turned) &&
            llvm::none_of(result, [&](const Candidate &c) { return c.tensor == stored; }))
          result.push_back({stored, true});
    llvm::sort(result);
    return result;
  }

  /// `turned`: the stored shape [rows, columns] of a tensor whose transpose `values` may be.
  bool isEqual(const rt::StoredTensor &stored, const std::vector<float> &values,
               llvm::ArrayRef<int64_t> turned) {
    llvm::scope_exit release([&] { rt::releasePages(stored, 0, stored.elements); });
    int64_t count = int64_t(values.size());
    int64_t piece = turned.empty() ? 4096 : turned[1];
    std::vector<float> buffer(size_t(std::max<int64_t>(piece, 1)));
    for (int64_t first = 0; first < count; first += piece) {
      int64_t size = std::min(piece, count - first);
      if (!rt::convertTensor(stored, rt::DType::F32, buffer.data(), first, size))
        return false;
      for (int64_t i = 0; i < size; ++i) {
        int64_t at = turned.empty() ? first + i : i * turned[0] + first / piece;
        if (buffer[size_t(i)] != values[size_t(at)])
          return false;
      }
    }
    return true;
  }

  rt::TensorFiles &checkpoint;
  ExternalFiles &files;
  Location where;
  std::map<std::vector<int64_t>, std::vector<const rt::StoredTensor *>> byShape;
  std::set<const Initializer *> matched;
  std::set<const rt::StoredTensor *> taken;
};

} // namespace

LogicalResult matchToCheckpoint(const std::string &weights,
                                const std::vector<std::string> &linkFolders,
                                const std::vector<Initializer *> &initializers,
                                ExternalFiles &files, Location where) {
  auto checkpoint = rt::TensorFiles::open(weights, linkFolders);
  if (!checkpoint)
    return emitError(where) << "--weights: " << checkpoint.status().message();
  return Matcher(*checkpoint, files, where).run(initializers);
}

} // namespace omnibal::onnx
