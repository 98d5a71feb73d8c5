//===- GroupEval.cpp - Largest values, rows in groups and their products -----------------===//
#include "dialects/omnibal/interpreter/Evaluation.h"
#include <numeric>

using namespace mlir;

namespace omnibal {
namespace {

LogicalResult topK(Evaluation &e, TopKOp op) {
  const HostTensor &input = e.operand(0);
  int64_t size = input.shape.back(), k = op.getK(), rows = size ? input.size() / size : 0;
  SmallVector<int64_t> shape(input.shape);
  shape.back() = k;
  HostTensor &result = e.addResult(shape);
  std::vector<int64_t> places(size);
  for (int64_t r = 0; r < rows; ++r) {
    std::iota(places.begin(), places.end(), 0);
    llvm::stable_sort(places, [&](int64_t a, int64_t b) {
      double x = input.at(r * size + a), y = input.at(r * size + b);
      return op.getSmallest() ? x < y : x > y;
    });
    std::copy_n(places.begin(), k, result.ints.begin() + r * k);
  }
  return success();
}

LogicalResult groupRows(Evaluation &e, GroupRowsOp op) {
  const HostTensor &ids = e.operand(0);
  int64_t groups = op.getGroups(), to = 0;
  std::vector<int64_t> order(ids.size()), borders(groups + 1);
  for (int64_t group = 0; group < groups; ++group) {
    for (int64_t row = 0; row < ids.size(); ++row)
      if (ids.ints[row] == group)
        order[to++] = row;
    borders[group + 1] = to;
  }
  if (to != ids.size())
    return op.emitOpError() << "has a row of a group outside of [0, " << groups << ")";
  e.addResult({ids.size()}).ints = std::move(order);
  e.addResult({groups + 1}).ints = std::move(borders);
  return success();
}

/// Calls body(group, row) for every row in the order of groups.
template <typename Body>
void forRows(const HostTensor &order, const HostTensor &borders, Body body) {
  for (int64_t group = 0; group + 1 < borders.size(); ++group)
    for (int64_t i = borders.ints[group]; i < borders.ints[group + 1]; ++i)
      body(group, order.ints[i]);
}

LogicalResult groupedLinear(Evaluation &e, GroupedLinearOp op) {
  const HostTensor &input = e.operand(0), &weight = e.operand(1);
  int64_t in = weight.shape[op.getInOut() ? 1 : 2], out = weight.shape[op.getInOut() ? 2 : 1];
  SmallVector<int64_t> shape(input.shape);
  shape.back() = out;
  HostTensor &result = e.addResult(shape);
  forRows(e.operand(2), e.operand(3), [&](int64_t group, int64_t row) {
    for (int64_t o = 0; o < out; ++o)
      for (int64_t i = 0; i < in; ++i)
        result.floats[row * out + o] +=
            input.floats[row * in + i] *
            weight.floats[group * in * out + (op.getInOut() ? i * out + o : o * in + i)];
  });
  return success();
}

LogicalResult groupedLinearWeightGrad(Evaluation &e, GroupedLinearWeightGradOp op) {
  const HostTensor &input = e.operand(0), &grad = e.operand(1), &borders = e.operand(3);
  int64_t in = input.shape.back(), out = grad.shape.back(), groups = borders.size() - 1;
  HostTensor &result = e.addResult({groups, op.getInOut() ? in : out, op.getInOut() ? out : in});
  forRows(e.operand(2), borders, [&](int64_t group, int64_t row) {
    for (int64_t o = 0; o < out; ++o)
      for (int64_t i = 0; i < in; ++i)
        result.floats[group * in * out + (op.getInOut() ? i * out + o : o * in + i)] +=
            input.floats[row * in + i] * grad.floats[row * out + o];
  });
  return success();
}

} // namespace

std::optional<LogicalResult> evaluateGroups(Evaluation &e) {
  return llvm::TypeSwitch<Operation *, std::optional<LogicalResult>>(e.op)
      .Case([&](TopKOp op) { return topK(e, op); })
      .Case([&](GroupRowsOp op) { return groupRows(e, op); })
      .Case([&](GroupedLinearOp op) { return groupedLinear(e, op); })
      .Case([&](GroupedLinearWeightGradOp op) { return groupedLinearWeightGrad(e, op); })
      .Default([](Operation *) { return std::nullopt; });
}

} // namespace omnibal
