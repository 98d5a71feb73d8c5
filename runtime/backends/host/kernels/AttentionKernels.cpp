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
        mask(static_cast<MaskKind>(maskIndex)),
        ofSamples(borders >= 0 && description.borders == Borders::Samples) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    AttentionTask common = describe(views);
    OMNIBAL_ASSIGN_OR_RETURN(
        const Segments samples,
        segmentsOf(views[q].shape[0], segmentRows, borders < 0 ? nullptr : &views[borders]));
    const bool none = samples.empty() || views[q].shape[1] == 0; // a part may have no heads
    clearTail(views, none ? 0 : samples.back().second);
    return perform(views, common, samples, views[q].shape[0], 0, pool);
  }

  bool keepsKeys() const override { return ofSamples && !backward; }

  /// The sample's earlier tokens count as if they were there: token t of it is row t - before.
  Status runBehind(KeptKeys::Rows &kept, std::span<const TensorView> views, const SymbolValues &,
                   ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    OMNIBAL_ASSIGN_OR_RETURN(const Segments samples,
                             segmentsOf(views[q].shape[0], 0, &views[borders]));
    const int64_t rows = samples.empty() ? 0 : samples.front().second, before = kept.count;
    if (samples.size() > 1 || rows != kept.next)
      return bad("keys are kept of one sample at a time, here of " + std::to_string(kept.next) +
                 " tokens, but cu_seqlens has " + std::to_string(samples.size()) +
                 " samples and begins with " + std::to_string(rows) + " tokens");
    clearTail(views, rows);
    if (rows == 0)
      return Status::ok();
    AttentionTask common = describe(views);
    if (!kept.memory)
      kept.memory = std::make_unique<Kept>();
    keep(common, views[k].shape[1], kept);
    for (Heads *own : {&common.q, &common.out, &common.lse})
      own->data -= before * own->token;
    return perform(views, common, {{0, kept.count}}, kept.count, before, pool);
  }

private:
  /// What all tasks of the call have in common.
  AttentionTask describe(std::span<const TensorView> views) const {
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
    return common;
  }

  /// In the order of the tokens.
  struct Kept final : KeptKeys::Memory {
    std::vector<float> keys, values; ///< [count, heads, features]
    std::vector<int32_t> types;      ///< [count], where the mask goes by them
  };

  /// Adds keys, values and types of the next rows, and makes the task read those of all tokens.
  static void keep(AttentionTask &task, int64_t heads, KeptKeys::Rows &rows) {
    Kept &kept = static_cast<Kept &>(*rows.memory);
    kept.keys.reserve(static_cast<size_t>(rows.most * heads * task.size));
    kept.values.reserve(static_cast<size_t>(rows.most * heads * task.valueSize));
    task.k = keep(task.k, heads, task.size, rows.next, kept.keys);
    task.v = keep(task.v, heads, task.valueSize, rows.next, kept.values);
    if (task.types) {
      for (int64_t t = 0; t < rows.next; ++t)
        kept.types.push_back(task.types[t * task.typeStride]);
      task.types = kept.types.data();
      task.typeStride = 1;
    }
    rows.count += rows.next;
  }
  static Heads keep(const Heads &from, int64_t heads, int64_t features, int64_t rows,
                    std::vector<float> &kept) {
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t f = 0; f < features; ++f)
          kept.push_back(from.at(t, h)[f * from.feature]);
    return {kept.data(), heads * features, features, 1};
  }

  /// Attends the queries from `firstQuery` on to the tokens of their samples; `tokens` in all.
  Status perform(std::span<const TensorView> views, AttentionTask common, const Segments &samples,
                 int64_t tokens, int64_t firstQuery, ThreadPool &pool) {
    std::vector<int32_t> low, high;
    if (mask == MaskKind::Blocks || mask == MaskKind::Chunked) {
      low.assign(tokens, 0);
      high.assign(tokens, 0);
      mask == MaskKind::Blocks ? findBlocks(common, samples, low, high)
                               : findChunks(samples, low, high);
      common.low = low.data();
      common.high = high.data();
    }
    const Plan plan = split(views, samples, common, firstQuery);
    const std::vector<AttentionTask> &tasks = plan.tasks;
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

  struct Plan {
    std::vector<AttentionTask> tasks;
    int64_t scratchBytes = 0;
    int64_t group = 1; ///< tasks in one call of the pool
  };

  /// The keys that each token sees under the blocks mask, relative to its segment: as far back as
  /// the window reaches, up to the end of its block.
  void findBlocks(const AttentionTask &task, const Segments &samples, std::vector<int32_t> &low,
                  std::vector<int32_t> &high) const {
    auto inBlock = [&](int64_t token) {
      const int32_t type = task.types[token * task.typeStride];
      return type >= firstType && type <= lastType;
    };
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
  void findChunks(const Segments &samples, std::vector<int32_t> &low,
                  std::vector<int32_t> &high) const {
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
  Plan split(std::span<const TensorView> views, const Segments &list, const AttentionTask &common,
             int64_t firstQuery) const {
    if (views[q].shape[1] == 0)
      return {};
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
          const int64_t first = std::max(begin, firstQuery);
          for (int64_t last = end; last > first;) {
            task.queryEnd = last;
            task.queryBegin =
                backward ? first : first + (last - first - 1) / queriesAtOnce * queriesAtOnce;
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
  bool ofSamples; ///< segments are samples, and not pictures
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
