#include "runtime/device/BoundAttention.h"
#include <limits>

namespace omnibal::rt {

BoundAttention::BoundAttention(CallReader &call, bool backward)
    : q(call.operand("q")), k(call.operand("k")), v(call.operand("v")), out(call.operand("out")),
      lse(call.operand("lse")), borders(call.optionalOperand("cu_seqlens")),
      types(call.optionalOperand("types")), scale(static_cast<float>(call.number("scale", 1))),
      softcap(static_cast<float>(call.number("softcap", 0))),
      maskIndex(call.choice("mask", {"full", "causal", "sliding", "prefix", "blocks", "chunked"})),
      window(call.integer("window", 0)), segmentRows(call.integer("segment_rows", 0)),
      firstType(call.integer("first_type", 0)),
      lastType(call.integer("last_type", std::numeric_limits<int32_t>::max())) {
  if (backward) {
    dout = call.operand("dout");
    dq = call.operand("dq");
    dk = call.operand("dk");
    dv = call.operand("dv");
  } else {
    sinks = call.optionalOperand("sinks");
  }
  constexpr int sliding = 2, prefix = 3, blocks = 4, chunked = 5;
  if ((maskIndex == sliding || maskIndex == chunked) && window <= 0)
    call.fail("masks 'sliding' and 'chunked' need a positive attribute 'window'");
  if ((maskIndex == prefix || maskIndex == blocks) != (types >= 0))
    call.fail("masks 'prefix' and 'blocks' need operand 'types', and no others");
  if (softcap < 0 || window < 0)
    call.fail("attributes 'softcap' and 'window' must not be negative");
  if ((segmentRows > 0) == (borders >= 0))
    call.fail("either operand 'cu_seqlens' or a positive attribute 'segment_rows' must be given");
}

} // namespace omnibal::rt
