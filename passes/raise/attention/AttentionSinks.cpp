//===- AttentionSinks.cpp ------------------------------------------------------------------===//
#include "passes/raise/attention/AttentionSinks.h"

using namespace mlir;

namespace omnibal::raise {
namespace {

/// What repeated rows are made of.
Value stripExpand(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ExpandOp, CastOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

} // namespace

std::optional<SinkScores> matchSinkScores(Value joined) {
  auto concat = joined.getDefiningOp<ConcatOp>();
  if (!concat || concat.getInputs().size() != 2 || rankOf(joined) != 4 ||
      !isLastAxis(concat.getAxis(), 4))
    return std::nullopt;
  Value scores = concat.getInputs()[0], sinks = concat.getInputs()[1];
  if (!shapeOf(sinks)[3].isOne())
    return std::nullopt;
  sinks = stripExpand(sinks);
  SymbolicShape shape = shapeOf(sinks);
  const SymbolicDim heads = shapeOf(scores)[1];
  // One logit a head: of no row and no sample.
  bool perHead = shape.size() == 4 && shape[0].isOne() && shape[1] == heads && shape[2].isOne();
  if (!perHead || !heads.isStatic() || !isParameterLike(sinks))
    return std::nullopt;
  return SinkScores{scores, sinks};
}

bool dropsSinkColumn(SliceOp part) {
  auto begin = part.getBegin(), step = part.getStep();
  if (!begin || !step || llvm::any_of(*begin, [](int64_t at) { return at != 0; }) ||
      llvm::any_of(*step, [](int64_t by) { return by != 1; }))
    return false;
  SymbolicShape expected = shapeOf(part.getInput());
  expected.back() = expected.back() - SymbolicDim(1);
  return shapeOf(part.getResult()) == expected;
}

Value stripLargestScore(Value scores) {
  auto difference = scores.getDefiningOp<SubOp>();
  auto largest = difference ? difference.getRhs().getDefiningOp<ReduceOp>() : ReduceOp();
  if (!largest || largest.getInput() != difference.getLhs() ||
      largest.getKind() != ReduceKind::Max || !largest.getKeepdims() || !largest.getAxes() ||
      largest.getAxes()->size() != 1 ||
      !isLastAxis(largest.getAxes()->front(), rankOf(difference.getLhs())))
    return scores;
  return difference.getLhs();
}

} // namespace omnibal::raise
