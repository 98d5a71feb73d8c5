//===- CrossAttentionKernels.cpp - `cross_attention` and its gradient on the device ----------===//
#include "runtime/backends/cuda/calls/AttentionOperands.h"
#include "runtime/device/calls/BoundCrossAttention.h"

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

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    AttentionShape s;
    AttentionData d;
    takeOperands(*this, views, s, d);
    s.keys = views[k].shape[0];
    s.mask = AttentionMask::Listed;
    s.keyRows = rows;
    d.begins = static_cast<const int32_t *>(views[begins].data);
    d.ends = static_cast<const int32_t *>(views[ends].data);
    if constexpr (!backward)
      return launched(launchAttention(s, d, context.stream));
    takeGradients(*this, views, s, d);
    OMNIBAL_ASSIGN_OR_RETURN(Scratch memory, scratch(views, workspace, attentionWorkspaceBytes(s)));
    d.workspace = memory.data;
    return launched(launchAttentionBackward(s, d, context.stream));
  }

private:
  int workspace = -1;
};

} // namespace

void addCrossAttentionKernels(DeviceKernelTable &table) {
  table["cross_attention"] = createKernelOf<CrossAttentionKernel<false>>;
  table["cross_attention_backward"] = createKernelOf<CrossAttentionKernel<true>>;
}

} // namespace omnibal::rt::cuda
