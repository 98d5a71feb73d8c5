//===- Reductions.cpp - Reduce*, CumSum --------------------------------------------------===//
#include "importers/onnx/OpTable.h"

using namespace mlir;

namespace omnibal::onnx {

namespace {

/// Axes are an attribute up to the given opset and an operand after it.
template <ReduceKind kind, int lastWithAttribute> LogicalResult buildReduce(NodeContext &c) {
  Emitter &e = c.e;
  Value x = c.input(0), operand;
  std::optional<llvm::SmallVector<int64_t>> axes;
  if (c.opset <= lastWithAttribute) {
    axes = c.getInts("axes");
  } else if ((operand = c.input(1))) {
    if (!e.requireInt(operand, "axes"))
      return failure();
    if (auto known = e.known.getAll(operand))
      axes.emplace(known->begin(), known->end());
  }
  bool keepDims = c.getInt("keepdims", 1) != 0;
  bool noop = c.opset > lastWithAttribute && c.getInt("noop_with_empty_axes", 0) != 0;
  if (elementOf(x).isInteger(1)) // opset 20 adds bool to ReduceMax and ReduceMin
    x = e.cast(x, e.builder.getI64Type());
  if (kind == ReduceKind::Mean && !e.requireFloat(x, "the input"))
    return failure();
  auto finish = [&](Value result) {
    // Over no elements the maximum is the smallest integer: false.
    if (result && kind == ReduceKind::Max && elementOf(c.input(0)).isInteger(1))
      return c.give(e.compare(result, e.intScalar(0), ComparePredicate::GT));
    return c.give(result ? e.cast(result, elementOf(c.input(0))) : result);
  };
  if (operand && !axes) { // axes of the run: the reduced dimensions are not known
    auto known = e.known.get(operand);
    if (!known || (!keepDims && known->empty()))
      return e.unsupported("a number of axes that is not constant"), failure();
    int64_t rank = keepDims ? rankOf(x) : rankOf(x) - int64_t(known->size());
    if (rank < 0)
      return e.invalid("more axes than dimensions"), failure();
    llvm::SmallVector<int64_t> dims(size_t(rank), kDynamic);
    return finish(ReduceOp::create(e.builder, e.loc, RankedTensorType::get(dims, elementOf(x)), x,
                                   operand, kind, DenseI64ArrayAttr(), keepDims, noop));
  }
  llvm::SmallVector<int64_t> over;
  if (!axes || axes->empty()) {
    if (noop)
      return c.give(c.input(0));
    for (int64_t i = 0; i < rankOf(x); ++i)
      over.push_back(i);
  } else {
    for (int64_t a : *axes) {
      std::optional<int64_t> at = e.axis(a, rankOf(x));
      if (!at)
        return failure();
      if (!llvm::is_contained(over, *at))
        over.push_back(*at);
    }
  }
  return finish(e.reduce(x, kind, over, keepDims));
}

LogicalResult buildCumSum(NodeContext &c) {
  Emitter &e = c.e;
  Value x = c.input(0), operand = c.input(1);
  if (!e.requireInt(operand, "axis"))
    return failure();
  auto known = e.known.getAll(operand);
  IntegerAttr axis;
  if (known) {
    if (known->size() != 1)
      return e.invalid("axis must be a scalar"), failure();
    std::optional<int64_t> at = e.axis(known->front(), rankOf(x));
    if (!at)
      return failure();
    axis = e.builder.getI64IntegerAttr(*at);
  }
  return c.give(CumSumOp::create(e.builder, e.loc, x.getType(), x, known ? Value() : operand, axis,
                                 c.getInt("exclusive", 0) != 0, c.getInt("reverse", 0) != 0));
}

} // namespace

llvm::ArrayRef<OpEntry> reductionOps() {
  static const OpEntry table[] = {
      {"CumSum", kFirst, kLast, 2, 2, buildCumSum},
      {"ReduceMax", kFirst, kLast, 1, 2, buildReduce<ReduceKind::Max, 17>},
      {"ReduceMean", kFirst, kLast, 1, 2, buildReduce<ReduceKind::Mean, 17>},
      {"ReduceMin", kFirst, kLast, 1, 2, buildReduce<ReduceKind::Min, 17>},
      {"ReduceProd", kFirst, kLast, 1, 2, buildReduce<ReduceKind::Prod, 17>},
      {"ReduceSum", kFirst, kLast, 1, 2, buildReduce<ReduceKind::Sum, 12>},
  };
  return table;
}

} // namespace omnibal::onnx
