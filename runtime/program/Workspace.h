//===- Workspace.h - Device memory that a program's ranks need besides their arenas ---------===//
#ifndef RUNTIME_PROGRAM_WORKSPACE_H
#define RUNTIME_PROGRAM_WORKSPACE_H

#include "runtime/device/WorkspaceUse.h"
#include "runtime/program/Program.h"

namespace omnibal::rt {

/// The most that the batch values of a training step have.
int64_t batchBytesOfStep(const Program &program, const Stage &stage);

/// Of the lists of tensors that a device's optimizer keeps, at most.
int64_t updateListBytes(const Stage &stage);

/// What the backend of the program's target takes by itself on a rank of the stage, at most; what a
/// driver takes is not known. Empty for target host, whose memory is not counted.
std::vector<WorkspaceUse> workspaceOf(const Program &program, const Stage &stage);

/// "33.6 MB of products, 1.0 MB of column sums".
std::string describe(const std::vector<WorkspaceUse> &uses);

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_WORKSPACE_H
