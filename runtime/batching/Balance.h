//===- Balance.h - Samples into groups and rows of equal load -------------------------------===//
//
// The balancer's interface. A group is what one rank runs as one micro-batch: samples whose tiles
// and tokens stay within the caps. A row is one group for each data-parallel rank; the groups of a
// row run at the same time, so they should cost alike. Nothing here reads or writes files.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BATCHING_BALANCE_H
#define RUNTIME_BATCHING_BALANCE_H

#include "runtime/core/Status.h"
#include <cstdint>
#include <string>
#include <vector>

namespace omnibal::rt {

/// Lengths of all samples; both vectors have one entry a sample, none is negative.
struct SampleLengths {
  std::vector<int32_t> tiles;  ///< vision units (image tiles)
  std::vector<int32_t> tokens; ///< language tokens, image placeholders included
  int64_t size() const { return static_cast<int64_t>(tiles.size()); }
};

/// What a group costs, in nanoseconds: tileNs * tiles + tokenNs * tokens + squareNs * sum of the
/// squared token lengths of its samples. All zero: counts alone are balanced.
struct LoadCost {
  double tileNs = 0, tokenNs = 0, squareNs = 0;
  bool isSet() const { return tileNs > 0 || tokenNs > 0 || squareNs > 0; }
};

enum class BatchMethod {
  Plan, ///< patterns of a configuration LP, rows of equal sums, stratified order
  Isf,  ///< iterative sampling and filtering (OmniBal, arXiv 2407.20761), without its known defects
  Random, ///< next-fit of one random permutation
  Sorted  ///< next-fit in order of tokens
};

/// What happens to a sample with more tiles or tokens than the caps.
enum class Oversize {
  Error,    ///< the call fails and names samples
  OwnGroup, ///< it gets a group to itself
  Skip      ///< it is left out and listed
};

struct BatchOptions {
  BatchMethod method = BatchMethod::Plan;
  Oversize oversize = Oversize::Error;
  int64_t tilesCap = 0, tokensCap = 0;
  int32_t ranks = 1;
  uint64_t seed = 1;
  int64_t epoch = 0; ///< each epoch has its own composition, a function of (seed, epoch)
  LoadCost cost;     ///< when set, rows are formed by this cost as well
};

struct Batches {
  std::vector<int64_t> samples;  ///< sample numbers, group after group
  std::vector<int64_t> offsets;  ///< groups + 1; group g is samples[offsets[g] .. offsets[g + 1])
  std::vector<int64_t> oversize; ///< numbers of the samples over a cap, ascending
  int64_t lowerBound = 0;  ///< no grouping of these samples has fewer groups (ranks not counted)
  std::string boundMethod; ///< "sum", "big-item" or "configuration-lp"
  int64_t groups() const { return static_cast<int64_t>(offsets.size()) - 1; }
};

/// Every sample in exactly one group (skipped ones apart); the number of groups is a multiple of
/// options.ranks; row k is groups k * ranks .. k * ranks + ranks - 1. A group is empty only where
/// there are fewer samples than ranks, or too few to split for a last full row. The result is a
/// function of the arguments alone. Errors: caps or ranks below 1, no sample, oversized samples
/// under Oversize::Error (the first ones named by number, tiles and tokens).
Result<Batches> balance(const SampleLengths &lengths, const BatchOptions &options);

/// Imbalance of a grouping; means over rows whose maximum is above 0, of 1 - mean / max.
struct BalanceStatistics {
  double padRatio = 0; ///< padding of a micro-batch's samples to its longest; 0 for packed groups
  double distRatioVit = 0;  ///< of tile sums
  double distRatioLlm = 0;  ///< of token sums
  double distRatioCost = 0; ///< of LoadCost; 0 where it is not set
  double stepVariance = 0;  ///< variance of the mean tokens per sample over 8 consecutive rows,
                            ///< divided by that of independent sampling
};
BalanceStatistics statistics(const SampleLengths &lengths, const Batches &batches, int32_t ranks,
                             const LoadCost &cost = {});

/// What training without balancing takes: as many random micro-batches as `batches` has groups, of
/// the same samples, with equal numbers of them.
Batches unbalanced(const SampleLengths &lengths, const Batches &batches, uint64_t seed);

/// Imbalance of unbalanced(), a row at a time. Padding and cost are those of micro-batches that are
/// not packed but padded to their longest sample.
BalanceStatistics unbalancedStatistics(const SampleLengths &lengths, const Batches &batches,
                                       int32_t ranks, uint64_t seed, const LoadCost &cost = {});

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_BALANCE_H
