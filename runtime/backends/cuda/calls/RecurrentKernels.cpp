//===- RecurrentKernels.cpp - `gated_delta` and its gradient on the device --------------------===//
#include "runtime/backends/cuda/calls/KernelTable.h"
#include "runtime/backends/cuda/kernels/Recurrent.h"
#include "runtime/device/calls/BoundRecurrent.h"

namespace omnibal::rt::cuda {
namespace {

HeadStrides headsOf(const TensorView &v) { return {v.strides[0], v.strides[1], 1}; }

template <bool backward>
class GatedDeltaKernel final : public DeviceKernel, private BoundGatedDelta {
public:
  GatedDeltaKernel(CallReader &call, const BoundCall &description, const KernelContext &context)
      : DeviceKernel(description, context), BoundGatedDelta(call, backward) {
    if (backward)
      workspace = call.optionalOperand("workspace");
  }

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    GatedDeltaShape s;
    s.tokens = views[q].shape[0];
    s.heads = views[q].shape[1];
    s.size = views[q].shape[2];
    s.valueSize = views[v].shape[2];
    s.q = headsOf(views[q]);
    s.k = headsOf(views[k]);
    s.v = headsOf(views[v]);
    s.decay = headsOf(views[decay]);
    s.beta = headsOf(views[beta]);
    s.scale = scale;
    s.segmentRows = segmentRows;
    s.type = elementOf(views[q].dtype);
    GatedDeltaData d;
    d.q = views[q].data;
    d.k = views[k].data;
    d.v = views[v].data;
    d.decay = views[decay].data;
    d.beta = views[beta].data;
    if (borders >= 0) {
      d.borders = static_cast<const int32_t *>(views[borders].data);
      s.borderCount = views[borders].shape[0];
    }
    if constexpr (!backward) {
      s.out = headsOf(views[out]);
      d.out = views[out].data;
      return launched(launchGatedDelta(s, d, context.stream));
    }
    s.dout = headsOf(views[dout]);
    s.dq = headsOf(views[dq]);
    s.dk = headsOf(views[dk]);
    s.dv = headsOf(views[dv]);
    s.ddecay = headsOf(views[ddecay]);
    s.dbeta = headsOf(views[dbeta]);
    d.dout = views[dout].data;
    d.dq = views[dq].data;
    d.dk = views[dk].data;
    d.dv = views[dv].data;
    d.ddecay = views[ddecay].data;
    d.dbeta = views[dbeta].data;
    if (s.tokens == 0)
      return Status::ok();
    OMNIBAL_ASSIGN_OR_RETURN(Scratch memory,
                             scratch(views, workspace, gatedDeltaWorkspaceBytes(s)));
    d.workspace = memory.data;
    return launched(launchGatedDeltaBackward(s, d, context.stream));
  }

private:
  int workspace = -1;
};

} // namespace

void addRecurrentKernels(DeviceKernelTable &table) {
  table["gated_delta"] = createKernelOf<GatedDeltaKernel<false>>;
  table["gated_delta_backward"] = createKernelOf<GatedDeltaKernel<true>>;
}

} // namespace omnibal::rt::cuda
