#include "runtime/training/status/StatusFiles.h"
#include "runtime/support/ReplacedFile.h"
#include <chrono>
#include <filesystem>
#include <unistd.h>
#include <utility>

namespace omnibal::rt {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

} // namespace

std::string nameOf(RunPhase phase) {
  switch (phase) {
  case RunPhase::Starting:
    return "starting";
  case RunPhase::Training:
    return "training";
  case RunPhase::Evaluating:
    return "evaluating";
  case RunPhase::Saving:
    return "saving";
  case RunPhase::Finished:
    return "finished";
  case RunPhase::Stopped:
    return "stopped";
  case RunPhase::Failed:
    return "failed";
  }
  return "";
}

std::string heartbeatText(RunPhase phase, int64_t step, int64_t steps, double time) {
  nlohmann::ordered_json text = {{"step", nullptr},
                                 {"steps", steps},
                                 {"phase", nameOf(phase)},
                                 {"time", time},
                                 {"pid", ::getpid()}};
  if (step >= 0)
    text["step"] = step;
  return text.dump() + "\n";
}

StatusFiles::StatusFiles(std::string heartbeatPath, std::string metricsPath, int64_t steps)
    : heartbeatPath(std::move(heartbeatPath)), metricsPath(std::move(metricsPath)), steps(steps) {
  metrics.run = std::filesystem::path(this->metricsPath).stem();
}

Status StatusFiles::open(int64_t completed) {
  last = completed - 1;
  beat();
  OMNIBAL_RETURN_IF_ERROR(std::exchange(problem, Status::ok()).context("--heartbeat"));
  writeMetrics();
  return std::exchange(problem, Status::ok()).context("--prometheus");
}

void StatusFiles::enter(RunPhase next) {
  phase = next;
  beat();
}

void StatusFiles::step(const nlohmann::ordered_json &line) {
  last = line["step"];
  phase = RunPhase::Training;
  metrics.step = line;
  beat();
  writeMetrics();
}

void StatusFiles::evaluation(const nlohmann::ordered_json &figures) {
  metrics.evaluation = figures;
  writeMetrics();
}

Status StatusFiles::takeProblem() {
  if (problem || std::exchange(told, true))
    return Status::ok();
  return problem;
}

void StatusFiles::beat() {
  if (!heartbeatPath.empty())
    note(replaceFile(heartbeatPath, heartbeatText(phase, last, steps, now())));
}

void StatusFiles::writeMetrics() {
  if (metricsPath.empty())
    return;
  metrics.time = now();
  note(replaceFile(metricsPath, metricsText(metrics)));
}

void StatusFiles::note(Status written) {
  if (!written && problem)
    problem = std::move(written);
}

} // namespace omnibal::rt
