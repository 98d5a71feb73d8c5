//===- CheckpointFolder.h - The folder that one run after the other writes its checkpoints to -===//
#ifndef RUNTIME_CHECKPOINT_CHECKPOINTFOLDER_H
#define RUNTIME_CHECKPOINT_CHECKPOINTFOLDER_H

#include "runtime/support/Status.h"
#include <string>
#include <vector>

namespace omnibal::rt {

/// How many checkpoints stay on the disk.
struct CheckpointRetention {
  int newest = 2;    ///< this many, at least 1
  int64_t every = 0; ///< and those of every so many steps, whatever their age; 0: none
};

/// The leader's hold on a folder of checkpoints. Two runs that wrote into one folder would prune
/// each other's checkpoints, so a lock keeps the second one out for as long as the first one lives,
/// however that ends (flock; a file system without locks gives a notice instead).
class CheckpointFolder {
public:
  CheckpointFolder() = default;
  CheckpointFolder(CheckpointFolder &&other) noexcept;
  CheckpointFolder &operator=(CheckpointFolder &&other) noexcept;
  CheckpointFolder(const CheckpointFolder &) = delete;
  CheckpointFolder &operator=(const CheckpointFolder &) = delete;
  ~CheckpointFolder();

  /// Creates the folder where there is none and locks it. A checkpoint whose replacement was cut
  /// short gets its name back, and what killed runs left goes. Unavailable names the process that
  /// holds the lock.
  static Result<CheckpointFolder> claim(const std::string &path, std::vector<std::string> *notices);

  /// Names of its checkpoints ("step-00000040"), newest first.
  std::vector<std::string> checkpoints() const;
  const std::string &path() const { return folder; }

private:
  std::string folder;
  int descriptor = -1;
};

/// The step whose checkpoint the folder's file "best" names, which pruning leaves; -1: none.
int64_t bestStep(const std::string &folder);
/// Makes the file name that step, if the folder has its checkpoint.
Status writeBest(const std::string &folder, int64_t step);

/// Names of the checkpoints in a folder, newest first; empty where it cannot be read.
std::vector<std::string> listCheckpoints(const std::string &folder);

/// Gives a finished folder its final name; one of that name is replaced so that a complete one can
/// always be found, under its own name or with ".replaced" behind it.
Status publishFolder(const std::string &incomplete, const std::string &final);

/// Removes checkpoints that `retention` does not keep, up to step `newest`, but for the best one;
/// those in `obsolete` whatever they are; and what killed runs left. What cannot be removed costs
/// space only, so it is no error.
void pruneCheckpoints(const std::string &folder, const CheckpointRetention &retention,
                      int64_t newest, const std::vector<std::string> &obsolete);

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_CHECKPOINTFOLDER_H
