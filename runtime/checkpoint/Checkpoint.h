//===- Checkpoint.h - Saving and resuming a run ------------------------------------------===//
//
//   FOLDER/latest                       "step-00000200"
//   FOLDER/best                         "step-00000100": the best by evaluations, if it is kept
//   FOLDER/step-00000200/manifest.json  version, state, files with size and checksum
//   FOLDER/step-00000200/stage-0.safetensors ...
//
// A checkpoint is complete or invisible: every rank writes its shard below
// FOLDER/step-00000200.incomplete and flushes it; the ranks agree; the leader writes the manifest,
// flushes the folder, renames it to its final name, flushes FOLDER, and moves `latest` last.
// Tensors are stored in the source checkpoint's orientation under "weight/NAME", "moment1/NAME",
// "moment2/NAME" and "average/NAME", so that a run with other cuts can read them too (it finds them
// by name). Variances of rows and columns have their own shapes (runtime/program/MomentShapes.h).
// Moments of 8 bits are codes in the order in which training has the values, beside
// "moment1_scales/NAME" and "moment2_scales/NAME" (runtime/device/CodedMoments.h).
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_CHECKPOINT_CHECKPOINT_H
#define RUNTIME_CHECKPOINT_CHECKPOINT_H

#include "runtime/checkpoint/CheckpointFolder.h"
#include "runtime/checkpoint/NamedTensor.h"
#include "runtime/support/Safetensors.h"
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace omnibal::rt {

/// The state of a run apart from its tensors; it is the same on all ranks.
struct RunState {
  int64_t step = 0;         ///< steps completed
  int64_t dataPosition = 0; ///< steps of the current epoch consumed
  uint64_t seed = 0;
  /// The layout and settings that make the continuation equal bit by bit (stages, cuts,
  /// data-parallel ranks, learning-rate schedule, ...). open() does not judge it; the caller
  /// compares.
  nlohmann::json settings = nlohmann::json::object();
};

struct CheckpointWriteOptions {
  std::string folder;
  int stage = 0, stages = 1;
  bool writes = true; ///< false on ranks that have nothing of their own to write
  bool leads = true;  ///< exactly one rank; must also write
  /// What the stage's shard holds, where several ranks write parts of it: all name the same. One of
  /// them begins it, and describes it when all have written. Empty: one rank writes all of it.
  std::vector<TensorHeader> layout = {};
  bool begins = true;
  CheckpointRetention retention;
  /// Checkpoints of an earlier run, which go once this one has one of its own.
  std::vector<std::string> obsolete = {};
  int64_t best = -1; ///< the step of the best checkpoint so far, this one included; -1: none
};

/// A file of a checkpoint, as its manifest lists it.
struct ManifestFile {
  std::string name; ///< plain name in the step's folder
  int64_t bytes = 0;
  uint32_t crc32 = 0;
};
struct Manifest; // Manifest.h

class Checkpoint {
public:
  /// Opens a checkpoint. `path` is a checkpoint folder (the newest complete and undamaged step is
  /// taken; `notices` says which were passed over and why) or one step's folder (then a defect is
  /// an error). Every file's size and checksum is verified.
  static Result<Checkpoint> open(const std::string &path,
                                 std::vector<std::string> *notices = nullptr);
  /// The folders of the steps that open() tries, in this order.
  static Result<std::vector<std::string>> candidates(const std::string &path);
  /// Opens one step's folder. Manifest and sizes are verified now, a file's checksum when something
  /// of it is read.
  static Result<Checkpoint> openStep(const std::string &folder);

  const RunState &state() const { return run; }
  const std::string &path() const { return folder; }
  /// Names of all tensors, in no order.
  std::vector<std::string> tensors() const;
  /// A tensor as it is stored; null if there is none of that name.
  const StoredTensor *find(const std::string &name) const;
  /// Fills the tensors bit by bit; a missing one or another shape is an error. The first time that
  /// something of a file is read, all of it is, once, and its checksum verified; DataLoss names a
  /// damaged one, when tensors may have been filled already.
  Status read(std::span<const NamedTensor> tensors);
  /// Leaves out the checksums from here on: another rank has verified them.
  void trust();
  Status read(const NamedTensor &tensor) { return read(std::span(&tensor, 1)); }

private:
  struct Shard {
    std::shared_ptr<const SafetensorsFile> file;
    ManifestFile entry;
    bool verified = false;
  };
  Status readShard(Shard &shard, const std::vector<const NamedTensor *> &wanted) const;

  std::string folder;
  RunState run;
  std::vector<Shard> shards;
};

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_CHECKPOINT_H
