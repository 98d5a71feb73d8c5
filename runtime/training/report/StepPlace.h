//===- StepPlace.h - Where a step stands in its run -------------------------------------------===//
#ifndef RUNTIME_TRAINING_REPORT_STEPPLACE_H
#define RUNTIME_TRAINING_REPORT_STEPPLACE_H

#include "runtime/executor/Executor.h"
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace omnibal::rt {

/// What a run has trained on, over all starts.
struct SamplesSeen {
  static constexpr const char *key = "seen"; ///< in checkpoints
  int64_t samples = 0, tokens = 0;

  /// Of what a checkpoint keeps; zeros where it says nothing.
  static SamplesSeen of(const nlohmann::json &kept);
  nlohmann::json toJson() const { return {{"samples", samples}, {"tokens", tokens}}; }
  void add(const StepResult &step);
};

/// Where a step stands in the run.
struct StepPlace {
  int64_t epoch = 0; ///< that holds its samples
  SamplesSeen seen;  ///< by the run, this step included
  /// What its micro-batches could have held, over all replicas.
  int64_t roomForTiles = 0, roomForTokens = 0;
  std::map<std::string, double> normOfPart; ///< of gradients, where that is wanted (--part-norms)

  /// Adds the micro-batches of a run in this train mode.
  void addRoom(const Program &program, size_t mode);
};

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_REPORT_STEPPLACE_H
