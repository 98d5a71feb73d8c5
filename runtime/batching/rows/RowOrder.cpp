#include "runtime/batching/rows/RadixSort.h"
#include "runtime/batching/rows/Rows.h"
#include <algorithm>
#include <array>

namespace omnibal::rt {
namespace {

constexpr size_t strata = 8;
/// Place of each stratum in a block, up to a rotation: short and long rows alternate, so that two
/// or four neighbors are balanced as well.
constexpr std::array<size_t, strata> placeOf = {0, 4, 6, 2, 3, 7, 5, 1};

uint32_t levelOf(double value, double low, double high) {
  return high > low ? static_cast<uint32_t>((value - low) / (high - low) * ((1 << 22) - 1)) : 0;
}

void sortBy(const std::vector<double> &key, std::vector<uint64_t> &items,
            std::vector<uint64_t> &scratch) {
  double low = 0, high = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    double value = key[static_cast<uint32_t>(items[i])];
    low = i == 0 ? value : std::min(low, value);
    high = i == 0 ? value : std::max(high, value);
  }
  for (uint64_t &item : items) {
    uint32_t value = static_cast<uint32_t>(item);
    item = keyed(levelOf(key[value], low, high), value);
  }
  radixSort(items.data(), items.size(), scratch);
}

struct RowSums {
  std::vector<double> mean;   ///< tokens per sample
  std::vector<double> excess; ///< tokens over what its number of samples has on average
};

RowSums sumsOf(const Grouping &grouping, const GroupLoads &loads, int32_t ranks,
               const std::vector<uint32_t> &order) {
  size_t rows = order.size() / ranks;
  RowSums sums{std::vector<double>(rows), std::vector<double>(rows)};
  std::vector<uint32_t> samples(rows);
  double all = 0;
  for (size_t r = 0; r < rows; ++r) {
    for (int32_t i = 0; i < ranks; ++i) {
      uint32_t group = order[r * ranks + i];
      sums.mean[r] += loads.tokens[group];
      samples[r] += static_cast<uint32_t>(grouping.size(group));
    }
    all += sums.mean[r];
  }
  double average = all / std::max<double>(1, static_cast<double>(grouping.samples.size()));
  for (size_t r = 0; r < rows; ++r) {
    sums.excess[r] = sums.mean[r] - average * samples[r];
    sums.mean[r] /= std::max(1u, samples[r]);
  }
  return sums;
}

/// The rows of each block of eight: one of each stratum, matched so that the blocks' excesses are
/// alike (the largest with the smallest, stratum after stratum).
std::vector<uint32_t> blocksOf(const RowSums &sums, const std::vector<uint64_t> &byMean,
                               Random &random) {
  size_t blocks = byMean.size() / strata;
  std::vector<uint64_t> scratch, partial(blocks), stratum(blocks);
  std::vector<double> excess(blocks, 0);
  std::vector<uint32_t> rows(blocks * strata);
  for (size_t b = 0; b < blocks; ++b)
    partial[b] = b;
  random.shuffle(partial.data(), blocks); // blocks in random order
  size_t turn = random.below(strata);     // no place of an epoch belongs to one kind of rows
  for (size_t i = 0; i < strata; ++i) {
    size_t s = i % 2 == 0 ? i / 2 : strata - 1 - i / 2; // the extremes first
    std::copy_n(byMean.begin() + s * blocks, blocks, stratum.begin());
    random.shuffle(stratum.data(), blocks);
    sortBy(sums.excess, stratum, scratch);
    sortBy(excess, partial, scratch);
    for (size_t k = 0; k < blocks; ++k) {
      uint32_t row = static_cast<uint32_t>(stratum[blocks - 1 - k]);
      uint32_t block = static_cast<uint32_t>(partial[k]);
      rows[block * strata + (placeOf[s] + turn) % strata] = row;
      excess[block] += sums.excess[row];
    }
  }
  return rows;
}

} // namespace

void orderRows(const Grouping &grouping, const GroupLoads &loads, int32_t ranks, Random random,
               std::vector<uint32_t> &order) {
  size_t rows = order.size() / ranks;
  RowSums sums = sumsOf(grouping, loads, ranks, order);
  std::vector<uint64_t> byMean(rows), scratch;
  for (size_t r = 0; r < rows; ++r)
    byMean[r] = r;
  random.shuffle(byMean.data(), rows);
  sortBy(sums.mean, byMean, scratch);
  // What is over a multiple of eight is taken from the middle and comes last.
  auto middle = byMean.begin() + rows / 2 - (rows % strata) / 2;
  std::vector<uint64_t> rest(middle, middle + rows % strata);
  byMean.erase(middle, middle + rows % strata);
  std::vector<uint32_t> rowOrder = blocksOf(sums, byMean, random);
  random.shuffle(rest.data(), rest.size());
  for (uint64_t row : rest)
    rowOrder.push_back(static_cast<uint32_t>(row));

  std::vector<uint32_t> result(order.size());
  for (size_t r = 0; r < rows; ++r) {
    std::copy_n(order.begin() + static_cast<size_t>(rowOrder[r]) * ranks, ranks,
                result.begin() + r * ranks);
    random.shuffle(result.data() + r * ranks, ranks);
  }
  order = std::move(result);
}

} // namespace omnibal::rt
