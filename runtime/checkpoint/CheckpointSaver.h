//===- CheckpointSaver.h - Saves checkpoints beside the training ------------------------------===//
//
// Training waits for a copy of the tensors only. Then every rank writes its shard on a thread of
// its own, and tells with the votes of each step whether it is still at it. When no rank is, all of
// them find that out with the same step, agree about the outcome, and the leader commits the
// checkpoint on its thread, which again ends with the votes of a step. The next save, and the end
// of the run, wait for what is left.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_CHECKPOINT_CHECKPOINTSAVER_H
#define RUNTIME_CHECKPOINT_CHECKPOINTSAVER_H

#include "runtime/checkpoint/CheckpointWriter.h"
#include "runtime/checkpoint/TensorStaging.h"
#include "runtime/comm/Communicator.h"
#include "runtime/support/BackgroundWork.h"

namespace omnibal::rt {

/// How far saving has got; the same on all ranks.
struct SavePhase {
  int64_t number = 0; ///< grows with every change
  bool underWay = false;
};

/// All ranks have one and call everything but votes() and phase() together.
class CheckpointSaver {
public:
  /// `staged`: whether this rank has memory for copies; where one has none, all write while
  /// training waits.
  CheckpointSaver(CheckpointWriteOptions options, Communicator &communicator, Backend &backend,
                  ThreadPool &pool, bool staged);

  /// Begins to save what the tensors hold now, after what was begun before is finished. `obsolete`
  /// go once this checkpoint is complete; then that of step `best` is named as the best one (-1:
  /// none is).
  Status start(RunState state, const std::vector<NamedTensor> &tensors,
               std::vector<std::string> obsolete, int64_t best = -1);

  SavePhase phase() const { return current; }
  /// What this rank tells the others with a step: its thread is at work, or has failed.
  bool isBusy() const { return !work.isDone(); }
  bool hasFailed() const { return work.hasFailed(); }
  /// Goes on where the votes that were given in the present phase say that no rank is busy, or that
  /// one has failed. Returns the error of the rank that could not write.
  Status advance();
  /// Waits until nothing is under way.
  Status finish();

  /// The step that is being saved, or was saved last; -1 without one.
  int64_t newestStep() const { return current.underWay ? state.step : saved; }
  /// From the beginning of start() until a step, or finish(), found the checkpoint complete.
  double longestSeconds() const { return longest; }

private:
  Result<bool> everyoneHas(bool mine);
  enum class Part { Write, Describe, Commit };
  void begin(Part part);
  Status perform(Part part, const std::atomic<bool> &canceled);

  CheckpointWriteOptions options;
  Communicator &communicator;
  TensorStaging staging;
  bool staged;
  RunState state;
  SavePhase current;
  Part part = Part::Write; ///< that is under way
  int64_t saved = -1;
  Clock::time_point begun;
  double longest = 0;
  std::vector<NamedTensor> written; ///< what the thread reads
  BackgroundWork work;              ///< last: it ends before what it uses
};

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_CHECKPOINTSAVER_H
