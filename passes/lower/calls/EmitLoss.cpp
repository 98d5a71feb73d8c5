//===- EmitLoss.cpp - Cross entropy, with and without the output projection --------------===//
#include "passes/lower/calls/CallBuilder.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace omnibal::lower {
namespace {

/// Logits that exist at a time: on a processor they stay in a cache, on a GPU they fill it with
/// work.
struct ScratchLimits {
  int64_t elements, minRows, maxRows;
};
constexpr ScratchLimits hostScratch{1 << 22, 32, 512}, gpuScratch{1 << 28, 256, 2048};

/// What is not there is as usual.
void setNumber(Call &call, StringRef name, const llvm::APFloat &value, double usual) {
  if (const double number = value.convertToDouble(); number != usual)
    call.attributes[name.str()] = number;
}
template <typename OpT> void setLossTerms(Call &call, OpT op) {
  setNumber(call, "smoothing", op.getSmoothing(), 0);
  setNumber(call, "z", op.getZ(), 0);
}

} // namespace

LogicalResult CallBuilder::emitCrossEntropy(Operation *op) {
  std::vector<std::pair<std::string, Place>> operands{{"logits", matrix(op->getOperand(0), op)},
                                                      {"targets", flat(op->getOperand(1), op)}};
  auto add = [&](StringRef name, Value value, bool rows) {
    if (!value || value.use_empty())
      return;
    set(value, fresh(value));
    operands.emplace_back(name, rows ? matrix(value, op) : flat(value, op));
  };
  // `loss` is always written.
  Value loss = op->getResult(0);
  set(loss, fresh(loss));
  operands.emplace_back("loss", flat(loss, op));
  if (auto forward = dyn_cast<CrossEntropyOp>(op))
    add("prediction", forward.getPrediction(), false);
  else
    add("dlogits", cast<CrossEntropyGradOp>(op).getDlogits(), true);
  Call &entropy = call(op, "cross_entropy", std::move(operands));
  if (auto forward = dyn_cast<CrossEntropyOp>(op))
    setLossTerms(entropy, forward);
  else
    setLossTerms(entropy, cast<CrossEntropyGradOp>(op));
  return success();
}

/// Of one row they are the logits up to the next aligned place, their gradient in bfloat16, the row
/// of hidden and its gradient.
int64_t CallBuilder::fewestLogitFloats(int64_t words, int64_t features, Value targets) const {
  if (options.target != "cuda")
    return 1;
  constexpr int64_t alignment = 64, borders = 5 * 16;
  const int64_t row = (words + alignment) * (4 + 2) + features * (4 + 4);
  const int64_t tokens = product(shapeOf(targets))->evaluate(options.caps());
  return llvm::divideCeil(4 * (std::max<int64_t>(1, tokens) + 1) + borders + row, 4);
}

int64_t CallBuilder::rowsOfLogits(int64_t words, const SymbolicDim &rows) const {
  const ScratchLimits &limits = options.target == "cuda" ? gpuScratch : hostScratch;
  const int64_t block =
      std::clamp(limits.elements / std::max<int64_t>(1, words), limits.minRows, limits.maxRows);
  const int64_t atCap = rows.evaluate(options.caps());
  return std::min<int64_t>(block, std::max<int64_t>(1, atCap));
}

LogicalResult CallBuilder::emitLinearCrossEntropy(Operation *op) {
  auto forward = dyn_cast<LinearCrossEntropyOp>(op);
  auto backward = dyn_cast<LinearCrossEntropyGradOp>(op);
  Value hidden = op->getOperand(0), weight = op->getOperand(1);
  Value bias = forward ? forward.getBias() : backward.getBias();
  Value targets = forward ? forward.getTargets() : backward.getTargets();
  int64_t vocabulary = shapeOf(weight)[0].constant;
  int64_t features = shapeOf(hidden).back().constant;
  SymbolicDim tokens = *product(shapeOf(targets));
  int64_t block = rowsOfLogits(vocabulary, tokens);
  // Beside the logits of a block lie its gathered rows of hidden and of the gradient.
  int64_t rows =
      llvm::divideCeil(block * (vocabulary + 2 * features), std::max<int64_t>(1, vocabulary));
  rows = std::max<int64_t>(rows, llvm::divideCeil(fewestLogitFloats(vocabulary, features, targets),
                                                  std::max<int64_t>(1, vocabulary)));

  rt::DType type = floatTypeOf({hidden, weight});
  std::vector<std::pair<std::string, Place>> operands{{"hidden", as(type, matrix(hidden, op), op)},
                                                      {"weight", as(type, matrix(weight, op), op)},
                                                      {"targets", flat(targets, op)}};
  if (bias)
    operands.emplace_back("bias", as(type, placeOf(bias), op));
  if (backward && backward.getRowWeights())
    operands.emplace_back("row_weights", flat(backward.getRowWeights(), op));
  Value loss = op->getResult(0);
  set(loss, fresh(loss));
  operands.emplace_back("loss", flat(loss, op));
  operands.emplace_back("scratch", fresh(elementType(hidden), {rows, vocabulary}));
  if (forward && forward.getPrediction()) {
    set(forward.getPrediction(), fresh(forward.getPrediction()));
    operands.emplace_back("prediction", flat(forward.getPrediction(), op));
  }
  if (backward) {
    if (!backward.getDhidden().use_empty()) {
      set(backward.getDhidden(), fresh(backward.getDhidden()));
      operands.emplace_back("dhidden", matrix(backward.getDhidden(), op));
    }
    if (!backward.getDweight().use_empty())
      operands.emplace_back("dweight", gradientTarget(backward.getDweight(), op));
    if (backward.getDbias() && !backward.getDbias().use_empty())
      operands.emplace_back("dbias", gradientTarget(backward.getDbias(), op));
  }
  Call &entropy = call(op, "linear_cross_entropy", std::move(operands));
  setNumber(entropy, "scale", forward ? forward.getScale() : backward.getScale(), 1);
  if (forward)
    setLossTerms(entropy, forward);
  else
    setLossTerms(entropy, backward);
  return success();
}

/// All results are written, whether they are read or not: they are a number a token.
LogicalResult CallBuilder::emitPreferenceLoss(Operation *op) {
  static constexpr StringLiteral read[] = {"losses", "cu_seqlens", "reference", "row_weights"},
                                 forward[] = {"loss", "chosen", "rejected", "preferred"},
                                 backward[] = {"dlosses"};
  std::vector<std::pair<std::string, Place>> operands;
  for (auto [name, value] : llvm::zip(read, op->getOperands()))
    operands.emplace_back(name, flat(value, op));
  auto loss = dyn_cast<PreferenceLossOp>(op);
  for (auto [name, value] :
       llvm::zip(loss ? ArrayRef<StringLiteral>(forward) : ArrayRef<StringLiteral>(backward),
                 op->getResults())) {
    set(value, fresh(value));
    operands.emplace_back(name, flat(value, op));
  }
  Call &preference = call(op, loss ? "preference_loss" : "preference_loss_backward", operands);
  auto gradient = dyn_cast<PreferenceLossGradOp>(op);
  setNumber(preference, "beta", loss ? loss.getBeta() : gradient.getBeta(), 0);
  setNumber(preference, "smoothing", loss ? loss.getSmoothing() : gradient.getSmoothing(), 0);
  return success();
}

} // namespace omnibal::lower
