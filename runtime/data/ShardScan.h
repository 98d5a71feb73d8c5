//===- ShardScan.h - The index of a shard: from its file, or from the shard -------------------===//
#ifndef RUNTIME_DATA_SHARDSCAN_H
#define RUNTIME_DATA_SHARDSCAN_H

#include "runtime/data/ShardIndex.h"
#include <optional>

namespace omnibal::rt {

/// Returns the state of a shard that its index has to be for; none if it is no file that this
/// process may read.
std::optional<ShardStamp> stampOf(const std::string &shard);

/// Returns the index of a shard, with the sizes of its pictures if `sized`. Where there is no valid
/// index file, or it lacks the sizes, the shard's headers are read, and where it has many members
/// and its folder can be written to, the index is left in SHARD.tar.index. Of several processes
/// that want to do that one does it, and the others wait. Errors name shard and member.
Result<ShardIndex> indexOf(const std::string &shard, bool sized);

/// Shards of fewer members get no index file.
inline constexpr int64_t membersOfIndexFile = 1000;

} // namespace omnibal::rt
#endif // RUNTIME_DATA_SHARDSCAN_H
