//===- GroupOps.cpp - Shape rules of top_k and of products in groups of rows -------------===//
#include "dialects/omnibal/ir/ShapeInference.h"

using namespace mlir;
using namespace omnibal;

OMNIBAL_SHAPE_RULE(TopKOp) {
  const SymbolicShape &input = shapes[0];
  if (input.empty() || !input.back().isStatic()) // top_k_c1
    return emitOpError() << "needs a last dimension of constant size, not " << toString(input);
  int64_t k = getK();
  if (k < 1 || k > input.back().constant) // top_k_c2
    return emitOpError() << "cannot take " << k << " of " << input.back().constant << " values";
  SymbolicShape result = input;
  result.back() = k;
  results.push_back(result);
  return success();
}

OMNIBAL_SHAPE_RULE(GroupRowsOp) {
  auto rows = product(shapes[0]);
  if (!rows) // group_rows_c1
    return emitOpError() << "has " << toString(shapes[0]) << " rows, which is not affine";
  int64_t groups = getGroups();
  if (groups < 1) // group_rows_c2
    return emitOpError("needs at least one group");
  results.append({SymbolicShape{*rows}, SymbolicShape{SymbolicDim(groups + 1)}});
  return success();
}

namespace {
/// Order and borders fit rows of this shape and so many groups.
LogicalResult verifyGroups(Operation *op, const SymbolicShape &rows, const SymbolicDim &groups,
                           const SymbolicShape &order, const SymbolicShape &borders) {
  auto count = rows.empty() ? std::nullopt : product(ArrayRef<SymbolicDim>(rows).drop_back());
  if (!count || order != SymbolicShape{*count})
    return op->emitOpError() << "has an order " << toString(order) << " for rows "
                             << toString(rows);
  if (!groups.isStatic() || borders != SymbolicShape{groups + 1})
    return op->emitOpError() << "has borders " << toString(borders) << " for " << toString(groups)
                             << " groups";
  return success();
}
} // namespace

OMNIBAL_SHAPE_RULE(GroupedLinearOp) {
  const SymbolicShape &input = shapes[0], &weight = shapes[1];
  if (weight.size() != 3) // grouped_linear_c1
    return emitOpError("needs a weight of rank 3");
  const SymbolicDim &in = weight[getInOut() ? 1 : 2], &out = weight[getInOut() ? 2 : 1];
  if (input.empty() || input.back() != in) // grouped_linear_c2
    return emitOpError() << "input " << toString(input) << " does not fit weight "
                         << toString(weight);
  if (failed(verifyGroups(*this, input, weight[0], shapes[2], shapes[3]))) // grouped_linear_c3
    return failure();
  SymbolicShape result = input;
  result.back() = out;
  results.push_back(result);
  return success();
}

OMNIBAL_SHAPE_RULE(GroupedLinearWeightGradOp) {
  const SymbolicShape &input = shapes[0], &grad = shapes[1], &borders = shapes[3];
  if (input.empty() || grad.empty() || input.size() != grad.size() ||
      ArrayRef<SymbolicDim>(input).drop_back() !=
          ArrayRef<SymbolicDim>(grad).drop_back()) // grouped_linear_weight_grad_c1
    return emitOpError() << "input " << toString(input) << " and gradient " << toString(grad)
                         << " must agree in all but the last dimension";
  if (borders.size() != 1 || !borders[0].isStatic() ||
      failed(verifyGroups(*this, input, borders[0] - 1, shapes[2],
                          borders))) // grouped_linear_weight_grad_c2
    return failure();
  SymbolicDim groups = borders[0] - 1;
  if (getInOut())
    results.push_back({groups, input.back(), grad.back()});
  else
    results.push_back({groups, grad.back(), input.back()});
  return success();
}
