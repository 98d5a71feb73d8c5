//===- OffsetAssignment.h - Places blocks of known size and lifetime ---------------------===//
#ifndef PASSES_COMMON_OFFSETASSIGNMENT_H
#define PASSES_COMMON_OFFSETASSIGNMENT_H

#include <cstdint>
#include <vector>

namespace omnibal {

/// Every block of a program starts at a multiple of this many bytes.
constexpr int64_t blockAlignment = 64;

constexpr int64_t alignUp(int64_t bytes) {
  return (bytes + blockAlignment - 1) / blockAlignment * blockAlignment;
}
constexpr int64_t alignDown(int64_t bytes) { return bytes / blockAlignment * blockAlignment; }

/// A block that is live in [first, last], both included, on any integer time line.
struct Block {
  int64_t bytes = 0;
  int64_t first = 0, last = 0;
};

struct Placement {
  std::vector<int64_t> offsets; ///< one a block; blocks that are live together do not overlap
  int64_t bytes = 0;            ///< largest end
};

/// Assigns offsets greedily by size (largest first, ties by position): each block goes to the
/// lowest gap that is free during its whole life (Pisarchyk and Lee 2020, "greedy by size for
/// offset calculation").
Placement assignOffsets(const std::vector<Block> &blocks);

} // namespace omnibal
#endif // PASSES_COMMON_OFFSETASSIGNMENT_H
