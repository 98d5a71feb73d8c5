#include "runtime/device/calls/AttentionOperands.h"
#include <tuple>

namespace omnibal::rt {

AttentionOperands::AttentionOperands(CallReader &call, bool backward)
    : q(call.operand("q")), k(call.operand("k")), v(call.operand("v")), out(call.operand("out")),
      lse(call.operand("lse")), scale(static_cast<float>(call.number("scale", 1))) {
  if (backward) {
    dout = call.operand("dout");
    dq = call.operand("dq");
    dk = call.operand("dk");
    dv = call.operand("dv");
  }
}

Status AttentionOperands::checkShapes(const CheckedKernel &kernel,
                                      std::span<const TensorView> views, bool toItself) const {
  const TensorView &vq = views[q], &vk = views[k], &vv = views[v], &vo = views[out];
  for (auto [index, name] : {std::pair{q, "q"}, {k, "k"}, {v, "v"}, {out, "out"}}) {
    OMNIBAL_RETURN_IF_ERROR(kernel.expectFloat(views[index], name, 3));
    OMNIBAL_RETURN_IF_ERROR(kernel.sameType(views[index], name, vq, "q"));
  }
  OMNIBAL_RETURN_IF_ERROR(kernel.expect(views[lse], "lse", 2, DType::F32));
  const int64_t tokens = vq.shape[0], heads = vq.shape[1], keyHeads = vk.shape[1];
  const TensorView &vl = views[lse];
  if ((toItself && vk.shape[0] != tokens) || vv.shape[0] != vk.shape[0] ||
      vv.shape[1] != keyHeads || vk.shape[2] != vq.shape[2] || vo.shape[0] != tokens ||
      vo.shape[1] != heads || vo.shape[2] != vv.shape[2] || vl.shape[0] != tokens ||
      vl.shape[1] != heads)
    return kernel.bad("shapes do not fit together: q " + printShape(vq) + ", k " + printShape(vk) +
                      ", v " + printShape(vv) + ", out " + printShape(vo) + ", lse " +
                      printShape(vl));
  if (keyHeads == 0 ? heads != 0 : heads % keyHeads != 0)
    return kernel.bad(std::to_string(heads) + " query heads do not divide among " +
                      std::to_string(keyHeads) + " key heads");
  if (dout >= 0)
    for (auto [index, name, like, likeName] : {std::tuple{dout, "dout", out, "out"},
                                               {dq, "dq", q, "q"},
                                               {dk, "dk", k, "k"},
                                               {dv, "dv", v, "v"}})
      OMNIBAL_RETURN_IF_ERROR(kernel.expectLike(views[index], name, views[like], likeName));
  return Status::ok();
}

} // namespace omnibal::rt
