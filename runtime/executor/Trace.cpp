#include "runtime/executor/Trace.h"
#include <nlohmann/json.hpp>

namespace omnibal::rt {

using nlohmann::json;

void Trace::span(Lane lane, const std::string &name, Clock::time_point begin, Clock::time_point end,
                 int32_t microbatch, int64_t tiles, int64_t tokens, int64_t bytes) {
  json args = {{"mb", microbatch}, {"tokens", tokens}, {"tiles", tiles}};
  if (bytes > 0)
    args["bytes"] = bytes;
  events.push_back(json({{"ph", "X"},
                         {"name", name},
                         {"pid", rank},
                         {"tid", static_cast<int>(lane)},
                         {"ts", micros(begin)},
                         {"dur", micros(end) - micros(begin)},
                         {"args", args}})
                       .dump());
}

void Trace::flow(Lane lane, int64_t id, Clock::time_point when, bool begins) {
  json event = {{"ph", begins ? "s" : "f"},
                {"name", "message"},
                {"cat", "message"},
                {"id", id},
                {"pid", rank},
                {"tid", static_cast<int>(lane)},
                {"ts", micros(when)}};
  if (!begins)
    event["bp"] = "e";
  events.push_back(event.dump());
}

void Trace::memory(Clock::time_point when, int64_t activationBytes) {
  events.push_back(json({{"ph", "C"},
                         {"name", "activations"},
                         {"pid", rank},
                         {"ts", micros(when)},
                         {"args", {{"bytes", activationBytes}}}})
                       .dump());
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

std::string Trace::toJson() const {
  std::string text;
  auto meta = [&](const char *what, int tid, const std::string &name) {
    text +=
        nlohmann::json(
            {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", tid}, {"args", {{"name", name}}}})
            .dump() +
        ",\n";
  };
  meta("process_name", 0, "stage " + std::to_string(stage) + " / rank " + std::to_string(rank));
  const char *lanes[] = {"compute", "send", "recv", "reduce", "kernels"};
  constexpr int kernelLane = 4;
  for (int i = 0; i <= kernelLane; ++i)
    meta("thread_name", i, lanes[i]);
  for (const std::string &event : events)
    text += event + ",\n";
  for (const KernelSpan &span : kernels)
    text += json({{"ph", "X"},
                  {"name", span.call->kernel},
                  {"pid", rank},
                  {"tid", kernelLane},
                  {"ts", micros(span.begin)},
                  {"dur", micros(span.end) - micros(span.begin)},
                  {"args", {{"label", span.call->label}, {"shapes", span.shapes}}}})
                .dump() +
            ",\n";
  text.erase(text.size() - 2, 1);
  return text;
}

} // namespace omnibal::rt
