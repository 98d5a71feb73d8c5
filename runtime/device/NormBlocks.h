//===- NormBlocks.h - Blocks of values that a sum of squares adds up ------------------------===//
#ifndef RUNTIME_DEVICE_NORMBLOCKS_H
#define RUNTIME_DEVICE_NORMBLOCKS_H

#include <cstdint>

namespace omnibal::rt {

/// A sum of squares is the sum of those of blocks of so many values.
inline constexpr int64_t normBlock = 16384;

/// Calls use(first, count) for the blocks of so many values; `phase` values of the first block lie
/// before them.
template <typename Use> void forBlocksOf(int64_t elements, int64_t phase, Use use) {
  for (int64_t first = 0, end = normBlock - phase % normBlock; first < elements;
       first = end, end += normBlock)
    use(first, (end < elements ? end : elements) - first);
}
inline int64_t blocksOf(int64_t elements, int64_t phase) {
  int64_t count = 0;
  forBlocksOf(elements, phase, [&](int64_t, int64_t) { ++count; });
  return count;
}

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_NORMBLOCKS_H
