//===- EpochPlan.h - Length groups and their epoch ------------------------------------------===//
#ifndef RUNTIME_BATCHING_LENGTHS_EPOCHPLAN_H
#define RUNTIME_BATCHING_LENGTHS_EPOCHPLAN_H

#include "runtime/batching/lengths/EpochJudge.h"
#include "runtime/batching/lengths/EpochPacking.h"
#include "runtime/batching/lengths/ModeChoice.h"

namespace omnibal::rt {

struct PlanOptions {
  ModeChoiceOptions choice;
  EpochOptions epoch;
};

struct EpochPlan {
  LengthGroups groups; ///< the chosen ones
  GroupedEpoch epoch;
  EpochFacts facts;
  double boundNs = 0;    ///< no epoch of the chosen length groups takes less
  double boundAllNs = 0; ///< nor of all candidates
  double gap() const { return facts.epochNs / boundAllNs - 1; }
};

/// Chooses length groups, packs the epoch and checks it (EpochJudge). The choice depends on
/// lengths, candidates and seed, not on the epoch, so that later epochs have the same groups.
Result<EpochPlan> planEpoch(const SampleLengths &lengths, const LengthGroups &candidates,
                            const PlanOptions &options);

/// The length groups of these numbers.
LengthGroups selected(const LengthGroups &candidates, const std::vector<int32_t> &modes);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_LENGTHS_EPOCHPLAN_H
