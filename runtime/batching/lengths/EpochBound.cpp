#include "runtime/batching/lengths/EpochBound.h"
#include <algorithm>
#include <limits>

namespace omnibal::rt {
namespace {

/// Entries of a table of counts, at most and for each sample.
constexpr int64_t largestTable = int64_t(1) << 24, tableShare = 64;
constexpr int thetas = 8;

std::vector<Cell> countInTable(const SampleLengths &lengths, int64_t width, int64_t size) {
  std::vector<uint32_t> counts(static_cast<size_t>(size));
  for (int64_t i = 0; i < lengths.size(); ++i)
    ++counts[lengths.tiles[i] * width + lengths.tokens[i]];
  std::vector<Cell> cells;
  for (int64_t key = 0; key < size; ++key)
    if (counts[key] > 0)
      cells.push_back(
          {static_cast<int32_t>(key / width), static_cast<int32_t>(key % width), counts[key]});
  return cells;
}

std::vector<Cell> countBySorting(const SampleLengths &lengths) {
  std::vector<uint64_t> keys(static_cast<size_t>(lengths.size()));
  for (size_t i = 0; i < keys.size(); ++i)
    keys[i] =
        static_cast<uint64_t>(lengths.tiles[i]) << 32 | static_cast<uint32_t>(lengths.tokens[i]);
  std::sort(keys.begin(), keys.end());
  std::vector<Cell> cells;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i == 0 || keys[i] != keys[i - 1])
      cells.push_back({static_cast<int32_t>(keys[i] >> 32), static_cast<int32_t>(keys[i]), 0});
    ++cells.back().count;
  }
  return cells;
}

double boundAt(const std::vector<Cell> &cells, const LengthGroups &groups, double theta) {
  std::vector<SampleTime> times;
  for (const LengthGroup &g : groups.groups)
    times.push_back(sampleTime(g, groups.stages, theta));
  double sum = 0;
  for (const Cell &cell : cells) {
    double least = std::numeric_limits<double>::infinity();
    for (size_t m = 0; m < times.size(); ++m)
      if (groups.groups[m].holds(cell.tiles, cell.tokens))
        least = std::min(least, times[m].of(cell.tiles, cell.tokens));
    sum += static_cast<double>(cell.count) * least;
  }
  return sum;
}

} // namespace

std::vector<Cell> countLengths(const SampleLengths &lengths) {
  if (lengths.size() == 0)
    return {};
  int64_t height = 1 + int64_t{*std::max_element(lengths.tiles.begin(), lengths.tiles.end())};
  int64_t width = 1 + int64_t{*std::max_element(lengths.tokens.begin(), lengths.tokens.end())};
  if (width <= std::min(largestTable, tableShare * lengths.size()) / height)
    return countInTable(lengths, width, width * height);
  return countBySorting(lengths);
}

SampleTime sampleTime(const LengthGroup &g, int32_t stages, double theta) {
  double m = static_cast<double>(g.microbatches), rows = 1 + (stages - 1) / m;
  double share = rows * g.cost.microbatchNs + g.cost.stepNs / m;
  return {(rows * g.cost.tileNs + share * (1 - theta) / static_cast<double>(g.tilesCap)) / g.ranks,
          (rows * g.cost.tokenNs + share * theta / static_cast<double>(g.tokensCap)) / g.ranks,
          rows * g.cost.squareNs / g.ranks};
}

EpochBound epochBound(const std::vector<Cell> &cells, const LengthGroups &groups) {
  // Without tiles a larger theta is never worse.
  bool tiles = std::any_of(cells.begin(), cells.end(), [](const Cell &c) { return c.tiles > 0; });
  EpochBound best{-1, 1};
  for (int i = tiles ? 0 : thetas; i <= thetas; ++i) {
    double theta = static_cast<double>(i) / thetas;
    if (double ns = boundAt(cells, groups, theta); ns > best.ns)
      best = {ns, theta};
  }
  return best;
}

} // namespace omnibal::rt
