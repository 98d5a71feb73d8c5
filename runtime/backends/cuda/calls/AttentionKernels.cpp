//===- AttentionKernels.cpp - `attention`, `attention_backward` and `rope` on the device ------===//
#include "runtime/backends/cuda/calls/AttentionOperands.h"
#include "runtime/backends/cuda/kernels/Rope.h"
#include "runtime/backends/cuda/libraries/Libraries.h"
#include "runtime/device/calls/BoundAttention.h"
#include "runtime/device/calls/BoundRope.h"

namespace omnibal::rt::cuda {
namespace {

template <bool backward> class AttentionKernel final : public DeviceKernel, private BoundAttention {
public:
  AttentionKernel(CallReader &call, const BoundCall &description, const KernelContext &context)
      : DeviceKernel(description, context), BoundAttention(call, backward),
        mask(static_cast<AttentionMask>(maskIndex)), whose(description.borders) {
    if (backward)
      workspace = call.optionalOperand("workspace");
  }

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    AttentionShape s;
    AttentionData d;
    takeOperands(*this, views, s, d);
    s.mask = mask;
    s.softcap = softcap;
    s.window = window;
    s.firstType = firstType;
    s.lastType = lastType;
    s.segmentRows = segmentRows;
    if (borders >= 0) {
      d.borders = static_cast<const int32_t *>(views[borders].data);
      s.borderCount = views[borders].shape[0];
    }
    if (types >= 0)
      d.types = static_cast<const int32_t *>(views[types].data);
    if (sinks >= 0) {
      d.sinks = static_cast<const float *>(views[sinks].data);
      s.sinkHead = views[sinks].strides[0];
    }
    if constexpr (!backward) {
      OMNIBAL_ASSIGN_OR_RETURN(const bool done, byLibrary(s, d));
      return done ? Status::ok() : launched(launchAttention(s, d, context.stream));
    }
    takeGradients(*this, views, s, d);
    if (s.tokens == 0)
      return Status::ok();
    OMNIBAL_ASSIGN_OR_RETURN(const bool done, byLibrary(s, d));
    if (done)
      return Status::ok();
    OMNIBAL_ASSIGN_OR_RETURN(Scratch memory, scratch(views, workspace, attentionWorkspaceBytes(s)));
    d.workspace = memory.data;
    return launched(launchAttentionBackward(s, d, context.stream));
  }

private:
  Result<bool> byLibrary(const AttentionShape &s, const AttentionData &d) const {
    if (!context.libraries)
      return false;
    Load load;
    if (context.load) {
      const Pieces pieces = context.load->of(whose);
      load.samples = pieces.count;
      load.longest = pieces.longest;
    }
    return context.libraries->attend(s, d, &load, backward);
  }

  int workspace = -1;
  AttentionMask mask;
  Borders whose;
};

class RopeKernel final : public DeviceKernel, private BoundRope {
public:
  RopeKernel(CallReader &call, const BoundCall &description, const KernelContext &context)
      : DeviceKernel(description, context), BoundRope(call) {}

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    const TensorView &vx = views[x], &vc = views[cosine], &vs = views[sine];
    if (vc.shape[1] > 1 && (vc.strides[1] != 1 || vs.strides[1] != 1))
      return bad("rows of 'cos' and 'sin' must be dense");
    RopeShape s;
    s.tokens = vx.shape[0];
    s.heads = vx.shape[1];
    s.size = vx.shape[2];
    s.turned = vc.shape[1];
    s.x = headsOf(vx);
    s.out = headsOf(views[out]);
    s.cosineRow = vc.strides[0];
    s.sineRow = vs.strides[0];
    s.type = elementOf(vx.dtype);
    s.interleaved = interleaved;
    s.inverse = inverse;
    return launched(launchRope(s, vx.data, static_cast<const int32_t *>(views[positions].data),
                               static_cast<const float *>(vc.data),
                               static_cast<const float *>(vs.data), views[out].data,
                               context.stream));
  }
};

} // namespace

void addAttentionKernels(DeviceKernelTable &table) {
  table["attention"] = createKernelOf<AttentionKernel<false>>;
  table["attention_backward"] = createKernelOf<AttentionKernel<true>>;
  table["rope"] = createKernelOf<RopeKernel>;
}

} // namespace omnibal::rt::cuda
