//===- AttentionKernels.cpp - `attention`, `attention_backward` and `rope` on the device ------===//
#include "runtime/backends/cuda/calls/AttentionOperands.h"
#include "runtime/backends/cuda/kernels/Rope.h"
#include "runtime/backends/cuda/libraries/Libraries.h"
#include "runtime/device/BoundAttention.h"

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
    OMNIBAL_RETURN_IF_ERROR(checkShapes(views));
    AttentionShape s;
    AttentionData d;
    takeOperands<BoundAttention>(*this, views, s, d);
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
    takeGradients<BoundAttention>(*this, views, s, d);
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

  Status checkShapes(std::span<const TensorView> views) const {
    const TensorView &vq = views[q], &vk = views[k], &vv = views[v], &vo = views[out];
    for (auto [index, name] : {std::pair{q, "q"}, {k, "k"}, {v, "v"}, {out, "out"}}) {
      OMNIBAL_RETURN_IF_ERROR(expectFloat(views[index], name, 3));
      OMNIBAL_RETURN_IF_ERROR(sameType(views[index], name, vq, "q"));
    }
    OMNIBAL_RETURN_IF_ERROR(expect(views[lse], "lse", 2, DType::F32));
    const int64_t tokens = vq.shape[0], heads = vq.shape[1], keyHeads = vk.shape[1];
    if (vk.shape[0] != tokens || vv.shape[0] != tokens || vv.shape[1] != keyHeads ||
        vk.shape[2] != vq.shape[2] || vo.shape[0] != tokens || vo.shape[1] != heads ||
        vo.shape[2] != vv.shape[2] || views[lse].shape[0] != tokens || views[lse].shape[1] != heads)
      return bad("the shapes of q, k, v, out and lse do not fit together");
    if (keyHeads == 0 || heads % keyHeads != 0)
      return bad(std::to_string(heads) + " query heads do not divide among " +
                 std::to_string(keyHeads) + " key heads");
    if (backward)
      for (auto [view, name, like, likeName] : {std::tuple{dout, "dout", out, "out"},
                                                {dq, "dq", q, "q"},
                                                {dk, "dk", k, "k"},
                                                {dv, "dv", v, "v"}}) {
        OMNIBAL_RETURN_IF_ERROR(expectFloat(views[view], name, 3));
        OMNIBAL_RETURN_IF_ERROR(sameType(views[view], name, views[like], likeName));
        OMNIBAL_RETURN_IF_ERROR(same(views[view], name, views[like], likeName));
      }
    if (types >= 0)
      OMNIBAL_RETURN_IF_ERROR(expectList(views[types], "types", DType::I32, tokens));
    if (sinks >= 0) {
      OMNIBAL_RETURN_IF_ERROR(expect(views[sinks], "sinks", 1, DType::F32));
      if (views[sinks].shape[0] != heads)
        return bad(std::to_string(views[sinks].shape[0]) + " sinks for " + std::to_string(heads) +
                   " query heads");
    }
    if (borders >= 0)
      OMNIBAL_RETURN_IF_ERROR(expectList(views[borders], "cu_seqlens", DType::I32, -1));
    if (segmentRows > 0 && tokens % segmentRows != 0)
      return bad(std::to_string(tokens) +
                 " rows are not a multiple of 'segment_rows' = " + std::to_string(segmentRows));
    return Status::ok();
  }

  int workspace = -1;
  AttentionMask mask;
  Borders whose;
};

class RopeKernel final : public DeviceKernel {
public:
  RopeKernel(CallReader &call, const BoundCall &description, const KernelContext &context)
      : DeviceKernel(description, context) {
    x = call.operand("x");
    positions = call.operand("positions");
    cosine = call.operand("cos");
    sine = call.operand("sin");
    out = call.operand("out");
    interleaved = call.flag("interleaved", false);
    inverse = call.flag("inverse", false);
  }

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &) override {
    const TensorView &vx = views[x], &vc = views[cosine], &vs = views[sine];
    OMNIBAL_RETURN_IF_ERROR(expectFloat(vx, "x", 3));
    OMNIBAL_RETURN_IF_ERROR(expectFloat(views[out], "out", 3));
    OMNIBAL_RETURN_IF_ERROR(sameType(views[out], "out", vx, "x"));
    OMNIBAL_RETURN_IF_ERROR(same(views[out], "out", vx, "x"));
    OMNIBAL_RETURN_IF_ERROR(expectList(views[positions], "positions", DType::I32, vx.shape[0]));
    OMNIBAL_RETURN_IF_ERROR(expect(vc, "cos", 2, DType::F32));
    OMNIBAL_RETURN_IF_ERROR(expect(vs, "sin", 2, DType::F32));
    OMNIBAL_RETURN_IF_ERROR(same(vs, "sin", vc, "cos"));
    if (vc.shape[1] > vx.shape[2] || vc.shape[1] % 2 != 0)
      return bad("tables of " + std::to_string(vc.shape[1]) + " columns do not fit heads of " +
                 std::to_string(vx.shape[2]));
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

private:
  int x, positions, cosine, sine, out;
  bool interleaved, inverse;
};

} // namespace

void addAttentionKernels(DeviceKernelTable &table) {
  table["attention"] = createKernelOf<AttentionKernel<false>>;
  table["attention_backward"] = createKernelOf<AttentionKernel<true>>;
  table["rope"] = createKernelOf<RopeKernel>;
}

} // namespace omnibal::rt::cuda
