//===- ReductionOps.cpp - Shape rules of reductions and normalizations -------------------===//
#include "dialects/omnibal/ir/ShapeInference.h"

using namespace mlir;
using namespace omnibal;

OMNIBAL_SHAPE_RULE(ReduceOp) {
  const SymbolicShape &input = shapes[0];
  SmallVector<int64_t> axes;
  if (getAxes()) {
    axes.assign(getAxes()->begin(), getAxes()->end());
  } else if (getAxesOperand()) {
    auto known = requireStatic(*this, contents, 1, "axes");
    if (failed(known))
      return failure();
    axes = *known;
  }
  if (axes.empty() && !getNoopWithEmptyAxes())
    axes = llvm::to_vector(llvm::seq<int64_t>(0, input.size()));
  if (failed(normalizeAxes(*this, axes, input.size()))) // reduce_c1
    return failure();
  SymbolicShape result;
  for (size_t i = 0; i < input.size(); ++i) {
    if (!llvm::is_contained(axes, int64_t(i)))
      result.push_back(input[i]);
    else if (getKeepdims())
      result.push_back(SymbolicDim(1));
  }
  results.push_back(result);
  return success();
}

OMNIBAL_SHAPE_RULE(CumSumOp) {
  if (!getAxis() && !getAxisOperand()) // cumsum_c1
    return emitOpError("needs an axis, as operand or attribute");
  if (getAxis() && failed(normalizeAxis(*this, *getAxis(), shapes[0].size()))) // cumsum_c2
    return failure();
  results.push_back(shapes[0]);
  return success();
}

OMNIBAL_SHAPE_RULE(SoftmaxOp) {
  if (failed(normalizeAxis(*this, getAxis(), shapes[0].size()))) // softmax_c1
    return failure();
  results.push_back(shapes[0]);
  return success();
}

OMNIBAL_SHAPE_RULE(LogSoftmaxOp) {
  if (failed(normalizeAxis(*this, getAxis(), shapes[0].size()))) // log_softmax_c1
    return failure();
  results.push_back(shapes[0]);
  return success();
}

namespace {
/// Scale and bias broadcast to the normalized dimensions (ONNX allows any shape that does).
LogicalResult verifyNorm(Operation *op, ShapeList shapes, int64_t axis, double epsilon) {
  FailureOr<int64_t> first = normalizeAxis(op, axis, shapes[0].size());
  if (failed(first))
    return failure();
  for (const SymbolicShape &shape : shapes.drop_front()) {
    auto joint = broadcast(shapes[0], shape);
    if (!joint || *joint != shapes[0])
      return op->emitOpError() << "scale or bias " << toString(shape)
                               << " does not broadcast to the input " << toString(shapes[0]);
  }
  if (!(epsilon >= 0))
    return op->emitOpError("epsilon must not be negative");
  return success();
}
} // namespace

OMNIBAL_SHAPE_RULE(LayerNormOp) {
  if (failed(verifyNorm(*this, shapes, getAxis(), getEpsilon().convertToDouble()))) // layer_norm_c1
    return failure();
  results.push_back(shapes[0]);
  return success();
}

OMNIBAL_SHAPE_RULE(RMSNormOp) {
  if (failed(verifyNorm(*this, shapes, getAxis(), getEpsilon().convertToDouble()))) // rms_norm_c1
    return failure();
  results.push_back(shapes[0]);
  return success();
}
