#include "runtime/device/calls/BoundWords.h"
#include <tuple>

namespace omnibal::rt {
namespace {

/// [parts, N, 3], or 4 where the loss needs the sum of the logits.
Status checkStatistics(const CheckedKernel &kernel, const TensorView &statistics, int64_t rows,
                       int64_t least) {
  OMNIBAL_RETURN_IF_ERROR(kernel.expect(statistics, "statistics", 3, DType::F32));
  if (statistics.shape[1] != rows || statistics.shape[2] < least || statistics.shape[2] > 4)
    return kernel.bad("operand 'statistics' has shape " + printShape(statistics) + " for " +
                      std::to_string(rows) + " rows; a part states at least " +
                      std::to_string(least) + " numbers of each");
  return Status::ok();
}

/// Numbers of a row that a part states.
int64_t statedNumbers(bool totals) { return totals ? 4 : 3; }

} // namespace

OwnWords OwnWords::of(CallReader &call) {
  OwnWords own{call.requiredInteger("first"), call.requiredInteger("words")};
  if (own.first < 0 || own.first > own.words)
    call.fail("attribute 'first' must be in [0, words]");
  return own;
}

BoundPartLogits::BoundPartLogits(CallReader &call)
    : hidden(call.operand("hidden")), weight(call.operand("weight")),
      targets(call.operand("targets")), scratch(call.operand("scratch")),
      bias(call.optionalOperand("bias")), scale(static_cast<float>(call.number("scale", 1))),
      own(OwnWords::of(call)) {}

Status BoundPartLogits::checkLogits(const CheckedKernel &kernel,
                                    std::span<const TensorView> views) const {
  const TensorView &vh = views[hidden], &vw = views[weight];
  OMNIBAL_RETURN_IF_ERROR(kernel.expectFloat(vh, "hidden", 2));
  OMNIBAL_RETURN_IF_ERROR(kernel.expectFloat(vw, "weight", 2));
  OMNIBAL_RETURN_IF_ERROR(kernel.sameType(vw, "weight", vh, "hidden"));
  OMNIBAL_RETURN_IF_ERROR(kernel.expectList(views[targets], "targets", DType::I32, vh.shape[0]));
  OMNIBAL_RETURN_IF_ERROR(kernel.expectList(views[scratch], "scratch", DType::F32, -1));
  if (vh.shape[1] != vw.shape[1])
    return kernel.bad("shapes do not fit together: hidden " + printShape(vh) + ", weight " +
                      printShape(vw));
  if (own.first + vw.shape[0] > own.words)
    return kernel.bad("weight " + printShape(vw) + " has words from " + std::to_string(own.first) +
                      " on, and there are " + std::to_string(own.words));
  return bias < 0 ? Status::ok() : checkOfWords(kernel, views[bias], "bias", vh, vw, false);
}

BoundWordStatistics::BoundWordStatistics(CallReader &call)
    : BoundPartLogits(call), result(call.operand("result")),
      prediction(call.optionalOperand("prediction")), totals(call.flag("totals", false)) {}

Status BoundWordStatistics::checkOperands(const CheckedKernel &kernel,
                                          std::span<const TensorView> views) const {
  OMNIBAL_RETURN_IF_ERROR(checkLogits(kernel, views));
  const TensorView &vr = views[result];
  OMNIBAL_RETURN_IF_ERROR(kernel.expect(vr, "result", 2, DType::F32));
  if (vr.shape[0] != views[hidden].shape[0] || vr.shape[1] != statedNumbers(totals))
    return kernel.bad("operand 'result' has shape " + printShape(vr) + " for hidden " +
                      printShape(views[hidden]));
  return prediction < 0
             ? Status::ok()
             : kernel.expectList(views[prediction], "prediction", DType::I32, vr.shape[0]);
}

BoundJoinedCrossEntropy::BoundJoinedCrossEntropy(CallReader &call)
    : statistics(call.operand("statistics")), targets(call.operand("targets")),
      loss(call.operand("loss")), words(call.requiredInteger("words")), terms(LossTerms::of(call)) {
}

Status BoundJoinedCrossEntropy::checkOperands(const CheckedKernel &kernel,
                                              std::span<const TensorView> views) const {
  OMNIBAL_RETURN_IF_ERROR(kernel.expectList(views[targets], "targets", DType::I32, -1));
  const int64_t rows = views[targets].shape[0];
  OMNIBAL_RETURN_IF_ERROR(
      checkStatistics(kernel, views[statistics], rows, statedNumbers(terms.smoothing > 0)));
  return kernel.expectList(views[loss], "loss", DType::F32, rows);
}

BoundJoinedPrediction::BoundJoinedPrediction(CallReader &call)
    : statistics(call.operand("statistics")), predictions(call.operand("predictions")),
      targets(call.operand("targets")), prediction(call.operand("prediction")) {}

Status BoundJoinedPrediction::checkOperands(const CheckedKernel &kernel,
                                            std::span<const TensorView> views) const {
  OMNIBAL_RETURN_IF_ERROR(kernel.expectList(views[targets], "targets", DType::I32, -1));
  const int64_t rows = views[targets].shape[0];
  OMNIBAL_RETURN_IF_ERROR(checkStatistics(kernel, views[statistics], rows, statedNumbers(false)));
  const TensorView &each = views[predictions];
  OMNIBAL_RETURN_IF_ERROR(kernel.expect(each, "predictions", 2, DType::I32));
  if (each.shape[0] != views[statistics].shape[0] || each.shape[1] != rows)
    return kernel.bad("operand 'predictions' has shape " + printShape(each) + " for statistics " +
                      printShape(views[statistics]));
  return kernel.expectList(views[prediction], "prediction", DType::I32, rows);
}

BoundJoinedGradient::BoundJoinedGradient(CallReader &call)
    : BoundPartLogits(call), statistics(call.operand("statistics")),
      rowWeights(call.optionalOperand("row_weights")), dhidden(call.optionalOperand("dhidden")),
      dweight(call.optionalOperand("dweight")), dbias(call.optionalOperand("dbias")),
      terms(LossTerms::of(call)) {}

Status BoundJoinedGradient::checkOperands(const CheckedKernel &kernel,
                                          std::span<const TensorView> views) const {
  OMNIBAL_RETURN_IF_ERROR(checkLogits(kernel, views));
  const int64_t rows = views[hidden].shape[0];
  OMNIBAL_RETURN_IF_ERROR(
      checkStatistics(kernel, views[statistics], rows, statedNumbers(terms.smoothing > 0)));
  if (rowWeights >= 0)
    OMNIBAL_RETURN_IF_ERROR(kernel.expectList(views[rowWeights], "row_weights", DType::F32, rows));
  for (auto [index, name, like, likeName] :
       {std::tuple{dhidden, "dhidden", hidden, "hidden"}, {dweight, "dweight", weight, "weight"}})
    if (index >= 0)
      OMNIBAL_RETURN_IF_ERROR(
          checkGradient(kernel, views[index], name, views[hidden], views[like], likeName));
  return dbias < 0
             ? Status::ok()
             : checkOfWords(kernel, views[dbias], "dbias", views[hidden], views[weight], true);
}

} // namespace omnibal::rt
