//===- RunIdentity.h - What a run is, for those that go on from its checkpoints ---------------===//
#ifndef RUNTIME_TRAINING_CHECKPOINTS_RUNIDENTITY_H
#define RUNTIME_TRAINING_CHECKPOINTS_RUNIDENTITY_H

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/training/session/Session.h"
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace omnibal::rt {

/// Among what describeRun tells: the adapters that the run trains, if any.
inline constexpr const char *adaptersKey = "adapters";

/// The trainable parameters of all stages, each once, in stage order.
std::vector<const Parameter *> trainedParameters(const Program &program);

/// Layout, settings and data of a run, as its checkpoints say them: also the program's checksum and
/// the shapes of what trains ("trained"). Only the leader tells the fingerprints of the weights
/// that stay as they are ("frozen"); all ranks call this.
Result<nlohmann::json> describeRun(const Session &session, const DataSource &data, int64_t steps);

/// Where a run differs from the one that wrote a checkpoint.
struct RunDifferences {
  std::vector<std::string> settings; ///< "lr 0.001 -> 0.0005": what the user asked for
  bool data = false; ///< other groups of samples: they are read from their beginning
};
RunDifferences compareRuns(const nlohmann::json &written, const nlohmann::json &now);

/// What must not differ: the frozen weights beside which the trained ones were trained, and which
/// parameters these are. A value that was trained is not dropped because the program froze it, nor
/// does one train on from the start.
Status checkSameModel(const Checkpoint &checkpoint, const Program &program,
                      const nlohmann::json &now);
/// Returns an error that names them if weights beside which the checkpoint was trained are other
/// ones here.
Status checkFrozen(const Checkpoint &checkpoint, const TensorFiles &weights);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_CHECKPOINTS_RUNIDENTITY_H
