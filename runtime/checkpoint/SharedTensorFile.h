//===- SharedTensorFile.h - One safetensors file written by many ranks -------------------===//
//
// The leader lays the file out; every rank writes its own tensors at their places; the file appears
// under its name when all have agreed. Ranks must see the same file system.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_CHECKPOINT_SHAREDTENSORFILE_H
#define RUNTIME_CHECKPOINT_SHAREDTENSORFILE_H

#include "runtime/checkpoint/Agreement.h"
#include "runtime/core/Safetensors.h"
#include <map>
#include <string>
#include <vector>

namespace omnibal::rt {

/// Every rank calls this with the same `layout` (and `metadata`) and its own `mine`, whose names
/// occur in the layout as F32. Copies of one tensor on several ranks: let one rank pass it.
/// `copied`: tensors that the leader takes over unchanged from the source's files.
Status writeSharedTensorFile(const std::string &path, const std::vector<TensorHeader> &layout,
                             const std::map<std::string, std::string> &metadata,
                             const std::vector<NamedTensor> &mine,
                             const std::vector<const StoredTensor *> &copied, bool leads,
                             const Agreement &agree);

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_SHAREDTENSORFILE_H
