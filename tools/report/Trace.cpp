//===- Trace.cpp -------------------------------------------------------------------------===//
#include "tools/report/Trace.h"
#include "runtime/support/JsonWriter.h"
#include "tools/report/StepView.h"
#include <algorithm>
#include <map>

namespace omnibal::planner {
namespace {

/// Threads of a process. Messages on the way at the same time need one each: slices of one thread
/// must not overlap.
constexpr int compute = 0, firstSend = 1, firstReceive = 1001;

class Writer {
public:
  Writer(const Problem &problem, const Plan &plan, const Timeline &timeline)
      : plan(plan), timeline(timeline), view(viewOf(problem, plan, timeline)) {}

  std::string write() {
    out.object([&] {
      out.attribute("displayTimeUnit", "ms");
      out.attributeArray("traceEvents", [&] {
        for (size_t r = 0; r < plan.actions.size(); ++r) {
          names(r);
          actions(r);
          memory(r);
        }
        for (size_t number = 0; number < view.transfers.size(); ++number)
          transfer(number);
      });
    });
    return out.take() + "\n";
  }

private:
  /// One event: phase, name, rank, lane, begin; `more` adds to it.
  template <typename More>
  void event(const char *phase, const std::string &name, size_t rank, int lane, int64_t ns,
             More more) {
    out.object([&] {
      out.attribute("ph", phase);
      out.attribute("name", name);
      out.attribute("pid", static_cast<int64_t>(rank));
      out.attribute("tid", lane);
      microseconds("ts", ns);
      more();
    });
  }
  /// Exact, unlike a double of a long step.
  void microseconds(const char *key, int64_t ns) {
    std::string fraction = std::to_string(ns % 1000);
    out.rawAttribute(key, std::to_string(ns / 1000) + "." + std::string(3 - fraction.size(), '0') +
                              fraction);
  }

  template <typename T>
  void metadata(const char *kind, size_t rank, int lane, const char *key, const T &value) {
    event("M", kind, rank, lane, 0,
          [&] { out.attributeObject("args", [&] { out.attribute(key, value); }); });
  }
  void names(size_t rank) {
    metadata("process_name", rank, 0, "name", "rank " + std::to_string(rank) + " (predicted)");
    metadata("process_sort_index", rank, 0, "sort_index", static_cast<int64_t>(rank));
    laneName(rank, compute, "compute");
  }
  void laneName(size_t rank, int lane, const std::string &name) {
    metadata("thread_name", rank, lane, "name", name);
    metadata("thread_sort_index", rank, lane, "sort_index", lane);
  }

  /// The first lane of its kind that is free from `start` on; transfers come in that order.
  int laneFor(size_t rank, int first, int64_t start, int64_t end) {
    std::vector<int64_t> &ends = laneEnds[{rank, first}];
    auto free = std::find_if(ends.begin(), ends.end(), [&](int64_t e) { return e <= start; });
    int lane = first + static_cast<int>(free - ends.begin());
    if (free == ends.end()) {
      std::string name = first == firstSend ? "send" : "receive";
      laneName(rank, lane, ends.empty() ? name : name + " " + std::to_string(ends.size() + 1));
      ends.push_back(end);
    } else {
      *free = end;
    }
    return lane;
  }

  template <typename F>
  void span(const std::string &name, const char *category, size_t rank, int lane, int64_t start,
            int64_t end, F arguments) {
    event("X", name, rank, lane, start, [&] {
      microseconds("dur", end - start);
      out.attribute("cat", category);
      out.attributeObject("args", arguments);
    });
  }

  void actions(size_t rank) {
    static const char *categories[] = {"forward", "backward", "input-gradient", "weight-gradient"};
    int64_t end = 0;
    for (size_t k = 0; k < plan.actions[rank].size(); ++k) {
      const Action &action = plan.actions[rank][k];
      const ActionTime &time = timeline.times[rank][k];
      auto kind = static_cast<int>(action.kind);
      int64_t recompute = view.ranks[rank].recomputeNs[k];
      span(letterOf(action.kind) + std::to_string(action.microbatch), categories[kind], rank,
           compute, time.startNs, time.endNs, [&] {
             out.attribute("micro-batch", action.microbatch);
             out.attribute("chunk", action.chunk);
           });
      if (recompute > 0)
        span("recompute", "recompute", rank, compute, time.startNs, time.startNs + recompute,
             [] {});
      end = time.endNs;
    }
    if (int64_t reduction = view.ranks[rank].reductionNs; reduction > 0)
      span("gradient reduction", "reduction", rank, compute, end, end + reduction, [] {});
  }

  void memory(size_t rank) {
    for (const MemoryPoint &point : view.ranks[rank].memory)
      event("C", "memory", rank, 0, point.ns,
            [&] { out.attributeObject("args", [&] { out.attribute("bytes", point.bytes); }); });
  }

  void transfer(size_t number) {
    const TransferTime &t = view.transfers[number];
    std::string name = (t.gradient ? "gradient " : "activation ") + std::to_string(t.microbatch);
    int sendLane = laneFor(t.sender.rank, firstSend, t.startNs, t.endNs);
    int receiveLane = laneFor(t.receiver.rank, firstReceive, t.startNs, t.endNs);
    for (auto [rank, lane] : {std::pair(t.sender.rank, sendLane), {t.receiver.rank, receiveLane}})
      span(name, "transfer", rank, lane, t.startNs, t.endNs, [&] {
        out.attribute("from chunk", t.fromChunk);
        out.attribute("to chunk", t.toChunk);
        out.attribute("bytes", t.bytes);
      });
    auto arrow = [&](const char *phase, size_t rank, int lane, int64_t ns) {
      event(phase, name, rank, lane, ns, [&] {
        out.attribute("cat", "transfer");
        out.attribute("id", static_cast<int64_t>(number));
        if (*phase != 's')
          out.attribute("bp", "e"); // bound to the slice around, not to the next one
      });
    };
    const ActionTime &from = timeline.times[t.sender.rank][t.sender.index];
    const ActionTime &to = timeline.times[t.receiver.rank][t.receiver.index];
    arrow("s", t.sender.rank, compute, from.startNs);
    arrow("t", t.receiver.rank, receiveLane, t.startNs);
    arrow("f", t.receiver.rank, compute, to.startNs);
  }

  const Plan &plan;
  const Timeline &timeline;
  StepView view;
  rt::JsonWriter out;
  std::map<std::pair<size_t, int>, std::vector<int64_t>> laneEnds; ///< by rank and first lane
};

} // namespace

std::string traceJson(const Problem &problem, const Plan &plan, const Timeline &timeline) {
  return Writer(problem, plan, timeline).write();
}

} // namespace omnibal::planner
