//===- Imbalance.h - Ratios of rows, shared by row forming and statistics --------------------===//
#ifndef RUNTIME_BATCHING_ROWS_IMBALANCE_H
#define RUNTIME_BATCHING_ROWS_IMBALANCE_H

#include "runtime/batching/rows/Rows.h"

namespace omnibal::rt {

/// Mean over rows of 1 - mean / max; rows whose maximum is 0 are left out.
class RowRatio {
public:
  /// One row.
  template <typename Value> void add(int32_t ranks, Value value) {
    double sum = 0, most = 0;
    for (int32_t r = 0; r < ranks; ++r) {
      double x = static_cast<double>(value(r));
      sum += x;
      most = x > most ? x : most;
    }
    if (most > 0) {
      total += 1 - sum / (most * ranks);
      ++rows;
    }
  }
  double mean() const { return rows > 0 ? total / static_cast<double>(rows) : 0; }

private:
  double total = 0;
  int64_t rows = 0;
};

struct RowRatios {
  double tiles = 0, tokens = 0, cost = 0;
};

/// `order`: group numbers in the lower 32 bits, a row after the other.
template <typename Item>
RowRatios rowRatios(const GroupLoads &loads, const std::vector<Item> &order, int32_t ranks) {
  RowRatio tiles, tokens, cost;
  for (size_t row = 0; row + ranks <= order.size(); row += ranks) {
    auto group = [&](int32_t r) { return static_cast<uint32_t>(order[row + r]); };
    tiles.add(ranks, [&](int32_t r) { return loads.tiles[group(r)]; });
    tokens.add(ranks, [&](int32_t r) { return loads.tokens[group(r)]; });
    if (!loads.cost.empty())
      cost.add(ranks, [&](int32_t r) { return loads.cost[group(r)]; });
  }
  return {tiles.mean(), tokens.mean(), cost.mean()};
}

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_ROWS_IMBALANCE_H
