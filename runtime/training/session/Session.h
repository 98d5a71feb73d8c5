//===- Session.h - What training, evaluation and forward runs have in common ----------------===//
#ifndef RUNTIME_TRAINING_SESSION_SESSION_H
#define RUNTIME_TRAINING_SESSION_SESSION_H

#include "runtime/batching/steps/StepSource.h"
#include "runtime/comm/Agreement.h"
#include "runtime/data/References.h"
#include "runtime/executor/Executor.h"
#include "runtime/training/session/RunOptions.h"
#include <memory>

namespace omnibal::rt {

/// The mode of programs in which losses and predictions of samples are found and nothing trains.
inline constexpr const char *evaluateMode = "evaluate";

/// One rank, prepared and initialized.
struct Session {
  const RunOptions &options;
  const LoadedProgram &loaded;
  TensorFiles weights; ///< open where Executor::readsWeights()
  Communicator &communicator;
  Agreement agree;
  std::unique_ptr<Executor> executor;
  double peakFlops = 0;    ///< of all devices together; 0: not known
  std::string device = {}; ///< for people

  /// Where the program learns from pairs of answers: of --data and of --evaluate-data.
  std::shared_ptr<const References> references = nullptr, evaluationReferences = nullptr;

  int ranksHere = 1;              ///< that share this machine's memory
  bool stagesCheckpoints = false; ///< RunCheckpoints.h
  /// What threads may still be at work on after an error; the other ranks hear of it first.
  std::shared_ptr<void> kept = nullptr;

  const Program &program() const { return loaded.program; }
  bool leads() const { return communicator.rank() == 0; }
};

/// Data set, pixels' preprocessing, the steps to train: read once a process, shared by its ranks.
struct DataSource {
  std::shared_ptr<const Dataset> dataset;
  Preprocess preprocess;
  /// Training only. An error is kept until the ranks can agree on it.
  Result<std::shared_ptr<StepSource>> steps = std::shared_ptr<StepSource>();
  /// What training is evaluated with (--evaluate-data), if anything.
  std::shared_ptr<const DataSource> evaluation = nullptr;
};
/// Opens `shards` with the options' preprocessing.
Result<DataSource> openData(const std::vector<std::string> &shards, const RunOptions &options,
                            const Program &program);
/// --steps-file or --batches, checked against the program and the data set.
Result<std::shared_ptr<StepSource>> openSteps(const RunOptions &options, const Program &program,
                                              const Dataset &dataset);

/// Threads that read and decode for this rank.
int loaderThreads(const Session &session, const std::string &mode);

/// `stopped`: whether the run was asked to end before its last step, and did so with a checkpoint.
Status train(Session &session, const DataSource &data, bool &stopped);
Status evaluate(Session &session, const DataSource &data);
Status forward(Session &session);
/// Writes the table of --calibrate; `data` may hold no data set.
Status calibrate(Session &session, const DataSource &data);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_SESSION_SESSION_H
