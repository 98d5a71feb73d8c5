//===- CrossAttentionKernels.cpp - `cross_attention` and `cross_attention_backward` ---------===//
//
// Tokens and the keys that they see fall into segments: neighboring tokens whose keys overlap, and
// these keys. No two segments share a token or a key, so the tasks of the gradients own what they
// write, as in attention of tokens to each other.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/host/kernels/AttentionOperands.h"
#include "runtime/device/calls/BoundCrossAttention.h"
#include <algorithm>
#include <limits>

namespace omnibal::rt {
namespace {

struct CrossSegment {
  int64_t begin, end;       ///< tokens
  int64_t keyBegin, keyEnd; ///< not empty
};

class CrossAttentionKernel final : public HostKernel, private BoundCrossAttention {
public:
  CrossAttentionKernel(CallReader &call, const BoundCall &description, bool backward)
      : HostKernel(description), BoundCrossAttention(call, backward), backward(backward) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    std::vector<int32_t> low, high;
    OMNIBAL_ASSIGN_OR_RETURN(const auto segments, findSegments(views, low, high));
    fillUnseen(views, segments);
    AttentionTask common = taskOf(*this, views, backward);
    common.mask = MaskKind::Listed;
    common.low = low.data();
    common.high = high.data();
    int64_t scratchFloats = 0;
    const std::vector<AttentionTask> tasks = split(views, segments, common, scratchFloats);
    OMNIBAL_RETURN_IF_ERROR(needScratch(scratchFloats * static_cast<int64_t>(sizeof(float)), pool));
    pool.parallelFor(static_cast<int64_t>(tasks.size()), [&](int64_t i, int worker) {
      AttentionTask task = tasks[i];
      task.scratch = static_cast<float *>(pool.scratch(worker));
      backward ? attentionBackwardTable().run(task) : attentionForwardTable().run(task);
    });
    return Status::ok();
  }

private:
  /// Segments in order; low and high get the keys of each token from its segment's first on.
  Result<std::vector<CrossSegment>> findSegments(std::span<const TensorView> views,
                                                 std::vector<int32_t> &low,
                                                 std::vector<int32_t> &high) const {
    const int64_t tokens = views[q].shape[0], keys = views[k].shape[0];
    auto at = [&](int operand, int64_t t) {
      return rows * dataOf<int32_t>(views[operand])[t * views[operand].strides[0]];
    };
    std::vector<CrossSegment> list;
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t begin = at(begins, t), end = at(ends, t);
      if (begin < end && (begin < 0 || end > keys))
        return bad("token " + std::to_string(t) + " sees rows " + std::to_string(begin) + " to " +
                   std::to_string(end) + " of " + std::to_string(keys) + " of the pictures");
      if (begin >= end) { // sees nothing
        if (!list.empty())
          list.back().end = t + 1;
        continue;
      }
      CrossSegment next{list.empty() ? 0 : t, t + 1, begin, end};
      while (!list.empty() && next.keyBegin < list.back().keyEnd) {
        next.begin = list.back().begin;
        next.keyBegin = std::min(next.keyBegin, list.back().keyBegin);
        next.keyEnd = std::max(next.keyEnd, list.back().keyEnd);
        list.pop_back();
      }
      list.push_back(next);
    }
    low.assign(tokens, 0);
    high.assign(tokens, 0);
    for (const CrossSegment &s : list)
      for (int64_t t = s.begin; t < s.end; ++t)
        if (at(begins, t) < at(ends, t)) {
          low[t] = static_cast<int32_t>(at(begins, t) - s.keyBegin);
          high[t] = static_cast<int32_t>(at(ends, t) - s.keyBegin);
        }
    return list;
  }

  /// Tokens outside of all segments see nothing, and keys outside are seen by none.
  void fillUnseen(std::span<const TensorView> views,
                  const std::vector<CrossSegment> &segments) const {
    const int64_t tokens = views[q].shape[0], keys = views[k].shape[0];
    if (segments.empty()) {
      fillHeads(backward ? views[dq] : views[out], 0, tokens, 0);
      if (!backward)
        fillHeads(views[lse], 0, tokens, -std::numeric_limits<float>::infinity());
    }
    if (!backward)
      return;
    int64_t next = 0;
    auto fillKeys = [&](int64_t end) {
      fillHeads(views[dk], next, end, 0);
      fillHeads(views[dv], next, end, 0);
    };
    for (const CrossSegment &s : segments) {
      fillKeys(s.keyBegin);
      next = s.keyEnd;
    }
    fillKeys(keys);
  }

  /// Splits the work by segment, key head and, in the forward, ranges of queries and of the heads
  /// of a group.
  std::vector<AttentionTask> split(std::span<const TensorView> views,
                                   const std::vector<CrossSegment> &segments,
                                   const AttentionTask &common, int64_t &scratchFloats) const {
    const int64_t keyHeads = views[k].shape[1], perKey = views[q].shape[1] / keyHeads;
    const int64_t headsAtOnce = backward ? perKey : std::min<int64_t>(perKey, 4);
    constexpr int64_t queriesAtOnce = 96;
    std::vector<AttentionTask> tasks;
    for (const CrossSegment &s : segments)
      for (int64_t keyHead = 0; keyHead < keyHeads; ++keyHead)
        for (int64_t h = 0; h < perKey; h += headsAtOnce)
          for (int64_t first = s.begin; first < s.end;) {
            AttentionTask task = common;
            task.begin = s.begin;
            task.end = s.end;
            task.keyBegin = s.keyBegin;
            task.keyEnd = s.keyEnd;
            task.keyHead = keyHead;
            task.firstHead = keyHead * perKey + h;
            task.heads = std::min(headsAtOnce, perKey - h);
            task.queryBegin = first;
            task.queryEnd = backward ? s.end : std::min(s.end, first + queriesAtOnce);
            first = task.queryEnd;
            tasks.push_back(task);
          }
    scratchFloats = backward ? attentionBackwardTable().scratchFloats(common.size, common.valueSize)
                             : attentionForwardTable().scratchFloats(common.size, common.valueSize,
                                                                     headsAtOnce, queriesAtOnce);
    return tasks;
  }

  bool backward;
};

template <bool backward> class CrossAttention {
public:
  static Result<std::unique_ptr<Kernel>> create(const BoundCall &call) {
    CallReader reader(call);
    auto kernel = std::make_unique<CrossAttentionKernel>(reader, call, backward);
    OMNIBAL_RETURN_IF_ERROR(reader.finish());
    return std::unique_ptr<Kernel>(std::move(kernel));
  }
};

} // namespace

void addCrossAttentionKernels(KernelTable &table) {
  table["cross_attention"] = CrossAttention<false>::create;
  table["cross_attention_backward"] = CrossAttention<true>::create;
}

} // namespace omnibal::rt
