//===- AutoCaps.h - Caps by predicted step time ----------------------------------------------===//
//
// Larger groups waste less on the fixed cost of a micro-batch and leave less room unused. But they
// need more memory, and fewer of them fill a pipeline worse. Instead of making trial runs, the
// search balances a part of the samples for each pair of caps that fits the memory, and predicts
// the time.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BATCHING_AUTOCAPS_H
#define RUNTIME_BATCHING_AUTOCAPS_H

#include "runtime/batching/Balance.h"

namespace omnibal::rt {

/// Memory of a rank for a micro-batch at the caps: fixedBytes + tileBytes * tiles + tokenBytes *
/// tokens. limitBytes 0: no limit.
struct MemoryModel {
  double limitBytes = 0, fixedBytes = 0, tileBytes = 0, tokenBytes = 0;
  double bytes(int64_t tiles, int64_t tokens) const {
    return fixedBytes + tileBytes * static_cast<double>(tiles) +
           tokenBytes * static_cast<double>(tokens);
  }
};

/// A step of M micro-batches a rank takes (M + stages - 1) * (microbatchNs + the load's cost of the
/// row's most loaded rank) + stepNs.
struct StepModel {
  LoadCost cost; ///< must be set; of the slowest stage
  double microbatchNs = 0, stepNs = 0;
  int32_t stages = 1;
};

struct AutoCapsOptions {
  MemoryModel memory;
  StepModel step;
  int32_t ranks = 1;
  int64_t samplesPerStep = 0; ///< of all ranks; exactly one of these two is above 0
  int64_t tokensPerStep = 0;
  uint64_t seed = 1;
};

struct CapsCandidate {
  int64_t tiles = 0, tokens = 0;
  double bytes = 0;
  int64_t microbatches = 0;  ///< of a rank and step, so that a step is closest to its target
  double samplesPerStep = 0; ///< that this gives
  double stepNs = 0;         ///< predicted
  double nsPerToken = 0;     ///< stepNs over the step's tokens: what is least
  double imbalance = 0;      ///< distRatioCost
  double fillTiles = 0, fillTokens = 0; ///< mean sums of groups over caps
};

struct AutoCaps {
  CapsCandidate chosen;
  std::vector<CapsCandidate> candidates; ///< all that fit the memory, the best first
  std::string explanation;               ///< lines: the choice, what rules others out
};

/// Chooses caps. These are errors: no cost, not exactly one target, invalid numbers, and a sample
/// that alone needs more than the memory limit (which is named).
Result<AutoCaps> chooseCaps(const SampleLengths &lengths, const AutoCapsOptions &options);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_AUTOCAPS_H
