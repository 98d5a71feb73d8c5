//===- SaveTrained.h - What a run leaves for use elsewhere -----------------------------------===//
#ifndef RUNTIME_TRAINING_CHECKPOINTS_SAVETRAINED_H
#define RUNTIME_TRAINING_CHECKPOINTS_SAVETRAINED_H

#include "runtime/checkpoint/AdapterFolder.h"
#include "runtime/program/Program.h"
#include "runtime/training/session/RunOptions.h"

namespace omnibal::rt {

/// What has been trained, on one rank.
struct TrainedModel {
  const Adapters &adapters;
  ParameterShapes shapes;        ///< of all that trains, on every rank
  std::vector<NamedTensor> mine; ///< what this rank holds and writes
};

/// Writes --save or --save-ema: the model's folder, or a folder of its adapters, unless they are to
/// be merged. Every rank calls this. `source` has the weights that the run began with, and is open
/// on the rank with `leads` and where something is `mine`.
Status saveTrained(const RunOptions &options, const std::string &folder,
                   const TrainedModel &trained, const TensorFiles &source, bool leads,
                   const Agreement &agree, std::vector<std::string> &notices);

/// Checks the flags about moving averages against what the program keeps.
Status checkAverageFlags(const RunOptions &options, const Program &program);

/// Checks --merge-adapters against what the parts of the program's stages hold.
Status checkMergeFlag(const RunOptions &options, const Program &program);

/// Checks the flags about adapters against those that there are; `what` has them: a program, or a
/// checkpoint.
Status checkAdapterFlags(const RunOptions &options, const Adapters &adapters,
                         const std::string &what);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_CHECKPOINTS_SAVETRAINED_H
