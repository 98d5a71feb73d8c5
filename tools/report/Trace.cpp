//===- Trace.cpp -------------------------------------------------------------------------===//
#include "tools/report/Trace.h"
#include "runtime/support/TraceWriter.h"
#include "tools/report/StepView.h"
#include <algorithm>
#include <map>

namespace omnibal::planner {
namespace {

using rt::TraceWriter;

/// Threads of a process. Messages on the way at the same time need one each: slices of one thread
/// must not overlap.
constexpr int compute = 0, firstSend = 1, firstReceive = 1001;

class Writer {
public:
  Writer(const Problem &problem, const Plan &plan, const Timeline &timeline)
      : plan(plan), timeline(timeline), view(viewOf(problem, plan, timeline)) {}

  std::string write() {
    for (size_t r = 0; r < plan.actions.size(); ++r) {
      const auto process = static_cast<int64_t>(r);
      out.nameProcess(process, "stage " + std::to_string(r) + " (predicted)");
      out.sortProcess(process, process);
      nameLane(r, compute, "compute");
      actions(r);
      for (const MemoryPoint &point : view.stages[r].memory)
        out.counter("memory", process, point.ns, "bytes", point.bytes);
    }
    for (size_t number = 0; number < view.transfers.size(); ++number)
      transfer(number);
    return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + out.take() + "]}\n";
  }

private:
  static TraceWriter::Place placeOf(size_t stage, int lane) {
    return {static_cast<int64_t>(stage), lane};
  }
  void nameLane(size_t stage, int lane, const std::string &name) {
    out.nameLane(placeOf(stage, lane), name);
    out.sortLane(placeOf(stage, lane), lane);
  }

  /// The first lane of its kind that is free from `start` on; transfers come in that order.
  int laneFor(size_t stage, int first, int64_t start, int64_t end) {
    std::vector<int64_t> &ends = laneEnds[{stage, first}];
    auto free = std::find_if(ends.begin(), ends.end(), [&](int64_t e) { return e <= start; });
    int lane = first + static_cast<int>(free - ends.begin());
    if (free == ends.end()) {
      std::string name = first == firstSend ? "send" : "receive";
      nameLane(stage, lane, ends.empty() ? name : name + " " + std::to_string(ends.size() + 1));
      ends.push_back(end);
    } else {
      *free = end;
    }
    return lane;
  }

  void actions(size_t stage) {
    static const char *categories[] = {"forward", "backward", "input-gradient", "weight-gradient"};
    int64_t end = 0;
    for (size_t k = 0; k < plan.actions[stage].size(); ++k) {
      const Action &action = plan.actions[stage][k];
      const ActionTime &time = timeline.times[stage][k];
      auto kind = static_cast<int>(action.kind);
      int64_t recompute = view.stages[stage].recomputeNs[k];
      out.span(letterOf(action.kind) + std::to_string(action.microbatch), categories[kind],
               placeOf(stage, compute), time.startNs, time.endNs, [&](rt::JsonWriter &out) {
                 out.attribute("micro-batch", action.microbatch);
                 out.attribute("chunk", action.chunk);
               });
      if (recompute > 0)
        out.span("recompute", "recompute", placeOf(stage, compute), time.startNs,
                 time.startNs + recompute, [](rt::JsonWriter &) {});
      end = time.endNs;
    }
    if (int64_t reduction = view.stages[stage].reductionNs; reduction > 0)
      out.span("gradient reduction", "reduction", placeOf(stage, compute), end, end + reduction,
               [](rt::JsonWriter &) {});
  }

  void transfer(size_t number) {
    const TransferTime &t = view.transfers[number];
    std::string name = (t.gradient ? "gradient " : "activation ") + std::to_string(t.microbatch);
    int sendLane = laneFor(t.sender.stage, firstSend, t.startNs, t.endNs);
    int receiveLane = laneFor(t.receiver.stage, firstReceive, t.startNs, t.endNs);
    for (auto [stage, lane] :
         {std::pair(t.sender.stage, sendLane), {t.receiver.stage, receiveLane}})
      out.span(name, "transfer", placeOf(stage, lane), t.startNs, t.endNs,
               [&](rt::JsonWriter &out) {
                 out.attribute("from chunk", t.fromChunk);
                 out.attribute("to chunk", t.toChunk);
                 out.attribute("bytes", t.bytes);
               });
    auto arrow = [&](TraceWriter::Arrow point, size_t stage, int lane, int64_t ns) {
      out.arrow(point, name, "transfer", static_cast<int64_t>(number), placeOf(stage, lane), ns);
    };
    const ActionTime &from = timeline.times[t.sender.stage][t.sender.index];
    const ActionTime &to = timeline.times[t.receiver.stage][t.receiver.index];
    arrow(TraceWriter::Arrow::Start, t.sender.stage, compute, from.startNs);
    arrow(TraceWriter::Arrow::Through, t.receiver.stage, receiveLane, t.startNs);
    arrow(TraceWriter::Arrow::End, t.receiver.stage, compute, to.startNs);
  }

  const Plan &plan;
  const Timeline &timeline;
  StepView view;
  TraceWriter out;
  std::map<std::pair<size_t, int>, std::vector<int64_t>> laneEnds; ///< by stage and first lane
};

} // namespace

std::string traceJson(const Problem &problem, const Plan &plan, const Timeline &timeline) {
  return Writer(problem, plan, timeline).write();
}

} // namespace omnibal::planner
