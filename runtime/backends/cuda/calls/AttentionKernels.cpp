//===- AttentionKernels.cpp - `attention`, `attention_backward` and `rope` on the device ------===//
#include "runtime/backends/cuda/calls/AttentionOperands.h"
#include "runtime/backends/cuda/kernels/Copy.h"
#include "runtime/backends/cuda/kernels/Rope.h"
#include "runtime/backends/cuda/libraries/Libraries.h"
#include "runtime/device/calls/BoundAttention.h"
#include "runtime/device/calls/BoundRope.h"
#include <algorithm>

namespace omnibal::rt::cuda {
namespace {

/// Keys and values of a call's earlier tokens, and which of them each row sees.
struct KeysOnDevice final : KeptKeys::Memory {
  std::unique_ptr<DeviceBuffer> keys, values, seen;
  int64_t seenRows = 0;
};

template <bool backward> class AttentionKernel final : public DeviceKernel, private BoundAttention {
public:
  AttentionKernel(CallReader &call, const BoundCall &description, const KernelContext &context)
      : DeviceKernel(description, context), BoundAttention(call, backward),
        mask(static_cast<AttentionMask>(maskIndex)), whose(description.borders) {
    if (backward)
      workspace = call.optionalOperand("workspace");
    // What a later token sees of a prefix and of a window lies in two places.
    if (context.withoutKeys && keepsKeys() && mask == AttentionMask::Prefix && window > 0)
      *context.withoutKeys = true;
  }

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    AttentionShape s;
    AttentionData d;
    takeOperands(*this, views, s, d);
    takeMask(views, s, d);
    s.segmentRows = segmentRows;
    if (borders >= 0) {
      d.borders = static_cast<const int32_t *>(views[borders].data);
      s.borderCount = views[borders].shape[0];
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

  bool keepsKeys() const override { return !backward && borders >= 0 && whose == Borders::Samples; }

  /// The first run is one over a prompt as it is. Later ones have a token each, which sees some of
  /// the earlier ones, the last included.
  Status runBehind(KeptKeys::Rows &kept, std::span<const TensorView> views,
                   const SymbolValues &symbols, ThreadPool &pool) override {
    const bool isPrompt = kept.count == 0;
    if (!isPrompt && kept.next != 1)
      return bad("goes on from " + std::to_string(kept.count) +
                 " kept keys by one token at a time, not by " + std::to_string(kept.next));
    OMNIBAL_RETURN_IF_ERROR(isPrompt ? run(views, symbols, pool) : checkOperands(*this, views));
    if (!kept.memory)
      kept.memory = std::make_unique<KeysOnDevice>();
    auto &memory = static_cast<KeysOnDevice &>(*kept.memory);
    OMNIBAL_RETURN_IF_ERROR(keep(views[k], kept, memory.keys));
    OMNIBAL_RETURN_IF_ERROR(keep(views[v], kept, memory.values));
    kept.count += kept.next;
    if (isPrompt)
      return Status::ok();
    AttentionShape s;
    AttentionData d;
    takeOperands(*this, views, s, d);
    takeMask(views, s, d);
    OMNIBAL_RETURN_IF_ERROR(seeKept(kept.count, s, d, memory));
    return launched(launchAttention(s, d, context.stream));
  }

private:
  void takeMask(std::span<const TensorView> views, AttentionShape &s, AttentionData &d) const {
    s.mask = mask;
    s.softcap = softcap;
    s.window = window;
    s.firstType = firstType;
    s.lastType = lastType;
    if (types >= 0)
      d.types = static_cast<const int32_t *>(views[types].data);
    if (sinks >= 0) {
      d.sinks = static_cast<const float *>(views[sinks].data);
      s.sinkHead = views[sinks].strides[0];
    }
  }

  /// Adds the next rows of keys or values to those in `memory`, which are dense.
  Status keep(const TensorView &rows, const KeptKeys::Rows &kept,
              std::unique_ptr<DeviceBuffer> &memory) const {
    const int64_t heads = rows.shape[1], features = rows.shape[2];
    const int64_t rowBytes = heads * features * byteSize(rows.dtype);
    if (!memory) {
      OMNIBAL_ASSIGN_OR_RETURN(
          memory,
          DeviceBuffer::allocate(std::max(kept.most, kept.next) * rowBytes, context.stream));
    }
    if (kept.count + kept.next > std::max(kept.most, kept.next))
      return bad("there is room for the keys of " + std::to_string(kept.most) + " tokens only");
    if (kept.next * rowBytes == 0)
      return Status::ok();
    CopyShape copy;
    copy.strides.append(kept.next, heads * features, rows.strides[0]);
    copy.strides.append(heads, features, rows.strides[1]);
    copy.strides.append(features, 1, rows.strides[2]);
    copy.to = copy.from = elementOf(rows.dtype);
    return launched(
        launchCopy(copy, memory->data() + kept.count * rowBytes, rows.data, context.stream));
  }

  /// Makes the first row a query that sees what the mask lets the last of so many tokens see, and
  /// the others queries that see nothing.
  Status seeKept(int64_t count, AttentionShape &s, AttentionData &d, KeysOnDevice &memory) const {
    const int64_t bytes = 2 * s.tokens * int64_t{sizeof(int32_t)};
    if (memory.seenRows != s.tokens) {
      OMNIBAL_ASSIGN_OR_RETURN(memory.seen, DeviceBuffer::allocate(bytes, context.stream));
      OMNIBAL_RETURN_IF_ERROR(
          launched(cudaMemsetAsync(memory.seen->data(), 0, bytes, context.stream)));
      memory.seenRows = s.tokens;
    }
    int64_t first = 0;
    if (mask == AttentionMask::Chunked)
      first = (count - 1) / window * window;
    else if (mask != AttentionMask::Causal && window > 0)
      first = std::max<int64_t>(0, count - window);
    auto *begins = reinterpret_cast<int32_t *>(memory.seen->data()), *ends = begins + s.tokens;
    for (auto [to, key] : {std::pair{begins, first}, {ends, count}}) {
      FillShape one;
      one.strides.append(1, 1, 0);
      one.type = Element::I32;
      one.value = static_cast<double>(key);
      OMNIBAL_RETURN_IF_ERROR(launched(launchFill(one, to, context.stream)));
    }
    s.mask = AttentionMask::Listed;
    s.window = 0;
    s.keys = count;
    s.keyRows = 1;
    s.k = {s.keyHeads * s.size, s.size, 1};
    s.v = {s.keyHeads * s.valueSize, s.valueSize, 1};
    d.k = memory.keys->data();
    d.v = memory.values->data();
    d.types = nullptr;
    d.begins = begins;
    d.ends = ends;
    return Status::ok();
  }

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

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
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
