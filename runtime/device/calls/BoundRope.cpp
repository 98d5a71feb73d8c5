#include "runtime/device/calls/BoundRope.h"

namespace omnibal::rt {

BoundRope::BoundRope(CallReader &call)
    : x(call.operand("x")), positions(call.operand("positions")), cosine(call.operand("cos")),
      sine(call.operand("sin")), out(call.operand("out")),
      interleaved(call.flag("interleaved", false)), inverse(call.flag("inverse", false)) {}

Status BoundRope::checkOperands(const CheckedKernel &kernel,
                                std::span<const TensorView> views) const {
  const TensorView &vx = views[x], &vc = views[cosine], &vs = views[sine];
  OMNIBAL_RETURN_IF_ERROR(kernel.expectFloat(vx, "x", 3));
  OMNIBAL_RETURN_IF_ERROR(kernel.expectLike(views[out], "out", vx, "x"));
  OMNIBAL_RETURN_IF_ERROR(
      kernel.expectList(views[positions], "positions", DType::I32, vx.shape[0]));
  OMNIBAL_RETURN_IF_ERROR(kernel.expect(vc, "cos", 2, DType::F32));
  OMNIBAL_RETURN_IF_ERROR(kernel.expect(vs, "sin", 2, DType::F32));
  OMNIBAL_RETURN_IF_ERROR(kernel.same(vs, "sin", vc, "cos"));
  if (vc.shape[1] > vx.shape[2] || vc.shape[1] % 2 != 0)
    return kernel.bad("tables of " + std::to_string(vc.shape[1]) + " columns do not fit heads of " +
                      std::to_string(vx.shape[2]));
  return Status::ok();
}

} // namespace omnibal::rt
