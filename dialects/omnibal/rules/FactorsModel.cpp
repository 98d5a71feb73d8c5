//===- FactorsModel.cpp - Letters of attention, embeddings and losses ------------------------===//
#include "dialects/omnibal/ir/OmnibalCrossOps.h"
#include "dialects/omnibal/rules/Factors.h"

using namespace mlir;
using namespace omnibal;

namespace {
/// Batch and heads: query heads are key heads times a group, which keys and values lack. Tokens and
/// features are closed.
bool addHeads(FactorBuilder &f, std::optional<unsigned> sinks = std::nullopt) {
  auto batch = f.letter(f.operand(0)[0]);
  const SymbolicDim &keyHeads = f.operand(1)[1];
  std::optional<SymbolicDim> groupSize = divideExactly(f.operand(0)[1], keyHeads);
  if (!groupSize)
    return false;
  auto heads = f.letter(keyHeads), group = f.letter(*groupSize);
  for (unsigned i : {0, 1, 2}) {
    f.onOperand(i, 0, batch);
    f.onOperand(i, 1, heads);
  }
  f.onOperand(0, 1, group);
  for (unsigned i : {0, 1}) { // result and log-sum-exp
    f.onResult(i, 0, batch);
    f.onResult(i, 1, heads);
    f.onResult(i, 1, group);
  }
  if (sinks) {
    f.onOperand(*sinks, 0, heads);
    f.onOperand(*sinks, 0, group);
  }
  return true;
}

/// Puts a letter on the dimension of a list of rows that has its size, if the others are 1.
void onRows(FactorBuilder &f, unsigned operand, std::optional<unsigned> letter,
            const SymbolicDim &size) {
  const SymbolicShape &shape = f.operand(operand);
  for (auto [dim, own] : llvm::enumerate(shape))
    if (own == size && !own.isOne())
      return f.onOperand(operand, static_cast<int64_t>(dim), letter);
}
} // namespace

OMNIBAL_FACTOR_RULE(AttentionOp) {
  if (op.getMask())
    return false;
  if (!op.getSinks())
    return addHeads(f);
  return addHeads(f, op.getSinksMutable().begin()->getOperandNumber());
}

OMNIBAL_FACTOR_RULE(CrossAttentionOp) { return addHeads(f); }

OMNIBAL_FACTOR_RULE(GatedDeltaOp) {
  for (int64_t dim : {0, 1}) {
    auto shared = f.letter(f.result()[dim]);
    for (unsigned i : {0, 1, 2, 3, 4})
      f.onOperand(i, dim, shared);
    f.onResult(0, dim, shared);
  }
  return true;
}

OMNIBAL_FACTOR_RULE(RopeOp) {
  f.carry(0, 0);
  f.carry(1, 1);
  const SymbolicDim &length = f.result()[2];
  auto token = f.letter(length);
  f.onOperand(0, 2, token);
  f.onResult(0, 2, token);
  onRows(f, 1, token, length);
  f.linearIn({0});
  return true;
}

OMNIBAL_FACTOR_RULE(ShiftTokensOp) {
  f.carry(2, 2);
  f.linearIn({0});
  return true;
}

/// Words are closed: a part would have to know its first row.
OMNIBAL_FACTOR_RULE(EmbeddingOp) {
  const auto last = static_cast<int64_t>(f.result().size()) - 1;
  for (int64_t dim = 0; dim < last; ++dim) {
    auto token = f.letter(f.result()[dim]);
    f.onOperand(1, dim, token);
    f.onResult(0, dim, token);
  }
  auto column = f.letter(f.result()[last]);
  f.onOperand(0, 1, column);
  f.onResult(0, last, column);
  f.linearIn({0});
  return true;
}

/// Rows of features are closed: they are addressed.
OMNIBAL_FACTOR_RULE(ImageMergeOp) {
  auto token = f.letter(f.result()[1]);
  f.onOperand(0, 1, token);
  f.onResult(0, 1, token);
  onRows(f, 2, token, f.result()[1]);
  auto column = f.letter(f.result()[2]);
  f.onOperand(0, 2, column);
  f.onOperand(1, static_cast<int64_t>(f.operand(1).size()) - 1, column);
  f.onResult(0, 2, column);
  f.linearIn({0, 1});
  return true;
}

namespace {
/// Rows pass; words are closed.
void addLossRows(FactorBuilder &f, Operation *op, unsigned targets) {
  for (int64_t dim = 0; dim < static_cast<int64_t>(f.result().size()); ++dim) {
    auto row = f.letter(f.result()[dim]);
    f.onOperand(0, dim, row);
    f.onOperand(targets, dim, row);
    for (unsigned i = 0; i < op->getNumResults(); ++i)
      f.onResult(i, dim, row);
  }
}
} // namespace

OMNIBAL_FACTOR_RULE(CrossEntropyOp) {
  if (f.operand(1).size() != f.result().size())
    return false;
  addLossRows(f, op, 1);
  return true;
}
OMNIBAL_FACTOR_RULE(LinearCrossEntropyOp) {
  const unsigned targets = op.getBias() ? 3 : 2;
  if (f.operand(targets).size() != f.result().size())
    return false;
  addLossRows(f, op, targets);
  return true;
}

void omnibal::attachModelFactors(MLIRContext &context) {
  AttentionOp::attachInterface<AttentionOpFactors>(context);
  CrossAttentionOp::attachInterface<CrossAttentionOpFactors>(context);
  GatedDeltaOp::attachInterface<GatedDeltaOpFactors>(context);
  RopeOp::attachInterface<RopeOpFactors>(context);
  ShiftTokensOp::attachInterface<ShiftTokensOpFactors>(context);
  EmbeddingOp::attachInterface<EmbeddingOpFactors>(context);
  ImageMergeOp::attachInterface<ImageMergeOpFactors>(context);
  CrossEntropyOp::attachInterface<CrossEntropyOpFactors>(context);
  LinearCrossEntropyOp::attachInterface<LinearCrossEntropyOpFactors>(context);
}
