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
  /// One event: phase, name, stage, lane, begin; `more` adds to it.
  template <typename More>
  void event(const char *phase, const std::string &name, size_t stage, int lane, int64_t ns,
             More more) {
    out.object([&] {
      out.attribute("ph", phase);
      out.attribute("name", name);
      out.attribute("pid", static_cast<int64_t>(stage));
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
  void metadata(const char *kind, size_t stage, int lane, const char *key, const T &value) {
    event("M", kind, stage, lane, 0,
          [&] { out.attributeObject("args", [&] { out.attribute(key, value); }); });
  }
  void names(size_t stage) {
    metadata("process_name", stage, 0, "name", "stage " + std::to_string(stage) + " (predicted)");
    metadata("process_sort_index", stage, 0, "sort_index", static_cast<int64_t>(stage));
    laneName(stage, compute, "compute");
  }
  void laneName(size_t stage, int lane, const std::string &name) {
    metadata("thread_name", stage, lane, "name", name);
    metadata("thread_sort_index", stage, lane, "sort_index", lane);
  }

  /// The first lane of its kind that is free from `start` on; transfers come in that order.
  int laneFor(size_t stage, int first, int64_t start, int64_t end) {
    std::vector<int64_t> &ends = laneEnds[{stage, first}];
    auto free = std::find_if(ends.begin(), ends.end(), [&](int64_t e) { return e <= start; });
    int lane = first + static_cast<int>(free - ends.begin());
    if (free == ends.end()) {
      std::string name = first == firstSend ? "send" : "receive";
      laneName(stage, lane, ends.empty() ? name : name + " " + std::to_string(ends.size() + 1));
      ends.push_back(end);
    } else {
      *free = end;
    }
    return lane;
  }

  template <typename F>
  void span(const std::string &name, const char *category, size_t stage, int lane, int64_t start,
            int64_t end, F arguments) {
    event("X", name, stage, lane, start, [&] {
      microseconds("dur", end - start);
      out.attribute("cat", category);
      out.attributeObject("args", arguments);
    });
  }

  void actions(size_t stage) {
    static const char *categories[] = {"forward", "backward", "input-gradient", "weight-gradient"};
    int64_t end = 0;
    for (size_t k = 0; k < plan.actions[stage].size(); ++k) {
      const Action &action = plan.actions[stage][k];
      const ActionTime &time = timeline.times[stage][k];
      auto kind = static_cast<int>(action.kind);
      int64_t recompute = view.stages[stage].recomputeNs[k];
      span(letterOf(action.kind) + std::to_string(action.microbatch), categories[kind], stage,
           compute, time.startNs, time.endNs, [&] {
             out.attribute("micro-batch", action.microbatch);
             out.attribute("chunk", action.chunk);
           });
      if (recompute > 0)
        span("recompute", "recompute", stage, compute, time.startNs, time.startNs + recompute,
             [] {});
      end = time.endNs;
    }
    if (int64_t reduction = view.stages[stage].reductionNs; reduction > 0)
      span("gradient reduction", "reduction", stage, compute, end, end + reduction, [] {});
  }

  void memory(size_t stage) {
    for (const MemoryPoint &point : view.stages[stage].memory)
      event("C", "memory", stage, 0, point.ns,
            [&] { out.attributeObject("args", [&] { out.attribute("bytes", point.bytes); }); });
  }

  void transfer(size_t number) {
    const TransferTime &t = view.transfers[number];
    std::string name = (t.gradient ? "gradient " : "activation ") + std::to_string(t.microbatch);
    int sendLane = laneFor(t.sender.stage, firstSend, t.startNs, t.endNs);
    int receiveLane = laneFor(t.receiver.stage, firstReceive, t.startNs, t.endNs);
    for (auto [stage, lane] :
         {std::pair(t.sender.stage, sendLane), {t.receiver.stage, receiveLane}})
      span(name, "transfer", stage, lane, t.startNs, t.endNs, [&] {
        out.attribute("from chunk", t.fromChunk);
        out.attribute("to chunk", t.toChunk);
        out.attribute("bytes", t.bytes);
      });
    auto arrow = [&](const char *phase, size_t stage, int lane, int64_t ns) {
      event(phase, name, stage, lane, ns, [&] {
        out.attribute("cat", "transfer");
        out.attribute("id", static_cast<int64_t>(number));
        if (*phase != 's')
          out.attribute("bp", "e"); // bound to the slice around, not to the next one
      });
    };
    const ActionTime &from = timeline.times[t.sender.stage][t.sender.index];
    const ActionTime &to = timeline.times[t.receiver.stage][t.receiver.index];
    arrow("s", t.sender.stage, compute, from.startNs);
    arrow("t", t.receiver.stage, receiveLane, t.startNs);
    arrow("f", t.receiver.stage, compute, to.startNs);
  }

  const Plan &plan;
  const Timeline &timeline;
  StepView view;
  rt::JsonWriter out;
  std::map<std::pair<size_t, int>, std::vector<int64_t>> laneEnds; ///< by stage and first lane
};

} // namespace

std::string traceJson(const Problem &problem, const Plan &plan, const Timeline &timeline) {
  return Writer(problem, plan, timeline).write();
}

} // namespace omnibal::planner
