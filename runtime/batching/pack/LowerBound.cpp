#include "runtime/batching/pack/LowerBound.h"
#include "runtime/batching/pack/Knapsack.h"
#include <algorithm>
#include <cmath>

namespace omnibal::rt {
namespace {

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// One dimension: distinct sizes ascending, with counts.
struct Sizes {
  std::vector<int64_t> size, count;
};

Sizes sizesOf(const Histogram &histogram, bool tiles) {
  std::vector<std::pair<int64_t, int64_t>> all;
  for (const Cell &cell : histogram.cells())
    all.push_back({tiles ? cell.tiles : cell.tokens, cell.count});
  std::sort(all.begin(), all.end());
  Sizes sizes;
  for (auto [size, count] : all) {
    if (sizes.size.empty() || sizes.size.back() != size) {
      sizes.size.push_back(size);
      sizes.count.push_back(0);
    }
    sizes.count.back() += count;
  }
  return sizes;
}

/// L2: for a threshold a <= cap / 2, samples over cap - a share with none that counts, those over
/// cap / 2 are alone among their like, and those from a to cap / 2 fill what the second leave.
int64_t bigItems(const Sizes &sizes, int64_t cap) {
  size_t n = sizes.size.size();
  std::vector<int64_t> count(n + 1, 0), sum(n + 1, 0); // of all sizes before
  for (size_t i = 0; i < n; ++i) {
    count[i + 1] = count[i] + sizes.count[i];
    sum[i + 1] = sum[i] + sizes.count[i] * sizes.size[i];
  }
  auto firstOver = [&](int64_t size) {
    return std::upper_bound(sizes.size.begin(), sizes.size.end(), size) - sizes.size.begin();
  };
  size_t half = firstOver(cap / 2);
  int64_t best = count[n] - count[half];
  for (size_t i = 0; i < half; ++i) {
    size_t alone = firstOver(cap - sizes.size[i]);
    int64_t large = count[n] - count[alone], middle = count[alone] - count[half];
    int64_t room = middle * cap - (sum[alone] - sum[half]), small = sum[half] - sum[i];
    best = std::max(best, large + middle + (small > room ? ceilDiv(small - room, cap) : 0));
  }
  return best;
}

/// Additions of the knapsack behind the configuration bound.
constexpr double mostWork = 1 << 27;

/// A cell's value in units of 2^-24: its type's price, between the means of neighboring types of
/// the same tiles in proportion.
int32_t valueOf(const Cell &cell, uint32_t type, const SampleTypes &types,
                const std::vector<double> &prices) {
  const SampleType &own = types.types[type];
  double value = prices[type], tokens = cell.tokens;
  uint32_t other = tokens > own.meanTokens ? type + 1 : type - 1;
  if (other < types.types.size() && types.types[other].tiles == own.tiles &&
      types.types[other].meanTokens != own.meanTokens)
    value += (prices[other] - value) * (tokens - own.meanTokens) /
             (types.types[other].meanTokens - own.meanTokens);
  return static_cast<int32_t>(std::clamp(value, 0.0, 1.0) * (1 << 24));
}

/// Items of (tiles, tokens in units, rounded down): the most valuable of their cells.
struct Items {
  std::vector<KnapsackItem> sizes;
  std::vector<int32_t> values;
};

Items itemsOf(const Histogram &histogram, const std::vector<int32_t> &values, int32_t unit) {
  Items items;
  for (size_t c = 0; c < histogram.cells().size(); ++c) {
    KnapsackItem size{histogram.cells()[c].tiles, histogram.cells()[c].tokens / unit};
    if (!items.sizes.empty() && items.sizes.back().tiles == size.tiles &&
        items.sizes.back().tokens == size.tokens) {
      items.values.back() = std::max(items.values.back(), values[c]);
      continue;
    }
    items.sizes.push_back(size);
    items.values.push_back(values[c]);
  }
  return items;
}

} // namespace

Bound configurationBound(const Histogram &histogram, Caps caps, const SampleTypes &types,
                         const std::vector<double> &prices, Bound other) {
  if (prices.empty())
    return other;
  const std::vector<Cell> &cells = histogram.cells();
  std::vector<int32_t> values(cells.size(), 0);
  for (size_t c = 0; c < cells.size(); ++c)
    if (types.typeOf[c] != SampleTypes::withoutLoad)
      values[c] = valueOf(cells[c], types.typeOf[c], types, prices);
  int32_t unit = 1;
  Items items = itemsOf(histogram, values, unit);
  auto work = [&] {
    const int32_t units = caps.tokens / unit;
    return (caps.tiles + 1.0) * (units + 1.0) * static_cast<double>(items.sizes.size());
  };
  for (; work() > mostWork && unit <= caps.tokens / 2; items = itemsOf(histogram, values, unit))
    unit *= 2;
  if (work() > mostWork)
    return other;
  // What has become nothing can be in a group any number of times: it has no value.
  for (size_t c = 0; c < cells.size(); ++c)
    if (cells[c].tiles == 0 && cells[c].tokens / unit == 0)
      values[c] = 0;
  for (size_t i = 0; i < items.sizes.size(); ++i)
    if (items.sizes[i].tiles == 0 && items.sizes[i].tokens == 0) {
      items.values[i] = 0;
      items.sizes[i].tokens = 1;
    }
  Knapsack knapsack(std::move(items.sizes), caps.tiles, caps.tokens / unit);
  knapsack.solve(items.values);
  __int128 sum = 0;
  for (size_t c = 0; c < cells.size(); ++c)
    sum += static_cast<__int128>(values[c]) * cells[c].count;
  if (knapsack.best() <= 0)
    return other;
  int64_t bound = static_cast<int64_t>((sum + knapsack.best() - 1) / knapsack.best());
  return bound > other.groups ? Bound{bound, "configuration-lp"} : other;
}

Bound simpleBound(const Histogram &histogram, Caps caps) {
  if (histogram.samples() == 0)
    return {0, "sum"};
  Bound bound{std::max<int64_t>({1, ceilDiv(histogram.totalTiles(), caps.tiles),
                                 ceilDiv(histogram.totalTokens(), caps.tokens)}),
              "sum"};
  int64_t big = std::max(bigItems(sizesOf(histogram, true), caps.tiles),
                         bigItems(sizesOf(histogram, false), caps.tokens));
  if (big > bound.groups)
    bound = {big, "big-item"};
  return bound;
}

} // namespace omnibal::rt
