//===- MixOfRun.h - Weights of the data sets that change while a run trains -------------------===//
#ifndef RUNTIME_TRAINING_CHECKPOINTS_MIXOFRUN_H
#define RUNTIME_TRAINING_CHECKPOINTS_MIXOFRUN_H

#include "runtime/batching/steps/MixCourse.h"
#include "runtime/training/checkpoints/RunCheckpoints.h"
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace omnibal::rt {

/// Among what describeRun() tells: --mix-at, where it is given.
inline constexpr const char *mixAtKey = "mix_at";
void describeMix(const RunOptions &options, nlohmann::json &run);

/// What --mix-at says of one run. Up to the step that a run goes on from, its checkpoint knows
/// which weights there were, whatever the flag says now.
class MixOfRun {
public:
  static constexpr const char *key = "mix"; ///< in checkpoints

  MixOfRun(const RunOptions &options, StepSource &steps) : options(options), steps(steps) {}

  /// Whether the flag fits the run's steps and the folder; all ranks call it.
  Status check(const Session &session, int64_t total) const;
  /// Tells the steps what the run has met and what comes.
  void begin(const RunCheckpoints::Start &start);
  /// Whether there is any epoch with other weights than the folder says.
  bool isOther() const { return other; }
  /// What happens at a step of the list, to be said behind its number; empty: nothing.
  std::string noteAt(int64_t entry) const;
  /// For a checkpoint behind which the next step is one of this epoch; empty where the folder says
  /// all.
  nlohmann::json state(int64_t epoch) const;

private:
  const RunOptions &options;
  StepSource &steps;
  std::vector<WeightsFrom> changes; ///< that are still to come when the run begins
  bool other = false;
};

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_CHECKPOINTS_MIXOFRUN_H
