//===- ExportCheckpoint.h - A checkpoint as a model's folder ----------------------------------===//
#ifndef RUNTIME_TRAINING_CHECKPOINTS_EXPORTCHECKPOINT_H
#define RUNTIME_TRAINING_CHECKPOINTS_EXPORTCHECKPOINT_H

#include "runtime/support/Status.h"
#include "runtime/training/session/RunOptions.h"
#include <string>
#include <vector>

namespace omnibal::rt {

/// Writes what --save would have written after the checkpoint's step, from the checkpoint and the
/// weights that its run began with. It needs one process and no program, whatever layout wrote the
/// checkpoint.
Status exportCheckpoint(const RunOptions &options, std::vector<std::string> &notices);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_CHECKPOINTS_EXPORTCHECKPOINT_H
