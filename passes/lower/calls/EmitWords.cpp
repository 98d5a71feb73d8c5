//===- EmitWords.cpp - The loss of a head whose words are divided among parts --------------===//
#include "passes/lower/calls/CallBuilder.h"

using namespace mlir;

namespace omnibal::lower {
namespace {

template <typename OpT> void setOwnWords(Call &call, OpT op) {
  call.attributes["first"] = static_cast<int64_t>(op.getFirst());
  call.attributes["words"] = static_cast<int64_t>(op.getWords());
  if (const double scale = op.getScale().convertToDouble(); scale != 1)
    call.attributes["scale"] = scale;
}
template <typename OpT> void setTerms(Call &call, OpT op) {
  if (const double smoothing = op.getSmoothing().convertToDouble(); smoothing != 0)
    call.attributes["smoothing"] = smoothing;
  if (const double z = op.getZ().convertToDouble(); z != 0)
    call.attributes["z"] = z;
}

} // namespace

/// The operands that make a part's logits. Scratch holds a block of them with its gathered rows of
/// hidden and, for gradients, of dhidden.
std::vector<std::pair<std::string, Place>> CallBuilder::wordOperands(Operation *op, Value hidden,
                                                                     Value weight, Value bias,
                                                                     Value targets,
                                                                     bool withGradients) {
  const int64_t words = shapeOf(weight)[0].constant, features = shapeOf(hidden).back().constant;
  const int64_t rows = rowsOfLogits(words, *product(shapeOf(targets)));
  const rt::DType type = floatTypeOf({hidden, weight});
  std::vector<std::pair<std::string, Place>> operands{{"hidden", as(type, matrix(hidden, op), op)},
                                                      {"weight", as(type, matrix(weight, op), op)},
                                                      {"targets", flat(targets, op)}};
  if (bias)
    operands.emplace_back("bias", as(type, placeOf(bias), op));
  const int64_t floats = std::max(rows * (words + (withGradients ? 2 : 1) * features),
                                  fewestLogitFloats(words, features, targets));
  operands.emplace_back("scratch", fresh(elementType(hidden), {floats}));
  return operands;
}

/// [parts, .., n] as [parts, rows, n], or without n.
Place CallBuilder::statisticsOfParts(Value value, bool withNumbers, Operation *op) {
  const SymbolicShape shape = shapeOf(value);
  SymbolicShape wanted{shape[0],
                       *product(ArrayRef(shape).drop_front().drop_back(withNumbers ? 1 : 0))};
  if (withNumbers)
    wanted.push_back(shape.back());
  return reshaped(placeOf(value), wanted, op);
}

LogicalResult CallBuilder::emitWordStatistics(WordStatisticsOp op) {
  auto operands = wordOperands(op, op.getHidden(), op.getWeight(), op.getBias(), op.getTargets(),
                               /*withGradients=*/false);
  set(op.getStatistics(), fresh(op.getStatistics()));
  operands.emplace_back("result", matrix(op.getStatistics(), op));
  if (!op.getPrediction().use_empty()) {
    set(op.getPrediction(), fresh(op.getPrediction()));
    operands.emplace_back("prediction", flat(op.getPrediction(), op));
  }
  Call &statistics = call(op, "word_statistics", std::move(operands));
  setOwnWords(statistics, op);
  if (op.getTotals())
    statistics.attributes["totals"] = true;
  return success();
}

LogicalResult CallBuilder::emitJoinedCrossEntropy(JoinedCrossEntropyOp op) {
  set(op.getLoss(), fresh(op.getLoss()));
  Call &entropy = call(op, "joined_cross_entropy",
                       {{"statistics", statisticsOfParts(op.getStatistics(), true, op)},
                        {"targets", flat(op.getTargets(), op)},
                        {"loss", flat(op.getLoss(), op)}});
  entropy.attributes["words"] = static_cast<int64_t>(op.getWords());
  setTerms(entropy, op);
  return success();
}

LogicalResult CallBuilder::emitJoinedCrossEntropyGrad(JoinedCrossEntropyGradOp op) {
  auto operands = wordOperands(op, op.getHidden(), op.getWeight(), op.getBias(), op.getTargets(),
                               /*withGradients=*/true);
  operands.emplace_back("statistics", statisticsOfParts(op.getStatistics(), true, op));
  if (op.getRowWeights())
    operands.emplace_back("row_weights", flat(op.getRowWeights(), op));
  if (!op.getDhidden().use_empty()) {
    set(op.getDhidden(), fresh(op.getDhidden()));
    operands.emplace_back("dhidden", matrix(op.getDhidden(), op));
  }
  if (!op.getDweight().use_empty())
    operands.emplace_back("dweight", gradientTarget(op.getDweight(), op));
  if (op.getDbias() && !op.getDbias().use_empty())
    operands.emplace_back("dbias", gradientTarget(op.getDbias(), op));
  Call &gradient = call(op, "joined_cross_entropy_backward", std::move(operands));
  setOwnWords(gradient, op);
  setTerms(gradient, op);
  return success();
}

LogicalResult CallBuilder::emitJoinedPrediction(JoinedPredictionOp op) {
  set(op.getPrediction(), fresh(op.getPrediction()));
  call(op, "joined_prediction",
       {{"statistics", statisticsOfParts(op.getStatistics(), true, op)},
        {"predictions", statisticsOfParts(op.getPredictions(), false, op)},
        {"targets", flat(op.getTargets(), op)},
        {"prediction", flat(op.getPrediction(), op)}});
  return success();
}

} // namespace omnibal::lower
