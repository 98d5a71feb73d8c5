//===- Loss.cpp - SoftmaxCrossEntropyLoss, NegativeLogLikelihoodLoss ---------------------===//
#include "importers/onnx/OpTable.h"

using namespace mlir;

namespace omnibal::onnx {

namespace {

/// Loss of log-probabilities [N, C, d..] at targets [N, d..], reduced as the node says.
Value negativeLogLikelihood(NodeContext &c, Value logProbabilities, Value target, Value weight) {
  Emitter &e = c.e;
  if (!logProbabilities || !e.requireInt(target, "the target"))
    return {};
  if (rankOf(logProbabilities) != rankOf(target) + 1 || rankOf(logProbabilities) < 2)
    return e.invalid("the target must have one dimension less than the input");
  Type element = elementOf(logProbabilities);
  Value counted; // i1: targets that are not ignored
  Value index = target;
  if (c.has("ignore_index")) {
    Value ignored =
        e.compare(target, e.intScalar(c.getInt("ignore_index", 0)), ComparePredicate::EQ);
    counted = e.unary<NotOp>(ignored);
    index = e.select(counted, target, e.intScalar(0));
  }
  const llvm::SmallVector<int64_t, 1> classAxis = {1};
  Value picked = e.gatherElements(logProbabilities, e.unsqueeze(index, classAxis), 1);
  Value loss = e.unary<NegOp>(e.squeeze(picked, classAxis));
  Value weights; // per target; null: all 1
  if (weight)
    weights = e.gather(weight, index, 0);
  if (counted) {
    Value zero = e.scalar(0, element);
    weights = e.select(counted, weights ? weights : e.scalar(1, element), zero);
  }
  if (weights)
    loss = e.mul(loss, weights);
  if (!loss)
    return {};
  llvm::SmallVector<int64_t> all;
  for (int64_t i = 0; i < rankOf(loss); ++i)
    all.push_back(i);
  std::string reduction = c.getString("reduction", "mean");
  if (reduction == "none")
    return loss;
  if (reduction == "sum")
    return e.reduce(loss, ReduceKind::Sum, all, false);
  if (reduction != "mean")
    return e.invalid("reduction is '" + reduction + "'");
  if (!weights)
    return e.reduce(loss, ReduceKind::Mean, all, false);
  return e.div(e.reduce(loss, ReduceKind::Sum, all, false),
               e.reduce(weights, ReduceKind::Sum, all, false));
}

LogicalResult buildNegativeLogLikelihood(NodeContext &c) {
  if (!c.e.requireFloat(c.input(0), "the input"))
    return failure();
  return c.give(negativeLogLikelihood(c, c.input(0), c.input(1), c.input(2)));
}

LogicalResult buildSoftmaxCrossEntropy(NodeContext &c) {
  Value logProbabilities = c.e.logSoftmax(c.input(0), 1);
  Value loss = negativeLogLikelihood(c, logProbabilities, c.input(1), c.input(2));
  if (!loss)
    return failure();
  return c.give(llvm::ArrayRef<Value>{loss, logProbabilities});
}

} // namespace

llvm::ArrayRef<OpEntry> lossOps() {
  static const OpEntry table[] = {
      {"NegativeLogLikelihoodLoss", kFirst, kLast, 2, 3, buildNegativeLogLikelihood},
      {"SoftmaxCrossEntropyLoss", kFirst, kLast, 2, 3, buildSoftmaxCrossEntropy},
  };
  return table;
}

} // namespace omnibal::onnx
