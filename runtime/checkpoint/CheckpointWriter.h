//===- CheckpointWriter.h - The parts of writing a checkpoint ---------------------------------===//
//
// Writing has two parts: every rank that writes puts its shard, and size and checksum of it, into
// the step's incomplete folder; when all of these are on the disk, the leader makes the folder a
// checkpoint. Where several ranks write parts of one shard, size and checksum are a part between
// these. None of them needs a communicator, so all may run beside the training.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_CHECKPOINT_CHECKPOINTWRITER_H
#define RUNTIME_CHECKPOINT_CHECKPOINTWRITER_H

#include "runtime/checkpoint/Checkpoint.h"
#include <atomic>

namespace omnibal::rt {

/// Writes this rank's shard, or its parts of it, and flushes it. When `canceled` is set it ends
/// with an error.
Status writeShard(const CheckpointWriteOptions &options, int64_t step,
                  const std::vector<NamedTensor> &tensors, const std::atomic<bool> &canceled);

/// Finds size and checksum of a shard of which several ranks have written parts.
Status describeShard(const CheckpointWriteOptions &options, int64_t step,
                     const std::atomic<bool> &canceled);

/// The leader's part: manifest, the folder's final name, the pointer; then older checkpoints go.
Status commitCheckpoint(const CheckpointWriteOptions &options, const RunState &state);

/// Removes what was written of a step that could not be completed.
void discardCheckpoint(const CheckpointWriteOptions &options, int64_t step);

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_CHECKPOINTWRITER_H
