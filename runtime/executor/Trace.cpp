#include "runtime/executor/Trace.h"
#include "runtime/comm/Communicator.h"
#include "runtime/schedule/StepPlans.h"

namespace omnibal::rt {
namespace {

/// Behind the lanes of Lane.
constexpr int64_t kernelLane = 4;
/// Processes of plans are behind those of ranks.
constexpr int64_t firstPlanProcess = int64_t{1} << 24;

std::string processName(int stage, int part, int rank) {
  return "stage " + std::to_string(stage) + (part >= 0 ? ", part " + std::to_string(part) : "") +
         " / rank " + std::to_string(rank);
}

} // namespace

Trace::Trace(int rank, int stage, int part) : rank(rank), stage(stage), part(part) {
  events.nameProcess(rank, processName(stage, part, rank));
  const char *lanes[] = {"compute", "send", "recv", "reduce", "kernels"};
  for (int64_t lane = 0; lane <= kernelLane; ++lane)
    events.nameLane({rank, lane}, lanes[lane]);
}

void Trace::span(Lane lane, const std::string &name, Clock::time_point begin, Clock::time_point end,
                 int32_t microbatch, int64_t tiles, int64_t tokens, int64_t bytes,
                 std::optional<int32_t> chunk) {
  events.span(name, lane == Lane::Compute ? "compute" : "message", placeOf(lane), nanos(begin),
              nanos(end), [&](JsonWriter &out) {
                out.attribute("mb", microbatch);
                if (chunk)
                  out.attribute("chunk", *chunk);
                out.attribute("tokens", tokens);
                out.attribute("tiles", tiles);
                if (bytes > 0)
                  out.attribute("bytes", bytes);
                if (!mode.empty())
                  out.attribute("mode", mode);
              });
}

void Trace::plan(const PlannedStep &planned, Clock::time_point begin) {
  const TraceWriter::Place place{firstPlanProcess + rank, plans};
  if (plans++ == 0) {
    events.nameProcess(place.process, "plan of " + processName(stage, part, rank));
    events.sortProcess(rank, int64_t{2} * rank);
    events.sortProcess(place.process, int64_t{2} * rank + 1);
  }
  events.nameLane(place, stepForPeople(planned.plan.step));
  const std::vector<planner::StepAction> &actions = planned.plan.actions[stage];
  for (size_t k = 0; k < actions.size(); ++k)
    events.span(std::string(1, letterOf(actions[k].kind)), "plan", place,
                nanos(begin) + planned.times.starts[stage][k],
                nanos(begin) + planned.times.ends[stage][k], [&](JsonWriter &out) {
                  out.attribute("mb", actions[k].microbatch);
                  out.attribute("chunk", actions[k].chunk);
                });
}

void Trace::flow(Lane lane, int64_t id, Clock::time_point when, bool begins) {
  events.arrow(begins ? TraceWriter::Arrow::Start : TraceWriter::Arrow::End, "message", "message",
               id, placeOf(lane), nanos(when));
}

void Trace::memory(Clock::time_point when, int64_t activationBytes) {
  events.counter("activations", rank, nanos(when), "bytes", activationBytes);
}

void Trace::kernel(const KernelCall &call, std::span<const TensorView> operands, Event begin,
                   Event end) {
  std::string shapes;
  for (size_t i = 0; i < operands.size(); ++i) {
    shapes += (i ? ", " : "") + call.operands[i].first + " ";
    for (int d = 0; d < operands[i].rank; ++d)
      shapes += (d ? "x" : "") + std::to_string(operands[i].shape[d]);
    if (operands[i].dtype != DType::F32)
      shapes += std::string(" ") + nameOf(operands[i].dtype);
  }
  marked.push_back({&call, std::move(shapes), begin, end});
}

void Trace::settle(const Backend &backend) {
  for (const MarkedKernel &kernel : marked)
    kernels.push_back(
        {kernel.call, kernel.shapes, backend.timeOf(kernel.begin), backend.timeOf(kernel.end)});
  marked.clear();
}

std::string Trace::take() {
  for (const KernelSpan &span : kernels)
    events.span(span.call->kernel, "kernel", {rank, kernelLane}, nanos(span.begin), nanos(span.end),
                [&](JsonWriter &out) {
                  out.attribute("label", span.call->label);
                  out.attribute("shapes", span.shapes);
                });
  kernels.clear();
  return events.take();
}

} // namespace omnibal::rt
