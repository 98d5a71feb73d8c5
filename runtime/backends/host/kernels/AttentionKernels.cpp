//===- AttentionKernels.cpp - `attention` and `attention_backward`: checks and tasks -----===//
#include "runtime/backends/host/kernels/AttentionOperands.h"
#include "runtime/device/calls/BoundAttention.h"
#include <algorithm>
#include <limits>

namespace omnibal::rt {
namespace {

class AttentionKernel final : public HostKernel, private BoundAttention {
public:
  AttentionKernel(CallReader &call, const BoundCall &description, bool backward)
      : HostKernel(description), BoundAttention(call, backward), backward(backward),
        mask(static_cast<MaskKind>(maskIndex)) {}

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    AttentionTask common = taskOf(*this, views, backward);
    common.mask = mask;
    common.window = window;
    common.softcap = softcap;
    common.lastType = lastType;
    if (types >= 0) {
      common.types = dataOf<int32_t>(views[types]);
      common.typeStride = views[types].strides[0];
    }
    if (sinks >= 0) {
      common.sinks = dataOf<float>(views[sinks]);
      common.sinkStride = views[sinks].strides[0];
    }
    OMNIBAL_ASSIGN_OR_RETURN(
        const Segments samples,
        segmentsOf(views[q].shape[0], segmentRows, borders < 0 ? nullptr : &views[borders]));
    std::vector<int32_t> low, high;
    if (mask == MaskKind::Blocks || mask == MaskKind::Chunked) {
      mask == MaskKind::Blocks ? findBlocks(views[types], samples, low, high)
                               : findChunks(views[q].shape[0], samples, low, high);
      common.low = low.data();
      common.high = high.data();
    }
    const Plan plan = split(views, samples, common);
    const std::vector<AttentionTask> &tasks = plan.tasks;
    clearTail(views, tasks.empty() ? 0 : tasks.back().end);
    const size_t group = plan.group;
    OMNIBAL_RETURN_IF_ERROR(needScratch(plan.scratchBytes, pool));
    pool.parallelFor((tasks.size() + group - 1) / group, [&](int64_t number, int worker) {
      size_t first = number * group, last = std::min(tasks.size(), first + group);
      for (size_t i = first; i < last; ++i) {
        AttentionTask task = tasks[i];
        task.scratch = static_cast<float *>(pool.scratch(worker));
        backward ? attentionBackwardTable().run(task) : attentionForwardTable().run(task);
      }
    });
    return Status::ok();
  }

private:
  struct Plan {
    std::vector<AttentionTask> tasks;
    int64_t scratchBytes = 0;
    int64_t group = 1; ///< tasks in one call of the pool
  };

  /// The keys that each token sees under the blocks mask, relative to its segment: as far back as
  /// the window reaches, up to the end of its block.
  void findBlocks(const TensorView &view, const Segments &samples, std::vector<int32_t> &low,
                  std::vector<int32_t> &high) const {
    auto inBlock = [&](int64_t token) {
      const int32_t type = dataOf<int32_t>(view)[token * view.strides[0]];
      return type >= firstType && type <= lastType;
    };
    low.assign(view.shape[0], 0);
    high.assign(view.shape[0], 0);
    for (auto [begin, end] : samples)
      for (int64_t first = begin; first < end;) {
        int64_t last = first + 1;
        while (inBlock(first) && last < end && inBlock(last))
          ++last;
        for (int64_t token = first; token < last; ++token) {
          const int64_t reach = window > 0 ? std::max(begin, token + 1 - window) : begin;
          low[token] = static_cast<int32_t>(reach - begin);
          high[token] = static_cast<int32_t>(last - begin);
        }
        first = last;
      }
  }

  /// Does the same under the chunked mask: finds those before a token from the beginning of its
  /// chunk on.
  void findChunks(int64_t tokens, const Segments &samples, std::vector<int32_t> &low,
                  std::vector<int32_t> &high) const {
    low.assign(tokens, 0);
    high.assign(tokens, 0);
    for (auto [begin, end] : samples)
      for (int64_t token = begin; token < end; ++token) {
        low[token] = static_cast<int32_t>((token - begin) / window * window);
        high[token] = static_cast<int32_t>(token - begin + 1);
      }
  }

  /// Rows after the last segment see nothing.
  void clearTail(std::span<const TensorView> views, int64_t begin) const {
    auto fill = [&](int operand, float value) {
      fillHeads(views[operand], begin, views[operand].shape[0], value);
    };
    if (backward) {
      for (int gradient : {dq, dk, dv})
        fill(gradient, 0);
      return;
    }
    fill(out, 0);
    fill(lse, -std::numeric_limits<float>::infinity());
  }

  /// Tasks by segment, key head and, forward, ranges of queries and of the heads of a group.
  Plan split(std::span<const TensorView> views, const Segments &list,
             const AttentionTask &common) const {
    if (views[q].shape[1] == 0) { // of a part of a stage that has no heads
      clearTail(views, 0);
      return {};
    }
    const int64_t keyHeads = views[k].shape[1], perKey = views[q].shape[1] / keyHeads;
    // Scratch holds a state per query and head: 384 of them keep it within a cache.
    const int64_t headsAtOnce = backward ? perKey : std::min<int64_t>(perKey, 4);
    const int64_t queriesAtOnce = 96 * (4 / std::min<int64_t>(headsAtOnce, 4));
    Plan plan;
    std::vector<AttentionTask> &tasks = plan.tasks;
    double work = 0;
    for (auto [begin, end] : list)
      for (int64_t keyHead = 0; keyHead < keyHeads; ++keyHead) {
        AttentionTask task = common;
        task.begin = task.keyBegin = begin;
        task.end = task.keyEnd = end;
        task.keyHead = keyHead;
        for (int64_t h = 0; h < perKey; h += headsAtOnce) {
          task.firstHead = keyHead * perKey + h;
          task.heads = std::min(headsAtOnce, perKey - h);
          // From the end: with a causal mask the last queries see most, and come first.
          for (int64_t last = end; last > begin;) {
            task.queryEnd = last;
            task.queryBegin =
                backward ? begin : begin + (last - begin - 1) / queriesAtOnce * queriesAtOnce;
            last = task.queryBegin;
            tasks.push_back(task);
            work += double(task.queryEnd - task.queryBegin) * task.heads * double(end - begin) *
                    double(task.size + task.valueSize);
          }
        }
      }
    int64_t floats = backward
                         ? attentionBackwardTable().scratchFloats(common.size, common.valueSize)
                         : attentionForwardTable().scratchFloats(common.size, common.valueSize,
                                                                 headsAtOnce, queriesAtOnce);
    plan.scratchBytes = floats * static_cast<int64_t>(sizeof(float));
    // Short segments: enough of them in one call of the pool to be worth handing out.
    double each = tasks.empty() ? 0 : work / static_cast<double>(tasks.size());
    plan.group = std::clamp<int64_t>(static_cast<int64_t>(2e5 / std::max(each, 1.0)), 1,
                                     std::max<int64_t>(1, static_cast<int64_t>(tasks.size()) / 16));
    return plan;
  }

  bool backward;
  MaskKind mask;
};

template <bool backward> class Attention {
public:
  static Result<std::unique_ptr<Kernel>> create(const BoundCall &call) {
    CallReader reader(call);
    auto kernel = std::make_unique<AttentionKernel>(reader, call, backward);
    OMNIBAL_RETURN_IF_ERROR(reader.finish());
    return std::unique_ptr<Kernel>(std::move(kernel));
  }
};

} // namespace

void addAttentionKernels(KernelTable &table) {
  table["attention"] = Attention<false>::create;
  table["attention_backward"] = Attention<true>::create;
}

} // namespace omnibal::rt
