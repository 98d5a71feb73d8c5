//===- WorkspaceUse.h - Device memory of a rank that is not its arena ------------------------===//
#ifndef RUNTIME_DEVICE_WORKSPACEUSE_H
#define RUNTIME_DEVICE_WORKSPACEUSE_H

#include "runtime/device/NormBlocks.h"
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace omnibal::rt {

/// Bytes at most at a time, by what they are for.
struct WorkspaceUse {
  std::string what;
  int64_t bytes = 0;
};

inline int64_t totalOf(const std::vector<WorkspaceUse> &uses) {
  int64_t sum = 0;
  for (const WorkspaceUse &use : uses)
    sum += use.bytes;
  return sum;
}

/// What the backend for cuda takes: here, so that plans leave room for it
/// (runtime/program/Workspace.h) without knowing the backend.
namespace cuda {

/// Workspace of products by cuBLASLt, for split sums.
inline constexpr int64_t productWorkspaceBytes = int64_t{32} << 20;
/// Partial sums of columns.
inline constexpr int64_t columnSumBytes = int64_t{1} << 20;
/// Batch values on their way: those of two steps, as the host may be one ahead.
inline constexpr int64_t leastBatchRing = int64_t{4} << 10, mostBatchRing = int64_t{256} << 20;
inline int64_t batchRingBytes(int64_t bytesOfStep) {
  const int64_t bytes = std::clamp(2 * bytesOfStep + leastBatchRing, leastBatchRing, mostBatchRing);
  return (bytes + 255) / 256 * 256;
}
/// One of the optimizer's lists holds tensors, and blocks of them with partial sums of a norm. It
/// has four parts that begin at multiples of 256.
inline constexpr int64_t updateBlockElements = normBlock;
inline int64_t updateListBytes(int64_t tensors, int64_t blocks) {
  return 64 * tensors + 24 * blocks + 4 * 256;
}

} // namespace cuda
} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_WORKSPACEUSE_H
