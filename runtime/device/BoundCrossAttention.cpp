#include "runtime/device/BoundCrossAttention.h"

namespace omnibal::rt {

BoundCrossAttention::BoundCrossAttention(CallReader &call, bool backward)
    : q(call.operand("q")), k(call.operand("k")), v(call.operand("v")), out(call.operand("out")),
      lse(call.operand("lse")), begins(call.operand("begins")), ends(call.operand("ends")),
      scale(static_cast<float>(call.number("scale", 1))), rows(call.requiredInteger("rows")) {
  if (backward) {
    dout = call.operand("dout");
    dq = call.operand("dq");
    dk = call.operand("dk");
    dv = call.operand("dv");
  }
  if (rows < 1)
    call.fail("attribute 'rows' must be positive");
}

} // namespace omnibal::rt
