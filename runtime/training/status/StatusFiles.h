//===- StatusFiles.h - Files that say how a run is doing -------------------------------------===//
#ifndef RUNTIME_TRAINING_STATUS_STATUSFILES_H
#define RUNTIME_TRAINING_STATUS_STATUSFILES_H

#include "runtime/support/Status.h"
#include "runtime/training/status/Metrics.h"
#include <cstdint>
#include <string>

namespace omnibal::rt {

enum class RunPhase { Starting, Training, Evaluating, Saving, Finished, Stopped, Failed };
/// As heartbeats have it.
std::string nameOf(RunPhase phase);

/// What a heartbeat says. `step`: the log's number of the step that ended last, -1: none; `time` in
/// seconds since 1970.
std::string heartbeatText(RunPhase phase, int64_t step, int64_t steps, double time);

/// The heartbeat and the metrics of a run of so many steps, each where it is wanted (an empty path:
/// it is not). They are written at every step and whenever the phase changes.
class StatusFiles {
public:
  StatusFiles(std::string heartbeatPath, std::string metricsPath, int64_t steps);

  /// Writes them for the first time, behind step `completed` - 1; an error names the file and its
  /// flag.
  Status open(int64_t completed);
  void enter(RunPhase phase);
  /// `line`: the step's, as the log has it.
  void step(const nlohmann::ordered_json &line);
  void evaluation(const nlohmann::ordered_json &figures);
  /// The first error of writing them, once: a run does not end for it.
  Status takeProblem();

private:
  void beat();
  void writeMetrics();
  void note(Status written);

  std::string heartbeatPath, metricsPath;
  int64_t steps, last = -1;
  RunPhase phase = RunPhase::Starting;
  RunMetrics metrics;
  Status problem;
  bool told = false;
};

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_STATUS_STATUSFILES_H
