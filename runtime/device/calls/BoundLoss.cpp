#include "runtime/device/calls/BoundLoss.h"
#include <cmath>
#include <tuple>

namespace omnibal::rt {
namespace {

/// What the rows have a value of each.
Status checkRows(const CheckedKernel &kernel, std::span<const TensorView> views, int targets,
                 int loss, int prediction, int64_t rows) {
  OMNIBAL_RETURN_IF_ERROR(kernel.expectList(views[targets], "targets", DType::I32, rows));
  OMNIBAL_RETURN_IF_ERROR(kernel.expectList(views[loss], "loss", DType::F32, rows));
  return prediction < 0 ? Status::ok()
                        : kernel.expectList(views[prediction], "prediction", DType::I32, rows);
}

} // namespace

Status checkOfWords(const CheckedKernel &kernel, const TensorView &view, const char *name,
                    const TensorView &hidden, const TensorView &weight, bool isWide) {
  OMNIBAL_RETURN_IF_ERROR(kernel.expectFloat(view, name, 1));
  OMNIBAL_RETURN_IF_ERROR(kernel.sameType(view, name, hidden, "hidden", isWide));
  if (view.shape[0] != weight.shape[0])
    return kernel.bad("operand '" + std::string(name) + "' has shape " + printShape(view) +
                      " for a weight " + printShape(weight));
  return Status::ok();
}

Status checkGradient(const CheckedKernel &kernel, const TensorView &view, const char *name,
                     const TensorView &hidden, const TensorView &like, const char *likeName) {
  OMNIBAL_RETURN_IF_ERROR(kernel.expectFloat(view, name, 2));
  OMNIBAL_RETURN_IF_ERROR(kernel.sameType(view, name, hidden, "hidden", true));
  return kernel.same(view, name, like, likeName);
}

LossTerms LossTerms::of(CallReader &call) {
  LossTerms terms{static_cast<float>(call.number("smoothing", 0)),
                  static_cast<float>(call.number("z", 0))};
  if (!(terms.smoothing >= 0 && terms.smoothing < 1))
    call.fail("attribute 'smoothing' must be in [0, 1)");
  if (!(terms.z >= 0) || std::isinf(terms.z))
    call.fail("attribute 'z' must be a finite number of at least 0");
  return terms;
}

BoundCrossEntropy::BoundCrossEntropy(CallReader &call)
    : logits(call.operand("logits")), targets(call.operand("targets")), loss(call.operand("loss")),
      dlogits(call.optionalOperand("dlogits")), prediction(call.optionalOperand("prediction")),
      terms(LossTerms::of(call)) {}

Status BoundCrossEntropy::checkOperands(const CheckedKernel &kernel,
                                        std::span<const TensorView> views) const {
  const TensorView &x = views[logits];
  OMNIBAL_RETURN_IF_ERROR(kernel.expectFloat(x, "logits", 2));
  OMNIBAL_RETURN_IF_ERROR(checkRows(kernel, views, targets, loss, prediction, x.shape[0]));
  if (dlogits >= 0) {
    OMNIBAL_RETURN_IF_ERROR(kernel.expectFloat(views[dlogits], "dlogits", 2));
    OMNIBAL_RETURN_IF_ERROR(kernel.sameType(x, "logits", views[dlogits], "dlogits", true));
    OMNIBAL_RETURN_IF_ERROR(kernel.same(views[dlogits], "dlogits", x, "logits"));
  }
  for (int operand : {logits, dlogits})
    if (operand >= 0 && x.shape[1] > 1 && views[operand].strides[1] != 1)
      return kernel.bad("rows of logits and dlogits must be dense");
  return Status::ok();
}

BoundLinearCrossEntropy::BoundLinearCrossEntropy(CallReader &call)
    : hidden(call.operand("hidden")), weight(call.operand("weight")),
      targets(call.operand("targets")), loss(call.operand("loss")),
      scratch(call.operand("scratch")), bias(call.optionalOperand("bias")),
      dhidden(call.optionalOperand("dhidden")), dweight(call.optionalOperand("dweight")),
      dbias(call.optionalOperand("dbias")), prediction(call.optionalOperand("prediction")),
      rowWeights(call.optionalOperand("row_weights")),
      scale(static_cast<float>(call.number("scale", 1))), terms(LossTerms::of(call)) {}

Status BoundLinearCrossEntropy::checkOperands(const CheckedKernel &kernel,
                                              std::span<const TensorView> views) const {
  const TensorView &vh = views[hidden], &vw = views[weight], &vs = views[scratch];
  OMNIBAL_RETURN_IF_ERROR(kernel.expectFloat(vh, "hidden", 2));
  OMNIBAL_RETURN_IF_ERROR(kernel.expectFloat(vw, "weight", 2));
  OMNIBAL_RETURN_IF_ERROR(kernel.sameType(vw, "weight", vh, "hidden"));
  OMNIBAL_RETURN_IF_ERROR(kernel.expectFloat(vs, "scratch", 2));
  OMNIBAL_RETURN_IF_ERROR(kernel.sameType(vs, "scratch", vh, "hidden", true));
  if (vh.shape[1] != vw.shape[1] || vs.shape[1] != vw.shape[0])
    return kernel.bad("shapes do not fit together: hidden " + printShape(vh) + ", weight " +
                      printShape(vw) + ", scratch " + printShape(vs));
  if (vs.shape[0] > 1 && (vs.strides[1] != 1 || vs.strides[0] != vs.shape[1]))
    return kernel.bad("operand 'scratch' must be dense");
  OMNIBAL_RETURN_IF_ERROR(checkRows(kernel, views, targets, loss, prediction, vh.shape[0]));
  if (rowWeights >= 0)
    OMNIBAL_RETURN_IF_ERROR(
        kernel.expectList(views[rowWeights], "row_weights", DType::F32, vh.shape[0]));
  for (auto [index, name, like, likeName] :
       {std::tuple{dhidden, "dhidden", hidden, "hidden"}, {dweight, "dweight", weight, "weight"}})
    if (index >= 0)
      OMNIBAL_RETURN_IF_ERROR(checkGradient(kernel, views[index], name, vh, views[like], likeName));
  for (auto [index, name] : {std::pair{bias, "bias"}, {dbias, "dbias"}})
    if (index >= 0)
      OMNIBAL_RETURN_IF_ERROR(checkOfWords(kernel, views[index], name, vh, vw, index == dbias));
  return Status::ok();
}

BoundPreferenceLoss::BoundPreferenceLoss(CallReader &call, bool backward)
    : losses(call.operand("losses")), borders(call.operand("cu_seqlens")),
      reference(call.operand("reference")), rowWeights(call.optionalOperand("row_weights")),
      beta(static_cast<float>(call.number("beta", 0))),
      smoothing(static_cast<float>(call.number("smoothing", 0))) {
  if (backward) {
    dlosses = call.operand("dlosses");
  } else {
    loss = call.operand("loss");
    chosen = call.operand("chosen");
    rejected = call.operand("rejected");
    preferred = call.operand("preferred");
  }
  if (!(beta > 0) || std::isinf(beta))
    call.fail("attribute 'beta' must be a finite number above 0");
  if (!(smoothing >= 0 && smoothing < 0.5f))
    call.fail("attribute 'smoothing' must be in [0, 0.5)");
}

Status BoundPreferenceLoss::checkOperands(const CheckedKernel &kernel,
                                          std::span<const TensorView> views) const {
  OMNIBAL_RETURN_IF_ERROR(kernel.expectList(views[losses], "losses", DType::F32, -1));
  OMNIBAL_RETURN_IF_ERROR(kernel.expectList(views[borders], "cu_seqlens", DType::I32, -1));
  for (auto [index, name] : {std::pair{reference, "reference"},
                             {rowWeights, "row_weights"},
                             {loss, "loss"},
                             {chosen, "chosen"},
                             {rejected, "rejected"},
                             {preferred, "preferred"},
                             {dlosses, "dlosses"}})
    if (index >= 0)
      OMNIBAL_RETURN_IF_ERROR(
          kernel.expectList(views[index], name, DType::F32, views[losses].shape[0]));
  return Status::ok();
}

} // namespace omnibal::rt
