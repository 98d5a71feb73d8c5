//===- CrossAttentionKernels.cpp - `cross_attention` and its gradient on the device ----------===//
#include "runtime/backends/cuda/calls/KernelTable.h"
#include "runtime/backends/cuda/kernels/Attention.h"
#include "runtime/core/CrossAttentionSite.h"

namespace omnibal::rt::cuda {
namespace {

HeadStrides headsOf(const TensorView &v) { return {v.strides[0], v.strides[1], v.strides[2]}; }

template <bool backward>
class CrossAttentionKernel final : public DeviceKernel, private CrossAttentionSite {
public:
  CrossAttentionKernel(SiteReader &site, const KernelSite &description,
                       const KernelContext &context)
      : DeviceKernel(description, context), CrossAttentionSite(site, backward) {
    if (backward)
      workspace = site.optionalOperand("workspace");
  }

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkShapes(views));
    AttentionShape s;
    s.tokens = views[q].shape[0];
    s.keys = views[k].shape[0];
    s.heads = views[q].shape[1];
    s.keyHeads = views[k].shape[1];
    s.size = views[q].shape[2];
    s.valueSize = views[v].shape[2];
    s.q = headsOf(views[q]);
    s.k = headsOf(views[k]);
    s.v = headsOf(views[v]);
    s.out = headsOf(views[out]);
    s.lseToken = views[lse].strides[0];
    s.lseHead = views[lse].strides[1];
    s.scale = scale;
    s.mask = AttentionMask::Listed;
    s.keyRows = rows;
    s.type = elementOf(views[q].dtype);
    AttentionData d;
    d.q = views[q].data;
    d.k = views[k].data;
    d.v = views[v].data;
    d.out = views[out].data;
    d.lse = static_cast<float *>(views[lse].data);
    d.begins = static_cast<const int32_t *>(views[begins].data);
    d.ends = static_cast<const int32_t *>(views[ends].data);
    if constexpr (!backward)
      return launched(launchAttention(s, d, context.stream));
    s.dout = headsOf(views[dout]);
    s.dq = headsOf(views[dq]);
    s.dk = headsOf(views[dk]);
    s.dv = headsOf(views[dv]);
    d.dout = views[dout].data;
    d.dq = views[dq].data;
    d.dk = views[dk].data;
    d.dv = views[dv].data;
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
