//===- OffsetAssignment.cpp --------------------------------------------------------------===//
//
// The lowest free gap of a block is sought among the bytes that blocks placed before it take during
// its life. A segment tree over time knows these bytes as few merged ranges, so that n blocks are
// placed in about n log^2 n steps, also where thousands are live together (GPipe with thousands of
// micro-batches).
//
//===-------------------------------------------------------------------------------------===//
#include "passes/common/OffsetAssignment.h"
#include <algorithm>
#include <bit>
#include <numeric>

namespace omnibal {
namespace {

/// A set of bytes as disjoint half-open ranges in ascending order; ranges that touch are merged.
class ByteRanges {
public:
  bool empty() const { return ranges.empty(); }

  void add(int64_t begin, int64_t end) {
    auto first = std::lower_bound(ranges.begin(), ranges.end(), begin, endsBefore);
    auto last = first;
    for (; last != ranges.end() && last->begin <= end; ++last) {
      begin = std::min(begin, last->begin);
      end = std::max(end, last->end);
    }
    if (first == last) {
      ranges.insert(first, {begin, end});
      return;
    }
    *first = {begin, end};
    ranges.erase(first + 1, last);
  }

  /// The first offset from `offset` on at which `bytes` bytes meet none of these ranges.
  int64_t firstFit(int64_t offset, int64_t bytes) const {
    auto it = std::lower_bound(ranges.begin(), ranges.end(), offset, endsBefore);
    for (; it != ranges.end() && it->begin < offset + bytes; ++it)
      offset = std::max(offset, it->end);
    return offset;
  }

private:
  struct Range {
    int64_t begin, end;
  };
  static bool endsBefore(const Range &range, int64_t offset) { return range.end < offset; }
  std::vector<Range> ranges;
};

/// The bytes that placed blocks take, by time: a segment tree over the times of a list of blocks.
class BytesInTime {
public:
  explicit BytesInTime(const std::vector<Block> &blocks) {
    for (const Block &block : blocks)
      times.insert(times.end(), {block.first, block.last});
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    nodes.resize(2 * std::bit_ceil(times.size()));
  }

  void take(const Block &block, int64_t begin, int64_t end) {
    visit(block, [&](Node &node, bool whole) {
      node.some.add(begin, end);
      if (whole)
        node.always.add(begin, end);
    });
  }

  /// The lowest offset at which `bytes` bytes are free during the whole life of the block.
  int64_t lowestFree(const Block &block, int64_t bytes) {
    sets.clear();
    visit(block, [&](Node &node, bool whole) {
      const ByteRanges &set = whole ? node.some : node.always;
      if (!set.empty())
        sets.push_back(&set);
    });
    int64_t offset = 0;
    for (size_t agreed = 0, i = 0; agreed < sets.size(); ++agreed, i = (i + 1) % sets.size())
      if (int64_t fit = sets[i]->firstFit(offset, bytes); fit != offset) {
        offset = fit;
        agreed = 0;
      }
    return offset;
  }

private:
  struct Node {
    ByteRanges some;   ///< of blocks that live during some of the node's times
    ByteRanges always; ///< of blocks that live during all of them, if not during the parent's
  };

  /// Calls visitor(node, whole) for the topmost nodes within the block's life (whole) and for all
  /// nodes above them.
  template <typename Visitor> void visit(const Block &block, Visitor &&visitor) {
    auto index = [&](int64_t time) {
      return std::lower_bound(times.begin(), times.end(), time) - times.begin();
    };
    visit(1, 0, nodes.size() / 2, index(block.first), index(block.last) + 1, visitor);
  }
  template <typename Visitor>
  void visit(size_t node, size_t begin, size_t end, size_t from, size_t to, Visitor &visitor) {
    if (to <= begin || end <= from)
      return;
    bool whole = from <= begin && end <= to;
    visitor(nodes[node], whole);
    if (whole)
      return;
    size_t middle = (begin + end) / 2;
    visit(2 * node, begin, middle, from, to, visitor);
    visit(2 * node + 1, middle, end, from, to, visitor);
  }

  std::vector<int64_t> times; ///< in ascending order
  std::vector<Node> nodes;    ///< node i's children are 2 i and 2 i + 1; the root is 1
  std::vector<const ByteRanges *> sets;
};

} // namespace

Placement assignOffsets(const std::vector<Block> &blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  Placement placement;
  placement.offsets.assign(blocks.size(), 0);
  BytesInTime taken(blocks);
  for (size_t i : order) {
    int64_t bytes = alignUp(blocks[i].bytes);
    if (bytes == 0)
      break; // and all after it
    int64_t offset = taken.lowestFree(blocks[i], bytes);
    taken.take(blocks[i], offset, offset + bytes);
    placement.offsets[i] = offset;
    placement.bytes = std::max(placement.bytes, offset + bytes);
  }
  return placement;
}

} // namespace omnibal
