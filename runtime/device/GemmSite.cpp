#include "runtime/device/GemmSite.h"

namespace omnibal::rt {

GemmSite::GemmSite(SiteReader &site)
    : a(site.operand("a")), b(site.operand("b")), c(site.operand("c")),
      bias(site.optionalOperand("bias")), residual(site.optionalOperand("residual")),
      pre(site.optionalOperand("pre")), at(site.optionalOperand("at")),
      sumA(site.optionalOperand("sum_a")), sumB(site.optionalOperand("sum_b")),
      accumulate(site.flag("accumulate", false)),
      alpha(static_cast<float>(site.number("alpha", 1))),
      activation(
          site.choice("activation", {"none", "gelu", "gelu_tanh", "silu", "quick_gelu", "relu"})) {
  const bool more = bias >= 0 || residual >= 0 || pre >= 0;
  if (accumulate && (activation != 0 || more || at >= 0))
    site.fail("'accumulate' cannot be combined with bias, residual, pre, at or an activation");
  if (at >= 0 && more)
    site.fail("'at' cannot be combined with bias, residual or pre");
  if (at >= 0 && activation == 0)
    site.fail("'at' needs an activation");
}

} // namespace omnibal::rt
