#include "runtime/device/BoundCrossAttention.h"
#include <tuple>

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

Status BoundCrossAttention::checkOperands(const CheckedKernel &kernel,
                                          std::span<const TensorView> views) const {
  const TensorView &vq = views[q], &vk = views[k], &vv = views[v], &vo = views[out];
  for (auto [index, name] : {std::pair{q, "q"}, {k, "k"}, {v, "v"}, {out, "out"}}) {
    OMNIBAL_RETURN_IF_ERROR(kernel.expectFloat(views[index], name, 3));
    OMNIBAL_RETURN_IF_ERROR(kernel.sameType(views[index], name, vq, "q"));
  }
  OMNIBAL_RETURN_IF_ERROR(kernel.expect(views[lse], "lse", 2, DType::F32));
  const int64_t tokens = vq.shape[0], heads = vq.shape[1], keyHeads = vk.shape[1];
  const TensorView &vl = views[lse];
  if (vv.shape[0] != vk.shape[0] || vv.shape[1] != keyHeads || vk.shape[2] != vq.shape[2] ||
      vo.shape[0] != tokens || vo.shape[1] != heads || vo.shape[2] != vv.shape[2] ||
      vl.shape[0] != tokens || vl.shape[1] != heads)
    return kernel.bad("shapes do not fit together: q " + printShape(vq) + ", k " + printShape(vk) +
                      ", v " + printShape(vv) + ", out " + printShape(vo) + ", lse " +
                      printShape(vl));
  if (keyHeads == 0 || heads % keyHeads != 0)
    return kernel.bad(std::to_string(heads) + " query heads do not divide among " +
                      std::to_string(keyHeads) + " key heads");
  OMNIBAL_RETURN_IF_ERROR(kernel.expectList(views[begins], "begins", DType::I32, tokens));
  OMNIBAL_RETURN_IF_ERROR(kernel.expectList(views[ends], "ends", DType::I32, tokens));
  if (dout >= 0)
    for (auto [index, name, like, likeName] : {std::tuple{dout, "dout", out, "out"},
                                               {dq, "dq", q, "q"},
                                               {dk, "dk", k, "k"},
                                               {dv, "dv", v, "v"}})
      OMNIBAL_RETURN_IF_ERROR(kernel.expectLike(views[index], name, views[like], likeName));
  return Status::ok();
}

} // namespace omnibal::rt
