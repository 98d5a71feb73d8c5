//===- CrossAttentionKernels.cpp - `cross_attention` and its gradient on the device ----------===//
#include "runtime/backends/cuda/calls/AttentionOperands.h"
#include "runtime/device/BoundCrossAttention.h"

namespace omnibal::rt::cuda {
namespace {

template <bool backward>
class CrossAttentionKernel final : public DeviceKernel, private BoundCrossAttention {
public:
  CrossAttentionKernel(CallReader &call, const BoundCall &description, const KernelContext &context)
      : DeviceKernel(description, context), BoundCrossAttention(call, backward) {
    if (backward)
      workspace = call.optionalOperand("workspace");
  }

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkShapes(views));
    AttentionShape s;
    AttentionData d;
    takeOperands<BoundCrossAttention>(*this, views, s, d);
    s.keys = views[k].shape[0];
    s.mask = AttentionMask::Listed;
    s.keyRows = rows;
    d.begins = static_cast<const int32_t *>(views[begins].data);
    d.ends = static_cast<const int32_t *>(views[ends].data);
    if constexpr (!backward)
      return launched(launchAttention(s, d, context.stream));
    takeGradients<BoundCrossAttention>(*this, views, s, d);
    OMNIBAL_ASSIGN_OR_RETURN(Scratch memory, scratch(views, workspace, attentionWorkspaceBytes(s)));
    d.workspace = memory.data;
    return launched(launchAttentionBackward(s, d, context.stream));
  }

private:
  Status checkShapes(std::span<const TensorView> views) const {
    const TensorView &vq = views[q], &vk = views[k], &vv = views[v], &vo = views[out];
    for (auto [index, name] : {std::pair{q, "q"}, {k, "k"}, {v, "v"}, {out, "out"}}) {
      OMNIBAL_RETURN_IF_ERROR(expectFloat(views[index], name, 3));
      OMNIBAL_RETURN_IF_ERROR(sameType(views[index], name, vq, "q"));
    }
    OMNIBAL_RETURN_IF_ERROR(expect(views[lse], "lse", 2, DType::F32));
    const int64_t tokens = vq.shape[0], heads = vq.shape[1], keyHeads = vk.shape[1];
    if (vv.shape[0] != vk.shape[0] || vv.shape[1] != keyHeads || vk.shape[2] != vq.shape[2] ||
        vo.shape[0] != tokens || vo.shape[1] != heads || vo.shape[2] != vv.shape[2] ||
        views[lse].shape[0] != tokens || views[lse].shape[1] != heads)
      return bad("the shapes of q, k, v, out and lse do not fit together");
    if (keyHeads == 0 || heads % keyHeads != 0)
      return bad(std::to_string(heads) + " query heads do not divide among " +
                 std::to_string(keyHeads) + " key heads");
    OMNIBAL_RETURN_IF_ERROR(expectList(views[begins], "begins", DType::I32, tokens));
    OMNIBAL_RETURN_IF_ERROR(expectList(views[ends], "ends", DType::I32, tokens));
    if (backward)
      for (auto [view, name, like, likeName] : {std::tuple{dout, "dout", out, "out"},
                                                {dq, "dq", q, "q"},
                                                {dk, "dk", k, "k"},
                                                {dv, "dv", v, "v"}}) {
        OMNIBAL_RETURN_IF_ERROR(expectFloat(views[view], name, 3));
        OMNIBAL_RETURN_IF_ERROR(sameType(views[view], name, views[like], likeName));
        OMNIBAL_RETURN_IF_ERROR(same(views[view], name, views[like], likeName));
      }
    return Status::ok();
  }

  int workspace = -1;
};

} // namespace

void addCrossAttentionKernels(DeviceKernelTable &table) {
  table["cross_attention"] = createKernelOf<CrossAttentionKernel<false>>;
  table["cross_attention_backward"] = createKernelOf<CrossAttentionKernel<true>>;
}

} // namespace omnibal::rt::cuda
