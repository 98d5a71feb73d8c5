//===- Costs.cpp - FLOPs, bytes and recomputation of every op ----------------------------===//
//
// Hand-derived; test/unit/dialects/omnibal/CostTest.cpp counts again. A multiply-add is 2 FLOPs; of
// the other functions a simple one (add, compare, ..) is 1 and a transcendental one 8, the order of
// what a vectorized polynomial takes. Bytes are those of the op alone, before any fusion: each
// operand read and each result written once.
//
//===-------------------------------------------------------------------------------------------------------===//
#include "dialects/omnibal/ir/BatchValues.h"
#include "dialects/omnibal/ir/Layouts.h"
#include "dialects/omnibal/ir/OmnibalCrossOps.h"
#include "dialects/omnibal/ir/OmnibalPartOps.h"
#include "dialects/omnibal/ir/QuantizedTensor.h"
#include "dialects/omnibal/ir/ShapeInference.h"

using namespace mlir;
using namespace omnibal;

namespace {
constexpr int64_t transcendental = 8;
/// max, subtract, exp, sum, divide.
constexpr int64_t softmaxPerElement = 4 + transcendental;

SymbolicShape shapeOf(Value value) {
  auto shape = getSymbolicShape(cast<RankedTensorType>(value.getType()));
  return shape ? *shape : SymbolicShape{SymbolicDim(0)}; // open sizes cost nothing yet
}
SymbolicDim elementsOf(Value value) { return affineProduct(shapeOf(value)); }
SymbolicDim times(const SymbolicDim &dim, int64_t factor) { return *multiply(dim, factor); }
SymbolicDim bytesOf(Value value) {
  if (isQuantized(value.getType()))
    return SymbolicDim(quantizedShapeOf(value.getType()).bytes());
  unsigned width = cast<RankedTensorType>(value.getType()).getElementType().getIntOrFloatBitWidth();
  return times(elementsOf(value), (width + 7) / 8);
}
/// All operands read and all used results written once; so are the numbers that codes become.
SymbolicDim traffic(Operation *op) {
  SymbolicDim bytes;
  for (Value operand : op->getOperands()) {
    bytes = bytes + bytesOf(operand);
    if (isQuantized(operand.getType()))
      bytes = bytes + times(elementsOf(operand), 2 * int64_t{sizeof(float)});
  }
  for (Value result : op->getResults())
    bytes = bytes + bytesOf(result);
  return bytes;
}
/// `flops` an element of `counted`, all operands and results moved.
OpCost perElement(Operation *op, Value counted, int64_t flops) {
  return {times(elementsOf(counted), flops), traffic(op)};
}
/// Only as many elements as the result has are read and written.
OpCost copyOf(Value result) { return {SymbolicDim(), times(bytesOf(result), 2)}; }
/// `flops` times the product of `dims`; a part in N^2 is work in squared sample lengths.
OpCost matrixProduct(Operation *op, SymbolicShape dims, int64_t flops) {
  OpCost cost;
  dims.push_back(SymbolicDim(flops));
  cost.flops = affineProduct(dims, &cost.flopsPerSquaredToken, &cost.flopsPerSquaredTile);
  cost.bytes = traffic(op);
  cost.isMatrixProduct = true;
  return cost;
}

int64_t elementwiseFlops(Operation *op) {
  if (isa<ExpOp, LogOp, SqrtOp, RsqrtOp, ErfOp, TanhOp, CosOp, SinOp, PowOp>(op))
    return transcendental;
  if (isa<SigmoidOp, SiluOp, QuickGeluOp, RandomUniformOp>(op))
    return transcendental + 4;
  if (isa<GeluOp>(op))
    return transcendental + 5;
  if (isa<SiluGradOp, QuickGeluGradOp>(op))
    return transcendental + 8;
  if (isa<GeluGradOp>(op))
    return 2 * transcendental + 8;
  return 1;
}
OpCost elementwiseCost(Operation *op) {
  return perElement(op, op->getResult(0), elementwiseFlops(op));
}

/// The largest segment, where the borders say it (windows), else 0.
int64_t segmentRows(Value borders) {
  auto batch = borders ? borders.getDefiningOp<BatchValueOp>() : BatchValueOp();
  auto rows = batch ? batch->getAttrOfType<IntegerAttr>(segmentRowsAttrName) : IntegerAttr();
  return rows ? rows.getInt() : 0;
}

/// Attention's work: `perPair` FLOPs for every query and key of a head that see each other.
template <typename OpT> OpCost attentionCost(OpT op, int64_t perPair) {
  SymbolicShape q = shapeOf(op.getQuery()), k = shapeOf(op.getKey());
  if (q.size() != 4 || k.size() != 4)
    return {};
  // Causal kinds see half of the pairs; a window sees fewer still, but how many depends on the
  // samples.
  MaskKind kind = op.getMaskKind();
  if (kind != MaskKind::Full && kind != MaskKind::Explicit)
    perPair /= 2;
  if (int64_t rows = segmentRows(op.getCuSeqlens())) // those at a picture's border are smaller
    return matrixProduct(op, {q[0], q[1], q[2], rows}, perPair);
  return matrixProduct(op, {q[0], q[1], q[2], k[2]}, perPair);
}
template <typename OpT> std::pair<int64_t, int64_t> headSizes(OpT op) {
  SymbolicShape q = shapeOf(op.getQuery()), v = shapeOf(op.getValue());
  return {q.back().constant, v.back().constant};
}
/// How many pictures a token sees is data: what counts is one, the usual case, for every token.
template <typename OpT> OpCost crossCost(OpT op, int64_t perPair) {
  SymbolicShape q = shapeOf(op.getQuery());
  if (q.size() != 4)
    return {};
  return matrixProduct(op, {q[1], q[2], SymbolicDim(op.getRows())}, perPair);
}
/// `products` multiply-adds with each element of the state, for every token of a head.
template <typename OpT> OpCost gatedDeltaCost(OpT op, int64_t products) {
  SymbolicShape dims = shapeOf(op.getQuery());
  dims.push_back(shapeOf(op.getValue()).back());
  return {times(affineProduct(dims), 2 * products), traffic(op)};
}
/// Elements of a convolution weight that one output element uses.
int64_t tapsOf(Value weight) {
  SymbolicShape shape = shapeOf(weight);
  return affineProduct(ArrayRef<SymbolicDim>(shape).drop_front()).constant;
}
} // namespace

// Elementwise ops: cheap to recompute, every one of them.
#define ELEMENTWISE(OP)                                                                            \
  OpCost OP::getCost() { return elementwiseCost(*this); }                                          \
  bool OP::isCheapToRecompute() { return true; }
ELEMENTWISE(NegOp)
ELEMENTWISE(ExpOp)
ELEMENTWISE(LogOp)
ELEMENTWISE(SqrtOp)
ELEMENTWISE(RsqrtOp)
ELEMENTWISE(ReciprocalOp)
ELEMENTWISE(ErfOp)
ELEMENTWISE(TanhOp)
ELEMENTWISE(SigmoidOp)
ELEMENTWISE(CosOp)
ELEMENTWISE(SinOp)
ELEMENTWISE(AbsOp)
ELEMENTWISE(FloorOp)
ELEMENTWISE(SignOp)
ELEMENTWISE(NotOp)
ELEMENTWISE(IsNaNOp)
ELEMENTWISE(CastOp)
ELEMENTWISE(ReluOp)
ELEMENTWISE(SiluOp)
ELEMENTWISE(QuickGeluOp)
ELEMENTWISE(GeluOp)
ELEMENTWISE(SiluGradOp)
ELEMENTWISE(QuickGeluGradOp)
ELEMENTWISE(GeluGradOp)
ELEMENTWISE(AddOp)
ELEMENTWISE(SubOp)
ELEMENTWISE(MulOp)
ELEMENTWISE(DivOp)
ELEMENTWISE(PowOp)
ELEMENTWISE(ModOp)
ELEMENTWISE(MaxOp)
ELEMENTWISE(MinOp)
ELEMENTWISE(AndOp)
ELEMENTWISE(OrOp)
ELEMENTWISE(XorOp)
ELEMENTWISE(CompareOp)
ELEMENTWISE(SelectOp)
ELEMENTWISE(RandomUniformOp)
#undef ELEMENTWISE

#define COST(OP, CHEAP, ...)                                                                       \
  OpCost OP::getCost() { return __VA_ARGS__; }                                                     \
  bool OP::isCheapToRecompute() { return CHEAP; }

// Views and shape arithmetic: nothing moves.
COST(ReshapeOp, true, {})
COST(SqueezeOp, true, {})
COST(UnsqueezeOp, true, {})
COST(ExpandOp, true, {})
COST(ShapeOp, true, {})
COST(SizeOp, true, {})
// Copies.
COST(TransposeOp, true, copyOf(getResult()))
COST(SliceOp, true, copyOf(getResult()))
COST(ConcatOp, true, copyOf(getResult()))
COST(TileOp, true, copyOf(getResult()))
COST(PadOp, true, {SymbolicDim(), traffic(*this)})
COST(RangeOp, true, perElement(*this, getResult(), 1))
COST(NonZeroOp, false, {SymbolicDim(), traffic(*this)})
COST(TriluOp, true, copyOf(getResult()))
// Indexing: rows that are touched, and the indices.
COST(GatherOp, true, {SymbolicDim(), times(bytesOf(getResult()), 2) + bytesOf(getIndices())})
COST(GatherNDOp, true, {SymbolicDim(), times(bytesOf(getResult()), 2) + bytesOf(getIndices())})
COST(GatherElementsOp, true,
     {SymbolicDim(), times(bytesOf(getResult()), 2) + bytesOf(getIndices())})
COST(ScatterNDOp, false, {elementsOf(getUpdates()), traffic(*this) + bytesOf(getUpdates())})
COST(ScatterElementsOp, false, {elementsOf(getUpdates()), traffic(*this) + bytesOf(getUpdates())})
COST(EmbeddingOp, true, {SymbolicDim(), times(bytesOf(getResult()), 2) + bytesOf(getIds())})
COST(EmbeddingGradOp, false, {elementsOf(getGrad()), traffic(*this) + bytesOf(getGrad())})
COST(ShiftTokensOp, true, {SymbolicDim(), times(bytesOf(getResult()), 2)})
COST(ImageMergeOp, true, {SymbolicDim(), times(bytesOf(getResult()), 2) + bytesOf(getImageRows())})
COST(ImageMergeGradOp, false, {elementsOf(getGrad()), traffic(*this)})
COST(TopKOp, false, perElement(*this, getInput(), int64_t(getK())))
COST(GroupRowsOp, false, perElement(*this, getIds(), 1))
// Row work.
COST(ReduceOp, true, perElement(*this, getInput(), 1))
COST(CumSumOp, true, perElement(*this, getInput(), 1))
COST(SoftmaxOp, true, perElement(*this, getInput(), softmaxPerElement))
COST(LogSoftmaxOp, true, perElement(*this, getInput(), softmaxPerElement))
COST(LayerNormOp, true,
     perElement(*this, getInput(), 7))                  // mean, center, square, sum, scale x2, bias
COST(RMSNormOp, true, perElement(*this, getInput(), 4)) // square, sum, scale x2
COST(RopeOp, true, perElement(*this, getInput(), 3))
// Losses.
COST(CrossEntropyOp, false, perElement(*this, getLogits(), softmaxPerElement))
COST(CrossEntropyGradOp, false, perElement(*this, getLogits(), softmaxPerElement + 1))
COST(LinearCrossEntropyOp, false,
     matrixProduct(*this, {elementsOf(getHidden()), shapeOf(getWeight())[0]}, 2))
COST(LinearCrossEntropyGradOp, false,
     matrixProduct(*this, {elementsOf(getHidden()), shapeOf(getWeight())[0]}, 6))
COST(WordStatisticsOp, false,
     matrixProduct(*this, {elementsOf(getHidden()), shapeOf(getWeight())[0]}, 2))
COST(JoinedCrossEntropyGradOp, false,
     matrixProduct(*this, {elementsOf(getHidden()), shapeOf(getWeight())[0]}, 6))
// Only the statistics are read.
COST(JoinedCrossEntropyOp, true,
     (OpCost{times(elementsOf(getStatistics()), transcendental),
             bytesOf(getStatistics()) + bytesOf(getTargets()) + bytesOf(getLoss())}))
COST(JoinedPredictionOp, true, perElement(*this, getPredictions(), 1))
COST(PreferenceLossOp, true, perElement(*this, getLosses(), 1))
COST(PreferenceLossGradOp, false, perElement(*this, getLosses(), 1))
// Matrix products. elements(input) * out = rows * in * out.
COST(LinearOp, false,
     matrixProduct(*this, {elementsOf(getInput()), shapeOf(getWeight())[getInOut() ? 1 : 0]}, 2))
COST(LinearWeightGradOp, false,
     matrixProduct(*this, {elementsOf(getInput()), shapeOf(getGrad()).back()}, 2))
// The product b a, and for each of its elements a sum and a square.
COST(RowSquaresOp, false,
     matrixProduct(*this, {elementsOf(getWeight()), shapeOf(getA())[0] + SymbolicDim(1)}, 2))
// Every row has one weight, whatever its group.
COST(GroupedLinearOp, false,
     matrixProduct(*this, {elementsOf(getInput()), shapeOf(getResult()).back()}, 2))
COST(GroupedLinearWeightGradOp, false,
     matrixProduct(*this, {elementsOf(getInput()), shapeOf(getGrad()).back()}, 2))
COST(ConvOp, false, matrixProduct(*this, {elementsOf(getResult())}, 2 * tapsOf(getWeight())))
COST(ConvInputGradOp, false, matrixProduct(*this, {elementsOf(getGrad())}, 2 * tapsOf(getWeight())))
COST(ConvWeightGradOp, false,
     matrixProduct(*this, {elementsOf(getGrad())}, 2 * tapsOf(getResult())))
#undef COST

OpCost MatMulOp::getCost() {
  SymbolicShape lhs = shapeOf(getLhs()), dims = shapeOf(getResult());
  if (lhs.empty())
    return {};
  dims.push_back(getTransposeLhs() && lhs.size() > 1 ? lhs[lhs.size() - 2] : lhs.back());
  return matrixProduct(*this, dims, 2);
}
bool MatMulOp::isCheapToRecompute() { return false; }

OpCost AttentionOp::getCost() { // scores, weighted values
  auto [size, valueSize] = headSizes(*this);
  return attentionCost(*this, 2 * size + 2 * valueSize);
}
bool AttentionOp::isCheapToRecompute() { return false; }

OpCost AttentionGradOp::getCost() { // scores, dq, dk; dp, dv
  auto [size, valueSize] = headSizes(*this);
  return attentionCost(*this, 6 * size + 4 * valueSize);
}
bool AttentionGradOp::isCheapToRecompute() { return false; }

OpCost CrossAttentionOp::getCost() { // scores, weighted values
  auto [size, valueSize] = headSizes(*this);
  return crossCost(*this, 2 * size + 2 * valueSize);
}
bool CrossAttentionOp::isCheapToRecompute() { return false; }

OpCost CrossAttentionGradOp::getCost() { // scores, dq, dk; dp, dv
  auto [size, valueSize] = headSizes(*this);
  return crossCost(*this, 6 * size + 4 * valueSize);
}
bool CrossAttentionGradOp::isCheapToRecompute() { return false; }

// Decay, what the key reads, the update, what the query reads.
OpCost GatedDeltaOp::getCost() { return gatedDeltaCost(*this, 4); }
bool GatedDeltaOp::isCheapToRecompute() { return false; }
// The states again, and the gradients of each of the four with two operands.
OpCost GatedDeltaGradOp::getCost() { return gatedDeltaCost(*this, 12); }
bool GatedDeltaGradOp::isCheapToRecompute() { return false; }

namespace {
/// A byte on a link takes as long as so many that a kernel reads or writes.
constexpr int64_t linkWeight = 8;

SymbolicDim dividedUp(const SymbolicDim &dim, int64_t divisor) {
  auto up = [&](int64_t value) { return (value + divisor - 1) / divisor; };
  return {up(dim.constant), up(dim.perTile), up(dim.perToken), up(dim.perOwnTile),
          up(dim.perOwnToken)};
}
} // namespace

/// What is read and written, and what is sent where shares are even.
OpCost ReshardOp::getCost() {
  const Move move = moveOf(getFrom(), getTo());
  if (move == Move::None)
    return {};
  const auto parts = static_cast<int64_t>(getParts());
  SymbolicDim bytes = bytesOf(getInput()) + bytesOf(getResult());
  if (!sends(move))
    return {SymbolicDim(), bytes};
  auto whole = cast<RankedTensorType>(getWhole());
  const int64_t width = (whole.getElementTypeBitWidth() + 7) / 8;
  auto shape = getSymbolicShape(whole);
  SymbolicDim all = shape ? times(affineProduct(*shape), width) : SymbolicDim(0);
  SymbolicDim sent =
      dividedUp(times(all, parts - 1), move == Move::AllToAll ? parts * parts : parts);
  if (move == Move::AllReduce)
    sent = times(sent, 2);
  return {SymbolicDim(), bytes + times(sent, linkWeight)};
}
bool ReshardOp::isCheapToRecompute() { return !sends(moveOf(getFrom(), getTo())); }
