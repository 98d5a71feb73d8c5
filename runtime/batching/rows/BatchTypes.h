//===- BatchTypes.h - What is balanced, how, and into what ---------------------------------===//
#ifndef RUNTIME_BATCHING_ROWS_BATCHTYPES_H
#define RUNTIME_BATCHING_ROWS_BATCHTYPES_H

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

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_ROWS_BATCHTYPES_H
