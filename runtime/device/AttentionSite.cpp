#include "runtime/device/AttentionSite.h"
#include <limits>

namespace omnibal::rt {

AttentionSite::AttentionSite(SiteReader &site, bool backward)
    : q(site.operand("q")), k(site.operand("k")), v(site.operand("v")), out(site.operand("out")),
      lse(site.operand("lse")), borders(site.optionalOperand("cu_seqlens")),
      types(site.optionalOperand("types")), scale(static_cast<float>(site.number("scale", 1))),
      softcap(static_cast<float>(site.number("softcap", 0))),
      maskIndex(site.choice("mask", {"full", "causal", "sliding", "prefix", "blocks", "chunked"})),
      window(site.integer("window", 0)), segmentRows(site.integer("segment_rows", 0)),
      firstType(site.integer("first_type", 0)),
      lastType(site.integer("last_type", std::numeric_limits<int32_t>::max())) {
  if (backward) {
    dout = site.operand("dout");
    dq = site.operand("dq");
    dk = site.operand("dk");
    dv = site.operand("dv");
  } else {
    sinks = site.optionalOperand("sinks");
  }
  constexpr int sliding = 2, prefix = 3, blocks = 4, chunked = 5;
  if ((maskIndex == sliding || maskIndex == chunked) && window <= 0)
    site.fail("masks 'sliding' and 'chunked' need a positive attribute 'window'");
  if ((maskIndex == prefix || maskIndex == blocks) != (types >= 0))
    site.fail("masks 'prefix' and 'blocks' need operand 'types', and no others");
  if (softcap < 0 || window < 0)
    site.fail("attributes 'softcap' and 'window' must not be negative");
  if ((segmentRows > 0) == (borders >= 0))
    site.fail("either operand 'cu_seqlens' or a positive attribute 'segment_rows' must be given");
}

} // namespace omnibal::rt
