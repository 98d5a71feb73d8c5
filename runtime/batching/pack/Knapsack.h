//===- Knapsack.h - The most valuable pattern ------------------------------------------------===//
//
// A pattern is what one group may hold: how many samples of each type. Which pattern is worth most
// is an unbounded knapsack with two capacities, solved by dynamic programming over (tiles,
// tokens). Values are integers, so the result is exact and the same on every machine.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BATCHING_PACK_KNAPSACK_H
#define RUNTIME_BATCHING_PACK_KNAPSACK_H

#include <cstdint>
#include <utility>
#include <vector>

namespace omnibal::rt {

struct KnapsackItem {
  int32_t tiles = 0, tokens = 0; ///< not both 0
};

/// Item numbers ascending, with how many of each.
using Pattern = std::vector<std::pair<uint32_t, uint32_t>>;

class Knapsack {
public:
  Knapsack(std::vector<KnapsackItem> items, int32_t tilesCap, int32_t tokensCap);

  /// Takes the values (>= 0; the best pattern's is below 2^30) for the questions below.
  void solve(const std::vector<int32_t> &values);
  /// Returns the value of the best pattern within these capacities.
  int32_t best(int32_t tiles, int32_t tokens) const { return table[tiles * width + tokens]; }
  int32_t best() const { return table.back(); }
  /// Returns a best pattern; -1: any, else one that holds this item.
  Pattern pattern(int64_t item = -1) const;
  /// Value of the best pattern that holds this item.
  int32_t bestWith(uint32_t item) const;

  /// Returns the number of additions of one `solve`.
  int64_t work() const { return static_cast<int64_t>(table.size()) * items.size(); }

private:
  std::vector<KnapsackItem> items;
  std::vector<int32_t> values;
  int32_t tilesCap, tokensCap;
  int64_t width;
  std::vector<int32_t> table; ///< [tiles][tokens]: best value within
};

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_PACK_KNAPSACK_H
