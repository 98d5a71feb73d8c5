//===- NNOps.cpp - Shape rules of matrix products and convolutions -----------------------===//
#include "dialects/omnibal/ir/ShapeInference.h"

using namespace mlir;
using namespace omnibal;

OMNIBAL_SHAPE_RULE(MatMulOp) {
  SymbolicShape lhs = shapes[0], rhs = shapes[1];
  if (lhs.empty() || rhs.empty()) // matmul_c1
    return emitOpError("needs operands of rank 1 or more");
  bool vectorLhs = lhs.size() == 1, vectorRhs = rhs.size() == 1;
  if ((vectorLhs && getTransposeLhs()) || (vectorRhs && getTransposeRhs())) // matmul_c1
    return emitOpError("cannot transpose a vector");
  if (vectorLhs)
    lhs.insert(lhs.begin(), SymbolicDim(1));
  if (vectorRhs)
    rhs.push_back(SymbolicDim(1));
  if (getTransposeLhs())
    std::swap(lhs[lhs.size() - 1], lhs[lhs.size() - 2]);
  if (getTransposeRhs())
    std::swap(rhs[rhs.size() - 1], rhs[rhs.size() - 2]);
  ArrayRef<SymbolicDim> l(lhs), r(rhs);
  auto batch = broadcast(l.drop_back(2), r.drop_back(2));
  if (l.back() != r[r.size() - 2] || !batch) // matmul_c2
    return emitOpError() << "cannot multiply " << toString(l) << " and " << toString(r);
  SymbolicShape result = *batch;
  if (!vectorLhs)
    result.push_back(l[l.size() - 2]);
  if (!vectorRhs)
    result.push_back(r.back());
  results.push_back(result);
  return success();
}

OMNIBAL_SHAPE_RULE(LinearOp) {
  const SymbolicShape &input = shapes[0], &weight = shapes[1];
  if (input.empty() || weight.size() != 2) // linear_c1
    return emitOpError("needs an input of rank 1 or more and a weight of rank 2");
  const SymbolicDim &in = weight[getInOut() ? 0 : 1], &out = weight[getInOut() ? 1 : 0];
  if (input.back() != in) // linear_c2
    return emitOpError() << "input " << toString(input) << " does not fit weight "
                         << toString(weight);
  if (getBias() && shapes[2] != SymbolicShape{out}) // linear_c3
    return emitOpError() << "bias must be [" << toString(out) << "], not " << toString(shapes[2]);
  SymbolicShape result = input;
  result.back() = out;
  results.push_back(result);
  return success();
}

OMNIBAL_SHAPE_RULE(LinearWeightGradOp) {
  SymbolicShape input = shapes[0], grad = shapes[1];
  if (input.empty() || grad.empty() ||
      ArrayRef<SymbolicDim>(input).drop_back() !=
          ArrayRef<SymbolicDim>(grad).drop_back()) // linear_weight_grad_c1
    return emitOpError() << "input " << toString(input) << " and gradient " << toString(grad)
                         << " must agree in all but the last dimension";
  if (getInOut())
    results.push_back({input.back(), grad.back()});
  else
    results.push_back({grad.back(), input.back()});
  return success();
}

OMNIBAL_SHAPE_RULE(RowSquaresOp) {
  const SymbolicShape &weight = shapes[0], &a = shapes[1], &b = shapes[2];
  if (weight.size() != 2) // row_squares_c1
    return emitOpError("needs a weight of rank 2");
  const SymbolicDim &in = weight[getInOut() ? 0 : 1], &out = weight[getInOut() ? 1 : 0];
  if (a.size() != 2 || b.size() != 2 || a[1] != in || b[0] != out || a[0] != b[1]) // row_squares_c2
    return emitOpError() << "weight " << toString(weight) << " needs [rank, " << toString(in)
                         << "] and [" << toString(out) << ", rank], not " << toString(a) << " and "
                         << toString(b);
  if (!getScale().isFinite()) // row_squares_c3
    return emitOpError("needs a scale that is a finite number");
  results.push_back({out});
  return success();
}

namespace {
/// The attributes fit the spatial rank.
template <typename OpT> LogicalResult verifyConvAttributes(OpT op, size_t rank) {
  if (rank < 3) // conv_c1
    return op.emitOpError("needs a batch, a channel and at least one spatial dimension");
  size_t spatial = rank - 2;
  if (op.getStrides().size() != spatial || op.getDilations().size() != spatial ||
      op.getPads().size() != 2 * spatial) // conv_c2
    return op.emitOpError() << "needs " << spatial << " strides and dilations and " << 2 * spatial
                            << " pads";
  for (size_t i = 0; i < spatial; ++i)
    if (op.getStrides()[i] < 1 || op.getDilations()[i] < 1 || op.getPads()[i] < 0 ||
        op.getPads()[spatial + i] < 0) // conv_c3
      return op.emitOpError("needs strides and dilations >= 1 and pads >= 0");
  if (op.getGroup() < 1) // conv_c4
    return op.emitOpError("needs a group count >= 1");
  return success();
}

/// Output shape of a convolution.
template <typename OpT>
FailureOr<SymbolicShape> convShape(OpT op, const SymbolicShape &input,
                                   const SymbolicShape &weight) {
  if (failed(verifyConvAttributes(op, input.size())))
    return failure();
  if (weight.size() != input.size() || !weight[0].isStatic() ||
      weight[0].constant % op.getGroup() != 0 ||
      multiply(weight[1], op.getGroup()) != input[1]) // conv_c4
    return op.emitOpError() << "weight " << toString(weight) << " with " << op.getGroup()
                            << " groups does not fit input " << toString(input);
  SymbolicShape result{input[0], weight[0]};
  size_t spatial = input.size() - 2;
  for (size_t i = 0; i < spatial; ++i) {
    if (!weight[2 + i].isStatic()) // conv_c4
      return op.emitOpError("needs a weight of constant size");
    int64_t reach = op.getDilations()[i] * (weight[2 + i].constant - 1) + 1;
    SymbolicDim room = input[2 + i] + SymbolicDim(op.getPads()[i] + op.getPads()[spatial + i]) -
                       SymbolicDim(reach);
    int64_t stride = op.getStrides()[i];
    if (room.isStatic() && room.constant < 0) // conv_c5
      return op.emitOpError() << "kernel is larger than the padded input on spatial axis " << i;
    auto steps = room.isStatic() ? std::optional(SymbolicDim(room.constant / stride))
                                 : divideExactly(room, stride);
    if (!steps) // conv_c5
      return op.emitOpError() << "has " << toString(room) << " / " << stride
                              << " output positions, which is not affine";
    result.push_back(*steps + SymbolicDim(1));
  }
  return result;
}
} // namespace

OMNIBAL_SHAPE_RULE(ConvOp) {
  FailureOr<SymbolicShape> result = convShape(*this, shapes[0], shapes[1]);
  if (failed(result))
    return failure();
  if (getBias() && shapes[2] != SymbolicShape{shapes[1][0]}) // conv_c6
    return emitOpError() << "bias must be [" << toString(shapes[1][0]) << "]";
  results.push_back(*result);
  return success();
}

OMNIBAL_SHAPE_RULE(ConvInputGradOp) {
  auto declared = getResultShape(*this);
  if (!declared) // conv_input_grad_c1
    return emitOpError("needs a result type of known size");
  FailureOr<SymbolicShape> output = convShape(*this, *declared, shapes[1]);
  if (failed(output))
    return failure();
  if (*output != shapes[0]) // conv_input_grad_c1
    return emitOpError() << "gradient " << toString(shapes[0]) << " is not of the output's shape "
                         << toString(*output);
  results.push_back(*declared);
  return success();
}

OMNIBAL_SHAPE_RULE(ConvWeightGradOp) {
  auto declared = getResultShape(*this);
  if (!declared) // conv_weight_grad_c1
    return emitOpError("needs a result type of known size");
  FailureOr<SymbolicShape> output = convShape(*this, shapes[0], *declared);
  if (failed(output))
    return failure();
  if (*output != shapes[1]) // conv_weight_grad_c1
    return emitOpError() << "gradient " << toString(shapes[1]) << " is not of the output's shape "
                         << toString(*output);
  results.push_back(*declared);
  return success();
}
