//===- SaveCheckpoint.h - A checkpoint at once, while the product saves in the background -----===//
#ifndef TEST_UNIT_RUNTIME_CHECKPOINT_SAVECHECKPOINT_H
#define TEST_UNIT_RUNTIME_CHECKPOINT_SAVECHECKPOINT_H

#include "runtime/checkpoint/CheckpointWriter.h"
#include <filesystem>

namespace omnibal::rt {

/// Every rank calls this, with the tensors of its stage.
inline Status saveCheckpoint(const CheckpointWriteOptions &options, const RunState &state,
                             const std::vector<NamedTensor> &tensors, const Agreement &agree) {
  const std::string what = "saving the checkpoint of step " + std::to_string(state.step);
  const std::atomic<bool> goesOn = false;
  OMNIBAL_RETURN_IF_ERROR(agree.after([&] {
    if (!options.leads)
      return Status::ok();
    std::error_code ignored;
    std::filesystem::create_directories(options.folder, ignored);
    discardCheckpoint(options, state.step); // left by a run that was killed
    return Status::ok();
  }));
  Status status = agree.after([&] {
    return options.writes ? writeShard(options, state.step, tensors, goesOn) : Status::ok();
  });
  if (status && !options.layout.empty())
    status = agree.after(
        [&] { return options.begins ? describeShard(options, state.step, goesOn) : Status::ok(); });
  if (status)
    status = agree.after(
        [&] { return options.leads ? commitCheckpoint(options, state) : Status::ok(); });
  if (!status && options.leads)
    discardCheckpoint(options, state.step);
  return std::move(status).context(what);
}

} // namespace omnibal::rt
#endif // TEST_UNIT_RUNTIME_CHECKPOINT_SAVECHECKPOINT_H
