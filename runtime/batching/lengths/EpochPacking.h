//===- EpochPacking.h - Samples into the groups and rows of several modes -------------------===//
#ifndef RUNTIME_BATCHING_LENGTHS_EPOCHPACKING_H
#define RUNTIME_BATCHING_LENGTHS_EPOCHPACKING_H

#include "runtime/batching/lengths/ModeRows.h"
#include "runtime/support/Status.h"

namespace omnibal::rt {

/// Up to so many samples eight packings are tried and the fastest is taken.
constexpr int64_t fewSamples = 1000;

struct EpochOptions {
  bool hbp = false; ///< the published baseline, hierarchical balance packing (arXiv 2503.07680)
  uint64_t seed = 1;
  int64_t epoch = 0;
  Curriculum curriculum; ///< of epoch 0
};

/// An epoch of these modes, a function of the arguments alone. Some mode holds every sample. A
/// curriculum of more than half of its modes' steps is an error.
Result<GroupedEpoch> packEpoch(const SampleLengths &lengths, const LengthGroups &groups,
                               const EpochOptions &options);

/// Rows by the published procedure: iterative sampling and filtering for each length, then greedy
/// filling with shorter samples, packs in order of their squares.
std::vector<ModeRows> hbpRows(const SampleLengths &lengths, const LengthGroups &groups,
                              Random random);

/// The published choice: the fastest length, the longest one, and what each of them holds on a
/// single context rank.
std::vector<int32_t> hbpChoice(const SampleLengths &lengths, const LengthGroups &candidates);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_LENGTHS_EPOCHPACKING_H
