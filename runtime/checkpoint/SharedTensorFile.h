//===- SharedTensorFile.h - Safetensors files written by many ranks ----------------------===//
//
// The leader lays out the files, and every rank writes its own tensors at their places. The files
// appear under their names when all ranks have agreed. Ranks must see the same file system.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_CHECKPOINT_SHAREDTENSORFILE_H
#define RUNTIME_CHECKPOINT_SHAREDTENSORFILE_H

#include "runtime/checkpoint/NamedTensor.h"
#include "runtime/support/Safetensors.h"
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace omnibal::rt {

struct SharedTensorFile {
  std::string path;
  std::vector<TensorHeader> layout;
};

/// What goes into the files. A tensor is written in the type that the layout says, rounded to
/// nearest even; a tensor that has this type already is copied byte by byte.
struct SharedTensors {
  std::vector<NamedTensor> mine; ///< copies of one tensor on several ranks: let one rank pass it
  std::vector<const StoredTensor *> copied; ///< that the leader takes from the source's files
};

/// Returns the temporary path that holds the file's bytes before it has its name.
std::string temporaryOf(const SharedTensorFile &file);
/// Gives finished files their names.
Status nameFinished(const std::vector<SharedTensorFile> &files);

/// Writes the files; every rank calls this, and those that write anything pass the same `files` and
/// `metadata`. Space for all files is reserved before the first tensor is written. The leader calls
/// `commit` when all files are complete and on the disk. After an error the temporary files are
/// gone.
Status writeSharedTensorFiles(const std::vector<SharedTensorFile> &files,
                              const std::map<std::string, std::string> &metadata,
                              const SharedTensors &tensors, bool leads, const Agreement &agree,
                              const std::function<Status()> &commit);
/// Writes one file of what ranks hold.
Status writeSharedTensorFile(const SharedTensorFile &file, const std::vector<NamedTensor> &mine,
                             bool leads, const Agreement &agree);

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_SHAREDTENSORFILE_H
