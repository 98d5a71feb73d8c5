//===- VerifyRaised.cpp - omnibal-verify-raised ------------------------------------------===//
#include "dialects/omnibal/ir/OmnibalCrossOps.h"
#include "passes/raise/Passes.h"
#include "passes/raise/match/Match.h"
#include "passes/raise/match/RouterLoss.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_VERIFYRAISEDPASS
#include "passes/raise/Passes.h.inc"

namespace raise {
namespace {

/// What is wrong with the op in form R; empty if nothing is. Packing must stay invisible: an
/// op may not carry values from one token to another except where samples are told apart.
std::string problemWith(Operation *op, bool besideLogits) {
  for (Value result : op->getResults()) {
    if (!getSymbolicShape(typeOf(result)))
      return "has a result whose size depends on the data; an image merge was not recognized";
    if (llvm::count_if(shapeOf(result), isTokenDim) > 1)
      return "computes on pairs of tokens; an attention was not recognized";
  }
  if (isa<RangeOp>(op))
    return "counts tokens, but its values are not recognized as positions";
  if (isa<ShapeOp, SizeOp>(op))
    return "uses the number of tiles or tokens as data, which packing changes";
  if (isa<NonZeroOp>(op))
    return "has a result whose size depends on the data; an image merge was not recognized";
  if (auto attention = dyn_cast<AttentionOp>(op)) {
    if (attention.getMask() || attention.getMaskKind() == MaskKind::Explicit)
      return "is an attention whose mask was not classified";
    if (!attention.getCuSeqlens() && isTokenDim(shapeOf(attention.getQuery())[2]))
      return "is an attention over tokens that does not separate samples";
  } else if (auto rule = dyn_cast<GatedDeltaOp>(op)) {
    if (!rule.getCuSeqlens() && isTokenDim(shapeOf(rule.getQuery())[2]))
      return "carries its state from one sample to the next";
  } else if (auto softmax = dyn_cast<SoftmaxOp>(op)) {
    if (isAlongTokens(softmax.getInput(), softmax.getAxis()))
      return "is a softmax over tokens; an attention was not recognized";
  } else if (auto top = dyn_cast<TopKOp>(op)) {
    if (isAlongTokens(top.getInput(), -1))
      return "chooses among tokens of the row, also across samples";
  } else if (auto cumsum = dyn_cast<CumSumOp>(op)) {
    if (cumsum.getAxis() && isAlongTokens(cumsum.getInput(), *cumsum.getAxis()))
      return "sums over tokens of the row, also across samples";
  } else if (auto reduce = dyn_cast<ReduceOp>(op)) {
    // The routers' loss is one of the micro-batch, not of its samples.
    if (besideLogits && sumsRealTokens(reduce))
      return {};
    for (int64_t axis : reduce.getAxes().value_or(ArrayRef<int64_t>()))
      if (isAlongTokens(reduce.getInput(), axis))
        return "reduces over tokens of the row, also across samples";
  } else if (auto matmul = dyn_cast<MatMulOp>(op)) {
    int64_t rank = rankOf(matmul.getLhs());
    if (rank >= 2 && isAlongTokens(matmul.getLhs(), matmul.getTransposeLhs() ? rank - 2 : rank - 1))
      return "sums over tokens of the row, also across samples";
  } else if (auto conv = dyn_cast<ConvOp>(op)) {
    SymbolicShape shape = shapeOf(conv.getInput());
    for (const SymbolicDim &dim : ArrayRef(shape).drop_front(2))
      if (isTokenDim(dim))
        return "is a convolution along the tokens that mixes channels or looks ahead; causal ones "
               "of each channel by itself are supported";
  } else if (auto slice = dyn_cast<SliceOp>(op)) {
    SymbolicShape from = shapeOf(slice.getInput()), to = shapeOf(slice.getResult());
    for (auto [before, after] : llvm::zip_equal(from, to))
      if (isTokenDim(before) && before != after)
        return "takes a part of the tokens of the row";
  } else if (auto concat = dyn_cast<ConcatOp>(op)) {
    if (isAlongTokens(concat.getResult(), concat.getAxis()))
      return "puts rows of tokens together";
  }
  return {};
}

LogicalResult verify(func::FuncOp function) {
  if (function.getNumArguments() != 0 || function.getNumResults() < 1 ||
      function.getNumResults() > 2)
    return function.emitError() << "form R has no arguments and one result, the logits, or beside "
                                << "them the routers' loss";
  llvm::DenseSet<Operation *> besideLogits = opsBesideLogits(function);
  Operation *images = nullptr;
  bool merged = false;
  for (Operation &op : function.getBody().front().without_terminator()) {
    std::string problem = problemWith(&op, besideLogits.contains(&op));
    if (!problem.empty())
      return op.emitError() << describe(&op) << " " << problem;
    merged |= isa<ImageMergeOp, CrossAttentionOp>(op);
    if (auto batch = dyn_cast<BatchValueOp>(op); batch && batch.getName() == "pixel_values")
      images = &op;
  }
  if (images && !merged)
    return images->emitError() << "the pictures reach the text, but the place where their features "
                               << "replace placeholder tokens was not recognized (image merge), "
                               << "nor attention of tokens to them";
  return success();
}
} // namespace
} // namespace raise

namespace {
struct VerifyRaisedPass : impl::VerifyRaisedPassBase<VerifyRaisedPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(raise::verify(function)))
        return signalPassFailure();
  }
};
} // namespace
} // namespace omnibal
