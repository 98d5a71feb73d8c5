//===- RecurrentKernels.cpp - `gated_delta` and its gradient: checks and tasks ------------===//
#include "runtime/backends/host/kernels/HostKernel.h"
#include "runtime/backends/host/vector/Recurrent.h"
#include "runtime/device/calls/BoundRecurrent.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

Heads rowsOf(const TensorView &v) {
  return {dataOf<float>(v), v.strides[0], v.strides[1], v.rank > 2 ? v.strides[2] : 0};
}

template <bool backward> class GatedDelta final : public HostKernel, private BoundGatedDelta {
public:
  GatedDelta(CallReader &call, const BoundCall &description)
      : HostKernel(description), BoundGatedDelta(call, backward) {}

  static Result<std::unique_ptr<Kernel>> create(const BoundCall &call) {
    CallReader reader(call);
    auto kernel = std::make_unique<GatedDelta>(reader, call);
    OMNIBAL_RETURN_IF_ERROR(reader.finish());
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    GatedDeltaTask common;
    common.q = rowsOf(views[q]);
    common.k = rowsOf(views[k]);
    common.v = rowsOf(views[v]);
    common.decay = rowsOf(views[decay]);
    common.beta = rowsOf(views[beta]);
    if constexpr (backward) {
      common.dout = rowsOf(views[dout]);
      common.dq = rowsOf(views[dq]);
      common.dk = rowsOf(views[dk]);
      common.dv = rowsOf(views[dv]);
      common.ddecay = rowsOf(views[ddecay]);
      common.dbeta = rowsOf(views[dbeta]);
    } else {
      common.out = rowsOf(views[out]);
    }
    common.size = views[q].shape[2];
    common.valueSize = views[v].shape[2];
    common.scale = scale;
    OMNIBAL_ASSIGN_OR_RETURN(
        const Segments list,
        segmentsOf(views[q].shape[0], segmentRows, borders < 0 ? nullptr : &views[borders]));
    OMNIBAL_RETURN_IF_ERROR(checkScratch(common, list, pool));
    clearTail(views, list.empty() ? 0 : list.back().second);
    const std::vector<GatedDeltaTask> tasks = split(common, list, views[q].shape[1]);
    pool.parallelFor(static_cast<int64_t>(tasks.size()), [&](int64_t i, int worker) {
      GatedDeltaTask task = tasks[i];
      task.scratch = static_cast<float *>(pool.scratch(worker));
      backward ? gatedDeltaTable().backward(task) : gatedDeltaTable().forward(task);
    });
    return Status::ok();
  }

private:
  Status checkScratch(const GatedDeltaTask &task, const Segments &list, ThreadPool &pool) const {
    int64_t longest = 0;
    for (auto [begin, end] : list)
      longest = std::max(longest, end - begin);
    const int64_t floats = backward ? gatedDeltaTable().backwardFloats(task.size, longest)
                                    : gatedDeltaTable().forwardFloats(task.size);
    const auto bytes = floats * static_cast<int64_t>(sizeof(float));
    if (bytes <= static_cast<int64_t>(pool.scratchBytes()))
      return Status::ok();
    return bad("states of " + std::to_string(task.size) + " features over " +
               std::to_string(longest) + " tokens need " + std::to_string(bytes) +
               " bytes of scratch a thread, but the pool has " +
               std::to_string(pool.scratchBytes()) + "; use shorter samples");
  }

  /// Rows after the last segment are 0.
  void clearTail(std::span<const TensorView> views, int64_t begin) const {
    for (int operand : {out, dq, dk, dv, ddecay, dbeta}) {
      if (operand < 0)
        continue;
      const TensorView &view = views[operand];
      const Heads rows = rowsOf(view);
      for (int64_t t = begin; t < view.shape[0]; ++t)
        for (int64_t h = 0; h < view.shape[1]; ++h)
          std::fill_n(rows.at(t, h), view.rank > 2 ? view.shape[2] : 1, 0.f);
    }
  }

  /// Tasks by segment, head and, forward, columns of the state.
  std::vector<GatedDeltaTask> split(const GatedDeltaTask &common, const Segments &list,
                                    int64_t heads) const {
    std::vector<GatedDeltaTask> tasks;
    const int64_t columns =
        backward ? std::max<int64_t>(common.valueSize, 1) : gatedDeltaTable().columns;
    for (auto [begin, end] : list)
      for (int64_t head = 0; head < heads; ++head)
        for (int64_t column = 0; column < common.valueSize; column += columns) {
          GatedDeltaTask task = common;
          task.begin = begin;
          task.end = end;
          task.head = head;
          task.column = column;
          tasks.push_back(task);
        }
    return tasks;
  }
};

} // namespace

void addRecurrentKernels(KernelTable &table) {
  table["gated_delta"] = GatedDelta<false>::create;
  table["gated_delta_backward"] = GatedDelta<true>::create;
}

} // namespace omnibal::rt
