//===- Workspace.h - Device memory that a program's ranks need besides their arenas ---------===//
#ifndef RUNTIME_PROGRAM_WORKSPACE_H
#define RUNTIME_PROGRAM_WORKSPACE_H

#include "runtime/device/WorkspaceUse.h"
#include "runtime/program/Program.h"

namespace omnibal::rt {

/// Returns the most bytes that the batch values of a training step have.
int64_t batchBytesOfStep(const Program &program, const Stage &stage);

/// Returns the most bytes that the lists of tensors have which a device's optimizer keeps.
int64_t updateListBytes(const Stage &stage);

/// Returns what the backend of the program's target takes at most on a rank of the stage; what a
/// driver takes is not known. The result is empty for target host, whose memory is not counted.
std::vector<WorkspaceUse> workspaceOf(const Program &program, const Stage &stage);

/// "33.6 MB of products, 1.0 MB of column sums".
std::string describe(const std::vector<WorkspaceUse> &uses);

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_WORKSPACE_H
