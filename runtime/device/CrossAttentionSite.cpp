#include "runtime/device/CrossAttentionSite.h"

namespace omnibal::rt {

CrossAttentionSite::CrossAttentionSite(SiteReader &site, bool backward)
    : q(site.operand("q")), k(site.operand("k")), v(site.operand("v")), out(site.operand("out")),
      lse(site.operand("lse")), begins(site.operand("begins")), ends(site.operand("ends")),
      scale(static_cast<float>(site.number("scale", 1))), rows(site.requiredInteger("rows")) {
  if (backward) {
    dout = site.operand("dout");
    dq = site.operand("dq");
    dk = site.operand("dk");
    dv = site.operand("dv");
  }
  if (rows < 1)
    site.fail("attribute 'rows' must be positive");
}

} // namespace omnibal::rt
