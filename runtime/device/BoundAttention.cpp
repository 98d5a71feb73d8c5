#include "runtime/device/BoundAttention.h"
#include <limits>
#include <tuple>

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

Status BoundAttention::checkOperands(const CheckedKernel &kernel,
                                     std::span<const TensorView> views) const {
  const TensorView &vq = views[q], &vk = views[k], &vv = views[v], &vo = views[out];
  for (auto [index, name] : {std::pair{q, "q"}, {k, "k"}, {v, "v"}, {out, "out"}}) {
    OMNIBAL_RETURN_IF_ERROR(kernel.expectFloat(views[index], name, 3));
    OMNIBAL_RETURN_IF_ERROR(kernel.sameType(views[index], name, vq, "q"));
  }
  OMNIBAL_RETURN_IF_ERROR(kernel.expect(views[lse], "lse", 2, DType::F32));
  const int64_t tokens = vq.shape[0], heads = vq.shape[1], keyHeads = vk.shape[1];
  const TensorView &vl = views[lse];
  if (vk.shape[0] != tokens || vv.shape[0] != tokens || vv.shape[1] != keyHeads ||
      vk.shape[2] != vq.shape[2] || vo.shape[0] != tokens || vo.shape[1] != heads ||
      vo.shape[2] != vv.shape[2] || vl.shape[0] != tokens || vl.shape[1] != heads)
    return kernel.bad("shapes do not fit together: q " + printShape(vq) + ", k " + printShape(vk) +
                      ", v " + printShape(vv) + ", out " + printShape(vo) + ", lse " +
                      printShape(vl));
  if (keyHeads == 0 || heads % keyHeads != 0)
    return kernel.bad(std::to_string(heads) + " query heads do not divide among " +
                      std::to_string(keyHeads) + " key heads");
  if (dout >= 0)
    for (auto [index, name, like, likeName] : {std::tuple{dout, "dout", out, "out"},
                                               {dq, "dq", q, "q"},
                                               {dk, "dk", k, "k"},
                                               {dv, "dv", v, "v"}})
      OMNIBAL_RETURN_IF_ERROR(kernel.expectLike(views[index], name, views[like], likeName));
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
