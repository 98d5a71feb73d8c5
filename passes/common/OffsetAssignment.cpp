//===- OffsetAssignment.cpp --------------------------------------------------------------===//
#include "passes/common/OffsetAssignment.h"
#include <algorithm>
#include <numeric>

namespace omnibal {

Placement assignOffsets(const std::vector<Block> &blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::make_pair(-blocks[a].bytes, a) < std::make_pair(-blocks[b].bytes, b);
  });
  Placement placement;
  placement.offsets.assign(blocks.size(), 0);
  std::vector<size_t> placed;
  for (size_t i : order) {
    const Block &block = blocks[i];
    int64_t size = alignUp(block.bytes);
    std::vector<std::pair<int64_t, int64_t>> taken; // [begin, end) of neighbors in time
    for (size_t j : placed)
      if (blocks[j].first <= block.last && block.first <= blocks[j].last)
        taken.push_back({placement.offsets[j], placement.offsets[j] + alignUp(blocks[j].bytes)});
    std::sort(taken.begin(), taken.end());
    int64_t offset = 0;
    for (auto [begin, end] : taken) {
      if (begin - offset >= size)
        break;
      offset = std::max(offset, end);
    }
    placement.offsets[i] = offset;
    placement.bytes = std::max(placement.bytes, offset + size);
    if (size > 0)
      placed.push_back(i);
  }
  return placement;
}

} // namespace omnibal
