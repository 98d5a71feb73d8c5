//===- FactorsProducts.cpp - Letters of products ---------------------------------------------===//
#include "dialects/omnibal/rules/Factors.h"

using namespace mlir;
using namespace omnibal;

OMNIBAL_FACTOR_RULE(LinearOp) {
  const auto last = static_cast<int64_t>(f.operand(0).size()) - 1;
  for (int64_t dim = 0; dim < last; ++dim)
    f.carry(dim, dim);
  auto in = f.letter(f.operand(0)[last], LetterKind::Sum), out = f.letter(f.result()[last]);
  f.onOperand(0, last, in);
  f.onOperand(1, op.getInOut() ? 0 : 1, in);
  f.onOperand(1, op.getInOut() ? 1 : 0, out);
  f.onResult(0, last, out);
  if (!op.getBias()) {
    f.linearIn({0});
    f.linearIn({1});
    return true;
  }
  f.onOperand(2, 0, out);
  f.added(2);
  f.linearIn({0, 2});
  f.linearIn({1, 2});
  return true;
}

/// Squares of sums over the rank: it stays whole.
OMNIBAL_FACTOR_RULE(RowSquaresOp) {
  auto in = f.letter(f.operand(1)[1], LetterKind::Sum), out = f.letter(f.result()[0]);
  f.onOperand(0, op.getInOut() ? 0 : 1, in);
  f.onOperand(0, op.getInOut() ? 1 : 0, out);
  f.onOperand(1, 1, in);
  f.onOperand(2, 0, out);
  f.onResult(0, 0, out);
  return true;
}

OMNIBAL_FACTOR_RULE(MatMulOp) {
  const auto left = static_cast<int64_t>(f.operand(0).size());
  const auto right = static_cast<int64_t>(f.operand(1).size());
  const auto rank = static_cast<int64_t>(f.result().size());
  if (left < 2 || right < 2)
    return false;
  for (int64_t dim = 0; dim < rank - 2; ++dim) {
    auto batch = f.letter(f.result()[dim]);
    f.onResult(0, dim, batch);
    const int64_t inLeft = dim - (rank - left), inRight = dim - (rank - right);
    if (inLeft >= 0 && !f.operand(0)[inLeft].isOne())
      f.onOperand(0, inLeft, batch);
    if (inRight >= 0 && !f.operand(1)[inRight].isOne())
      f.onOperand(1, inRight, batch);
  }
  const int64_t row = op.getTransposeLhs() ? left - 1 : left - 2;
  const int64_t column = op.getTransposeRhs() ? right - 2 : right - 1;
  const int64_t sumLeft = 2 * left - 3 - row, sumRight = 2 * right - 3 - column;
  auto m = f.letter(f.result()[rank - 2]), n = f.letter(f.result()[rank - 1]);
  auto k = f.letter(f.operand(0)[sumLeft], LetterKind::Sum);
  f.onOperand(0, row, m);
  f.onResult(0, rank - 2, m);
  f.onOperand(1, column, n);
  f.onResult(0, rank - 1, n);
  f.onOperand(0, sumLeft, k);
  f.onOperand(1, sumRight, k);
  f.linearIn({0});
  f.linearIn({1});
  return true;
}

/// Space is closed, and so are channels of several groups.
OMNIBAL_FACTOR_RULE(ConvOp) {
  f.carry(0, 0);
  const bool one = op.getGroup() == 1;
  auto in = f.letter(f.operand(0)[1], one ? LetterKind::Sum : LetterKind::Closed);
  auto out = f.letter(f.result()[1], one ? LetterKind::Free : LetterKind::Closed);
  f.onOperand(0, 1, in);
  if (one)
    f.onOperand(1, 1, in);
  f.onOperand(1, 0, out);
  f.onResult(0, 1, out);
  if (op.getBias()) {
    f.onOperand(2, 0, out);
    f.added(2);
  }
  return true;
}

/// The order of rows says where each is, so rows stay together.
OMNIBAL_FACTOR_RULE(GroupedLinearOp) {
  const auto last = static_cast<int64_t>(f.operand(0).size()) - 1;
  auto in = f.letter(f.operand(0)[last], LetterKind::Sum), out = f.letter(f.result()[last]);
  f.onOperand(0, last, in);
  f.onOperand(1, op.getInOut() ? 1 : 2, in);
  f.onOperand(1, op.getInOut() ? 2 : 1, out);
  f.onResult(0, last, out);
  f.linearIn({0});
  f.linearIn({1});
  return true;
}

void omnibal::attachProductFactors(MLIRContext &context) {
  LinearOp::attachInterface<LinearOpFactors>(context);
  RowSquaresOp::attachInterface<RowSquaresOpFactors>(context);
  MatMulOp::attachInterface<MatMulOpFactors>(context);
  ConvOp::attachInterface<ConvOpFactors>(context);
  GroupedLinearOp::attachInterface<GroupedLinearOpFactors>(context);
}
