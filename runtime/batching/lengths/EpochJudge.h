//===- EpochJudge.h - Whether an epoch is valid, and how long it takes ----------------------===//
//
// The judge looks at the arrays alone, not at how they came about:
//
//   g1  every sample is in exactly one group
//   g2  a row has as many groups as its length group has ranks, within its caps, not all empty
//   g3  a step has 1 to `microbatches` rows of one length group, which are neighbors; only the last
//       step of a length group is short, and only its last row has empty groups
//   g4  time and statistics are those that the arrays give
//   g5  the bound is not above the time
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BATCHING_LENGTHS_EPOCHJUDGE_H
#define RUNTIME_BATCHING_LENGTHS_EPOCHJUDGE_H

#include "runtime/batching/lengths/LengthGroups.h"
#include "runtime/support/Status.h"

namespace omnibal::rt {

struct ModeFacts {
  int64_t samples = 0, groups = 0, rows = 0, steps = 0, tokens = 0;
  double distRatioVit = 0, distRatioLlm = 0, distRatioCost = 0; ///< as in BalanceStatistics
  double abr = 0; ///< the same ratio of squared lengths
  double ns = 0;  ///< of its steps
};

struct EpochFacts {
  ModeFacts all;
  std::vector<ModeFacts> modes;
  double epochNs = 0;
  double cr = 0;        ///< share of the steps whose degree is above 1
  double aveTokens = 0; ///< mean tokens of a group, empty ones counted
  double stepVariance8 = 0, stepVariance32 = 0;
  double stepTokensVariation = 0; ///< standard deviation of a step's tokens over their mean
  double shareDeviation = 0;      ///< of a mode in 32 consecutive steps, the largest
  std::vector<double> stepNs;     ///< of each step
  std::vector<int32_t> stepModes;
};

/// Checks g1 to g3 and computes the facts; Internal with the number of row, group or sample if one
/// is broken.
Result<EpochFacts> judgeEpoch(const SampleLengths &lengths, const LengthGroups &groups,
                              const GroupedEpoch &epoch);

/// Checks g1 to g3 of an epoch that was read from a folder, `where`.
Status checkEpoch(const SampleLengths &lengths, const LengthGroups &groups,
                  const GroupedEpoch &epoch, const std::string &where);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_LENGTHS_EPOCHJUDGE_H
