//===- Balance.h - Samples into groups and rows of equal load -------------------------------===//
//
// This is the interface of the balancer. A group is what one rank runs as one micro-batch: samples
// whose tiles and tokens stay within the caps. A row is one group for each data-parallel rank; the
// groups of a row run at the same time, so they should cost the same. Nothing here reads or writes
// files.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BATCHING_BALANCE_H
#define RUNTIME_BATCHING_BALANCE_H

#include "runtime/batching/rows/BatchTypes.h"
#include "runtime/support/Status.h"
#include <cstdint>

namespace omnibal::rt {

/// Puts every sample into exactly one group (skipped ones apart). The number of groups is a
/// multiple of options.ranks, and row k is groups k * ranks .. k * ranks + ranks - 1. A group is
/// empty only if there are fewer samples than ranks, or too few to split for a last full row. The
/// result is a function of the arguments alone. These are errors: caps or ranks below 1, no sample,
/// and oversized samples under Oversize::Error (the first ones are named by number, tiles and
/// tokens).
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

/// Returns what training without balancing uses: as many random micro-batches as `batches` has
/// groups, of the same samples, with equal numbers of them.
Batches unbalanced(const SampleLengths &lengths, const Batches &batches, uint64_t seed);

/// Returns the imbalance of unbalanced(), a row at a time. Padding and cost are those of
/// micro-batches whose tokens are not packed but padded to their longest sample.
BalanceStatistics unbalancedStatistics(const SampleLengths &lengths, const Batches &batches,
                                       int32_t ranks, uint64_t seed, const LoadCost &cost = {});

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_BALANCE_H
