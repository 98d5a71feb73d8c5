#include "runtime/batching/rows/Rows.h"
#include "runtime/batching/rows/Imbalance.h"
#include "runtime/batching/rows/RadixSort.h"
#include <algorithm>
#include <numeric>

namespace omnibal::rt {
namespace {

/// What the ratios of a row order should stay below; they weigh one against the other.
constexpr double goodTiles = 0.001, goodTokens = 0.005, goodCost = 0.005;

/// Half-open range of the groups in order of tiles.
struct Chunk {
  size_t begin, end;
};

/// Neighboring tile sums are joined until a chunk has `least` groups.
std::vector<Chunk> chunksOf(const std::vector<uint64_t> &byTiles, size_t least) {
  std::vector<Chunk> chunks;
  size_t begin = 0;
  for (size_t i = 1; i <= byTiles.size(); ++i) {
    bool border = i == byTiles.size() || byTiles[i] >> 32 != byTiles[i - 1] >> 32;
    if (border && (i - begin >= least || i == byTiles.size())) {
      if (i - begin < least && !chunks.empty())
        chunks.back().end = i;
      else
        chunks.push_back({begin, i});
      begin = i;
    }
  }
  return chunks;
}

/// Sorts a range by a key, descending where `down`.
template <typename Key>
void sortRange(std::vector<uint64_t> &items, size_t begin, size_t end, bool down, Key key,
               std::vector<uint64_t> &scratch) {
  for (size_t i = begin; i < end; ++i) {
    uint32_t group = static_cast<uint32_t>(items[i]);
    items[i] = keyed(down ? ~key(group) : key(group), group);
  }
  radixSort(items.data() + begin, end - begin, scratch);
}

/// Costs as integers that a radix sort takes.
std::vector<uint32_t> quantized(const std::vector<double> &values, uint32_t levels) {
  std::vector<uint32_t> result(values.size());
  if (values.empty())
    return result;
  auto [low, high] = std::minmax_element(values.begin(), values.end());
  double scale = *high > *low ? (levels - 1) / (*high - *low) : 0, least = *low;
  for (size_t i = 0; i < values.size(); ++i)
    result[i] = static_cast<uint32_t>((values[i] - least) * scale);
  return result;
}

std::vector<uint32_t> valuesOf(const std::vector<uint64_t> &items) {
  std::vector<uint32_t> values(items.size());
  for (size_t i = 0; i < items.size(); ++i)
    values[i] = static_cast<uint32_t>(items[i]);
  return values;
}

/// In each chunk by tokens; the direction changes from chunk to chunk, so that a row across a
/// border has like token sums.
std::vector<uint64_t> byTokens(const GroupLoads &loads, std::vector<uint64_t> items,
                               const std::vector<Chunk> &chunks, std::vector<uint64_t> &scratch) {
  bool down = false;
  for (const Chunk &chunk : chunks) {
    sortRange(
        items, chunk.begin, chunk.end, down, [&](uint32_t g) { return loads.tokens[g]; }, scratch);
    down = !down;
  }
  return items;
}

/// Windows of `window` groups sorted by cost; directions alternate.
std::vector<uint64_t> byCost(const std::vector<uint32_t> &cost, std::vector<uint64_t> items,
                             const std::vector<Chunk> &chunks, size_t window,
                             std::vector<uint64_t> &scratch) {
  bool down = false;
  for (const Chunk &chunk : chunks)
    for (size_t begin = chunk.begin; begin < chunk.end; begin += window) {
      sortRange(
          items, begin, std::min(begin + window, chunk.end), down,
          [&](uint32_t g) { return cost[g]; }, scratch);
      down = !down;
    }
  return items;
}

/// Where counts cannot be alike, as with pictures of many sizes, time is what ranks wait for: finds
/// the order by tiles in which the narrowest windows are sorted by cost so that the ratio of costs
/// is good, or else the least that there is. Returns nothing unless it is below `leastCost`.
std::vector<uint64_t> byCostFirst(const GroupLoads &loads, const std::vector<uint32_t> &cost,
                                  const std::vector<uint64_t> &byTiles, int32_t ranks,
                                  double leastCost, std::vector<uint64_t> &scratch) {
  std::vector<uint64_t> best;
  for (size_t window = ranks; leastCost > goodCost; window *= 2) {
    std::vector<uint64_t> sorted = byCost(cost, byTiles, {{0, byTiles.size()}}, window, scratch);
    RowRatios ratios = rowRatios(loads, sorted, ranks);
    if (ratios.cost < leastCost) {
      leastCost = ratios.cost;
      best = std::move(sorted);
    }
    if (window >= byTiles.size())
      break;
  }
  return best;
}

/// Groups of equal loads stand together by pattern; steps of about 0.618 of their number, in the
/// golden section, bring different ones together. It has no factor in common with the number.
size_t strideFor(size_t groups, Random &random) {
  size_t stride = static_cast<size_t>(0.618033988749895 * static_cast<double>(groups)) +
                  random.below(std::max<size_t>(1, groups / 64));
  while (stride > 1 && std::gcd(stride, groups) != 1)
    --stride;
  return std::max<size_t>(1, stride);
}

/// Tiles and tokens, each relative to what is good.
double countScore(const RowRatios &ratios) {
  return ratios.tiles / goodTiles + ratios.tokens / goodTokens;
}

} // namespace

LoadedGroups withLoads(const SampleLengths &lengths, Grouping grouping) {
  LoadedGroups groups;
  groups.grouping = std::move(grouping);
  int64_t count = groups.grouping.groups();
  groups.tiles.resize(count);
  groups.tokens.resize(count);
  for (int64_t g = 0; g < count; ++g) {
    GroupLoad load = loadOf(lengths, groups.grouping, g);
    groups.tiles[g] = static_cast<uint32_t>(load.tiles);
    groups.tokens[g] = static_cast<uint32_t>(load.tokens);
  }
  return groups;
}

void addCosts(const SampleLengths &lengths, const Grouping &grouping, const LoadCost &cost,
              GroupLoads &loads) {
  if (!cost.isSet())
    return;
  loads.cost.resize(grouping.groups());
  for (int64_t g = 0; g < grouping.groups(); ++g) {
    LoadSums sums;
    for (uint32_t i = grouping.offsets[g]; i < grouping.offsets[g + 1]; ++i)
      sums.add(lengths, grouping.samples[i]);
    loads.cost[g] = cost.of(sums);
  }
}

std::vector<uint32_t> formRows(const GroupLoads &loads, int32_t ranks, Random random) {
  size_t groups = loads.tiles.size();
  std::vector<uint64_t> items(groups), scratch;
  size_t stride = strideFor(groups, random), group = random.below(std::max<size_t>(1, groups));
  for (uint64_t &item : items) {
    item = keyed(~loads.tiles[group], static_cast<uint32_t>(group));
    group = group + stride < groups ? group + stride : group + stride - groups;
  }
  radixSort(items.data(), groups, scratch);

  // A small chunk has equal tiles, a large one gives closer tokens; where tile sums are so many
  // that one excludes the other the better compromise is found by trying.
  std::vector<Chunk> chunks;
  std::vector<uint64_t> best;
  double bestScore = 0;
  for (size_t windows : {4, 1, 16, 64, 256}) {
    std::vector<Chunk> candidate = chunksOf(items, windows * ranks);
    if (!best.empty() && candidate.size() == chunks.size())
      continue;
    std::vector<uint64_t> sorted = byTokens(loads, items, candidate, scratch);
    RowRatios ratios = rowRatios(loads, sorted, ranks);
    if (best.empty() || countScore(ratios) < bestScore) {
      best = std::move(sorted);
      chunks = std::move(candidate);
      bestScore = countScore(ratios);
    }
    if (bestScore < 0.5)
      break; // far better than it needs to be
  }
  if (loads.cost.empty())
    return valuesOf(best);

  std::vector<uint32_t> cost = quantized(loads.cost, 1u << 22);
  std::vector<uint64_t> byCounts = best;
  RowRatios start = rowRatios(loads, byCounts, ranks);
  double leastCost = start.cost, limitTiles = std::max(goodTiles, start.tiles),
         limitTokens = std::max(goodTokens, start.tokens);
  for (size_t windows = 2; windows <= 4096; windows *= 2) {
    std::vector<uint64_t> sorted = byCost(cost, byCounts, chunks, windows * ranks, scratch);
    RowRatios ratios = rowRatios(loads, sorted, ranks);
    if (ratios.tiles > limitTiles || ratios.tokens > limitTokens)
      break;
    if (ratios.cost < leastCost) {
      leastCost = ratios.cost;
      best = std::move(sorted);
    }
  }
  if (start.tiles > goodTiles || start.tokens > goodTokens) {
    std::vector<uint64_t> sorted = byCostFirst(loads, cost, items, ranks, leastCost, scratch);
    if (!sorted.empty())
      best = std::move(sorted);
  }
  return valuesOf(best);
}

void shuffleRows(int32_t ranks, Random random, std::vector<uint32_t> &order) {
  std::vector<uint32_t> rows(order.size() / ranks), result(order.size());
  for (size_t r = 0; r < rows.size(); ++r)
    rows[r] = static_cast<uint32_t>(r);
  random.shuffle(rows.data(), rows.size());
  for (size_t r = 0; r < rows.size(); ++r)
    std::copy_n(order.begin() + static_cast<size_t>(rows[r]) * ranks, ranks,
                result.begin() + r * ranks);
  order = std::move(result);
}

} // namespace omnibal::rt
