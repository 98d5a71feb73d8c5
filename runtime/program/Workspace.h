//===- Workspace.h - Device memory that a program's ranks need besides their arenas ---------===//
#ifndef RUNTIME_PROGRAM_WORKSPACE_H
#define RUNTIME_PROGRAM_WORKSPACE_H

#include "runtime/device/WorkspaceUse.h"
#include "runtime/program/Program.h"

namespace omnibal::rt {

/// What of a stage decides how much memory the backend for cuda takes beside the arena.
struct WorkspaceFacts {
  int64_t batchBytes = 0;                      ///< of the copies of a training step's batch values
  int64_t updateTensors = 0, updateBlocks = 0; ///< that the optimizer changes
  int64_t matrixFloats = 0;                    ///< for the update of the largest of Muon's matrices
  bool hasShares = false;                      ///< replicas divide what the optimizer knows
  bool averages = false;                       ///< Program::averages
  bool products = false, columnSums = false;   ///< some kernel of the program uses these
  int64_t moveBytes = 0; ///< that the largest move among parts lies in while it is on its way

  void addBatchValue(int64_t bytes, int64_t microbatches);
  void addTrained(int64_t elements);
  void addOrthogonalized(int64_t rows, int64_t cols);
  /// Of a bucket: where they end, a parameter may be cut.
  void addShares(int64_t replicas);
  void addKernels(const Function &function);
  /// The function's moves in a micro-batch of this size, in a stage of so many parts.
  void addMoves(const Function &function, const SymbolValues &symbols, int64_t parts);
};

/// The most that the batch values of a training step have.
int64_t batchBytesOfStep(const Program &program, const Stage &stage);

/// Returns the most bytes that the lists of tensors have which a device's optimizer keeps.
int64_t updateListBytes(const Program &program, const Stage &stage);

/// Returns the most bytes in which a move among the parts of a stage lies while it is on its way
/// between devices.
int64_t moveBytes(const Program &program);

/// What the backend of a target takes by itself on a rank, at most; what a driver takes is not
/// known. For target host that is what updates of matrices take.
std::vector<WorkspaceUse> workspaceOf(const std::string &target, const WorkspaceFacts &facts);
/// On a rank of the stage.
std::vector<WorkspaceUse> workspaceOf(const Program &program, const Stage &stage);

/// "33.6 MB of products, 1.0 MB of column sums".
std::string describe(const std::vector<WorkspaceUse> &uses);

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_WORKSPACE_H
