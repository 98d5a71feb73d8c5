#include "runtime/core/AttentionSite.h"

namespace omnibal::rt {

AttentionSite::AttentionSite(SiteReader &site, bool backward)
    : q(site.operand("q")), k(site.operand("k")), v(site.operand("v")), out(site.operand("out")),
      lse(site.operand("lse")), borders(site.optionalOperand("cu_seqlens")),
      types(site.optionalOperand("types")), scale(static_cast<float>(site.number("scale", 1))),
      maskIndex(site.choice("mask", {"full", "causal", "sliding", "prefix"})),
      window(site.integer("window", 0)), segmentRows(site.integer("segment_rows", 0)) {
  if (backward) {
    dout = site.operand("dout");
    dq = site.operand("dq");
    dk = site.operand("dk");
    dv = site.operand("dv");
  }
  constexpr int sliding = 2, prefix = 3;
  if (maskIndex == sliding && window <= 0)
    site.fail("mask 'sliding' needs a positive attribute 'window'");
  if (maskIndex == prefix && types < 0)
    site.fail("mask 'prefix' needs operand 'types'");
  if ((segmentRows > 0) == (borders >= 0))
    site.fail("either operand 'cu_seqlens' or a positive attribute 'segment_rows' must be given");
}

} // namespace omnibal::rt
