//===- RunCheckpoints.h - The checkpoints that a run goes on from and writes ------------------===//
#ifndef RUNTIME_TRAINING_CHECKPOINTS_RUNCHECKPOINTS_H
#define RUNTIME_TRAINING_CHECKPOINTS_RUNCHECKPOINTS_H

#include "runtime/batching/steps/StepSource.h"
#include "runtime/checkpoint/CheckpointSaver.h"
#include "runtime/training/session/Session.h"
#include <optional>

namespace omnibal::rt {

/// What this rank writes of the trained tensors: the first that holds its stage writes each counted
/// one.
std::vector<NamedTensor> trainedTensors(const Session &session);

/// Decides whether this run's ranks copy what they save, and train on while it is written: where
/// that is wanted (--checkpoint-buffer) and all of them have memory. Rank 0 says why not. All ranks
/// call it, once their arenas are in use.
Result<bool> stagesCheckpoints(const Session &session);
/// Bytes of those copies on this rank.
int64_t stagingBytes(const Session &session);

/// All ranks have one and call it together, but for the questions. Without --checkpoint it only
/// resumes. A thread of it may be writing until it is destroyed.
class RunCheckpoints {
public:
  RunCheckpoints(Session &session, const DataSource &data, int64_t steps);

  /// Keeps other runs out of the folder, and this one away from what it does not continue.
  Status open();

  struct Start {
    int64_t step = 0;
    int64_t entry = 0;      ///< steps of the list that were taken
    DataPosition position;  ///< the epoch that holds `entry`
    bool otherData = false; ///< than the checkpoint's: read from its beginning
    /// What the run that wrote the checkpoint gave save().
    nlohmann::json kept = nlohmann::json::object();
  };
  /// Reads what the run goes on from, if anything.
  Result<Start> resume();
  /// The leader puts the run's options beside its checkpoints, unless a file of somebody else's has
  /// that name.
  Status writeConfig() const;

  bool areKept() const { return !s.options.checkpoint.empty(); }
  /// Whether the leader finds that it is time for one.
  bool isDue() const;
  /// Begins to save what has been trained, in so many updates of so many steps of the list. `kept`
  /// comes back from resume(); `best` is the step of the checkpoint that stays as the best one, -1:
  /// none.
  Status save(int64_t completed, int64_t entry, DataPosition position, const nlohmann::json &kept,
              int64_t best);
  /// Waits until what was begun is on the disk.
  Status finish();
  /// Puts into a step what this rank tells about saving; returns the phase that it tells it of.
  int64_t tell(StepOptions &options) const;
  /// Goes on with saving by what all ranks told with a step.
  Status hear(const StepResult &result, int64_t phase);

  /// The step of the newest checkpoint of this run that is complete or being saved; -1: none.
  int64_t newestStep() const { return saver ? saver->newestStep() : -1; }
  /// How long saving took at most.
  double longestSeconds() const { return saver ? saver->longestSeconds() : 0; }

private:
  Status claim();
  bool continuesFolder() const;
  Status findCandidates(std::vector<std::string> &folders);
  Status openCandidate(const std::string &folder, std::optional<Checkpoint> &opened,
                       std::string &told);
  Status takeState(const std::string &path, const nlohmann::json &told, Start &start);
  Status readState(std::optional<Checkpoint> &opened, const std::string &path, Status &damage);
  Status readShare(std::optional<Checkpoint> &opened, const std::string &path);
  Result<bool> passOver(const std::string &path, const Status &damage);

  Session &s;
  const DataSource &data;
  int64_t steps;
  bool readsAverages = false;        ///< the checkpoint has moving averages that go on
  nlohmann::json described;          ///< for manifests
  CheckpointFolder folder;           ///< the leader's
  std::vector<std::string> replaced; ///< checkpoints of an earlier run that this one replaces
  std::optional<CheckpointSaver> saver;
  Clock::time_point lastSave = Clock::now();
};

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_CHECKPOINTS_RUNCHECKPOINTS_H
