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
  const char *lanes[] = {"compute", "send", "recv", "reduce"};
  for (int i = 0; i < 4; ++i)
    meta("thread_name", i, lanes[i]);
  for (size_t i = 0; i < events.size(); ++i)
    text += events[i] + (i + 1 < events.size() ? ",\n" : "\n");
  if (events.empty())
    text.erase(text.size() - 2, 1);
  return text;
}

} // namespace omnibal::rt
