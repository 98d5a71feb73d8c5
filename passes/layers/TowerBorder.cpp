//===- TowerBorder.cpp -------------------------------------------------------------------===//
#include "passes/layers/TowerBorder.h"

using namespace mlir;

namespace omnibal::layers {
namespace {

using Segment = SmallVector<Operation *>;

Value resultOf(const Segment &segment) { return segment.back()->getResult(0); }
int64_t widthOf(Value value) {
  RankedTensorType type = raise::typeOf(value);
  return type.getRank() == 0 ? 1 : type.getShape().back();
}

bool readsAnyParameter(Operation *op) {
  return llvm::any_of(op->getOperands(), [](Value v) { return raise::readsParameter(v); });
}

/// Works on each row by itself, and gives rows of the same width or statistics of them.
bool keepsRows(Operation *op) {
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    int64_t rank = raise::rankOf(reduce.getInput());
    return reduce.getKeepdims() && reduce.getAxes() && reduce.getAxes()->size() == 1 &&
           raise::isLastAxis(reduce.getAxes()->front(), rank);
  }
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return widthOf(reshape.getInput()) == widthOf(reshape.getResult());
  return isa<ElementwiseOpInterface, DropoutOp, SliceOp, ExpandOp, LayerNormOp, RMSNormOp>(op);
}

/// True if every reader of the norm joins whole rows of it, in the order in which they lie.
bool joinsRows(Value norm) {
  if (norm.use_empty())
    return false;
  return llvm::all_of(norm.getUsers(), [&](Operation *user) {
    Value value = norm;
    while (auto reshape = dyn_cast<ReshapeOp>(user)) {
      value = reshape.getResult();
      if (!value.hasOneUse())
        break;
      user = *value.getUsers().begin();
    }
    int64_t from = widthOf(norm), to = widthOf(value);
    return !isa<TransposeOp>(user) && to > from && to % from == 0;
  });
}

/// The end of the blocks: of the repeated ones, and of others after them that attend and give
/// features of the same type.
size_t endOfBlocks(const Segmentation &component) {
  const auto &segments = component.segments;
  if (component.starts.empty()) { // no block: the tower is what first reads parameters
    for (size_t i = 0; i < segments.size(); ++i)
      if (llvm::any_of(segments[i], readsAnyParameter))
        return i + 1;
    return 0;
  }
  size_t end = component.starts.back();
  Type features = resultOf(segments[end - 1]).getType();
  bool afterAttention = false;
  for (size_t i = end; i < segments.size() && resultOf(segments[i]).getType() == features; ++i) {
    // The sum that ends a block adds to what entered its segment.
    bool residual =
        isa<AddOp>(segments[i].back()) &&
        llvm::is_contained(segments[i].back()->getOperands(), resultOf(segments[i - 1]));
    afterAttention = residual && (afterAttention || llvm::any_of(segments[i], attends));
    if (afterAttention)
      end = i + 1;
  }
  return end;
}
} // namespace

size_t endOfTower(const Segmentation &component) {
  const auto &segments = component.segments;
  size_t end = endOfBlocks(component);
  if (end == 0)
    return 0;
  int64_t width = widthOf(resultOf(segments[end - 1]));
  for (size_t i = end; i < segments.size(); ++i) {
    if (!llvm::all_of(segments[i], keepsRows) || widthOf(resultOf(segments[i])) != width)
      break;
    bool isNorm = llvm::any_of(segments[i], llvm::IsaPred<LayerNormOp, RMSNormOp>);
    if (isNorm && joinsRows(resultOf(segments[i])))
      break;
    // Rows dropped before a norm go with it; without a norm they are the projector's first step.
    if (llvm::any_of(segments[i], readsAnyParameter))
      end = i + 1;
    if (isNorm)
      break;
  }
  return end;
}

} // namespace omnibal::layers
