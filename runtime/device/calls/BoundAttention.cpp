#include "runtime/device/calls/BoundAttention.h"
#include <limits>

namespace omnibal::rt {

BoundAttention::BoundAttention(CallReader &call, bool backward)
    : AttentionOperands(call, backward), borders(call.optionalOperand("cu_seqlens")),
      types(call.optionalOperand("types")), softcap(static_cast<float>(call.number("softcap", 0))),
      maskIndex(call.choice("mask", {"full", "causal", "sliding", "prefix", "blocks", "chunked"})),
      window(call.integer("window", 0)), segmentRows(call.integer("segment_rows", 0)),
      firstType(call.integer("first_type", 0)),
      lastType(call.integer("last_type", std::numeric_limits<int32_t>::max())) {
  if (!backward)
    sinks = call.optionalOperand("sinks");
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

Status BoundAttention::checkOperands(const CheckedKernel &kernel,
                                     std::span<const TensorView> views) const {
  OMNIBAL_RETURN_IF_ERROR(checkShapes(kernel, views, true));
  const int64_t tokens = views[q].shape[0], heads = views[q].shape[1];
  if (types >= 0)
    OMNIBAL_RETURN_IF_ERROR(kernel.expectList(views[types], "types", DType::I32, tokens));
  if (sinks >= 0) {
    OMNIBAL_RETURN_IF_ERROR(kernel.expect(views[sinks], "sinks", 1, DType::F32));
    if (views[sinks].shape[0] != heads)
      return kernel.bad(std::to_string(views[sinks].shape[0]) + " sinks for " +
                        std::to_string(heads) + " query heads");
  }
  if (borders >= 0)
    OMNIBAL_RETURN_IF_ERROR(kernel.expectList(views[borders], "cu_seqlens", DType::I32, -1));
  if (segmentRows > 0 && tokens % segmentRows != 0)
    return kernel.bad(std::to_string(tokens) + " rows are not a multiple of 'segment_rows' = " +
                      std::to_string(segmentRows));
  return Status::ok();
}

} // namespace omnibal::rt
