//===- Rows.h - Groups that run at the same time ---------------------------------------------===//
//
// A row is one group for each rank. Groups are sorted by tiles, then by tokens (or by cost), and
// neighbors make a row; the rows are then put in an order in which every eight consecutive ones
// look like the whole data set.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BATCHING_ROWS_ROWS_H
#define RUNTIME_BATCHING_ROWS_ROWS_H

#include "runtime/batching/rows/Grouping.h"
#include "runtime/batching/rows/Random.h"

namespace omnibal::rt {

/// What a row's maximum is taken over.
struct GroupLoads {
  std::vector<uint32_t> tiles, tokens;
  std::vector<double> cost; ///< empty where no cost is set
};

/// Sums of the groups' samples.
LoadedGroups withLoads(const SampleLengths &lengths, Grouping grouping);
/// Sets loads.cost from the samples; it stays empty if no cost is set.
void addCosts(const SampleLengths &lengths, const Grouping &grouping, const LoadCost &cost,
              GroupLoads &loads);

/// Returns an order of the groups in which `ranks` neighbors carry equal loads. The number of
/// groups is a multiple of ranks; the order of equal groups is mixed.
std::vector<uint32_t> formRows(const GroupLoads &loads, int32_t ranks, Random random);

/// Orders the rows of `order`, stratified by their mean tokens per sample: any eight consecutive
/// rows have one of each eighth of the rows, chosen so that their means agree. The ranks of a row
/// are shuffled.
void orderRows(const Grouping &grouping, const GroupLoads &loads, int32_t ranks, Random random,
               std::vector<uint32_t> &order);

/// Puts the rows in random order; groups stay in their row.
void shuffleRows(int32_t ranks, Random random, std::vector<uint32_t> &order);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_ROWS_ROWS_H
