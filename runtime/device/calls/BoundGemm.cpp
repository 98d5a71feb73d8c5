#include "runtime/device/calls/BoundGemm.h"

namespace omnibal::rt {

BoundGemm::BoundGemm(CallReader &call)
    : a(call.operand("a")), b(call.operand("b")), c(call.operand("c")),
      bias(call.optionalOperand("bias")), residual(call.optionalOperand("residual")),
      pre(call.optionalOperand("pre")), at(call.optionalOperand("at")),
      sumA(call.optionalOperand("sum_a")), sumB(call.optionalOperand("sum_b")),
      accumulate(call.flag("accumulate", false)),
      alpha(static_cast<float>(call.number("alpha", 1))),
      activation(
          call.choice("activation", {"none", "gelu", "gelu_tanh", "silu", "quick_gelu", "relu"})) {
  const bool more = bias >= 0 || residual >= 0 || pre >= 0;
  if (accumulate && (activation != 0 || more || at >= 0))
    call.fail("'accumulate' cannot be combined with bias, residual, pre, at or an activation");
  if (at >= 0 && more)
    call.fail("'at' cannot be combined with bias, residual or pre");
  if (at >= 0 && activation == 0)
    call.fail("'at' needs an activation");
}

} // namespace omnibal::rt
