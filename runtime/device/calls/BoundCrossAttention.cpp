#include "runtime/device/calls/BoundCrossAttention.h"

namespace omnibal::rt {

BoundCrossAttention::BoundCrossAttention(CallReader &call, bool backward)
    : AttentionOperands(call, backward), begins(call.operand("begins")), ends(call.operand("ends")),
      rows(call.requiredInteger("rows")) {
  if (rows < 1)
    call.fail("attribute 'rows' must be positive");
}

Status BoundCrossAttention::checkOperands(const CheckedKernel &kernel,
                                          std::span<const TensorView> views) const {
  OMNIBAL_RETURN_IF_ERROR(checkShapes(kernel, views, false));
  const int64_t tokens = views[q].shape[0];
  OMNIBAL_RETURN_IF_ERROR(kernel.expectList(views[begins], "begins", DType::I32, tokens));
  OMNIBAL_RETURN_IF_ERROR(kernel.expectList(views[ends], "ends", DType::I32, tokens));
  return Status::ok();
}

} // namespace omnibal::rt
