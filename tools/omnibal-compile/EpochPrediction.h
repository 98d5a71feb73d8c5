//===- EpochPrediction.h - How long an epoch of several training modes takes ------------------===//
#ifndef TOOLS_OMNIBAL_COMPILE_EPOCHPREDICTION_H
#define TOOLS_OMNIBAL_COMPILE_EPOCHPREDICTION_H

#include "passes/cost/LayerCosts.h"
#include "passes/plan/ModePlans.h"

namespace omnibal::compile {

/// The steps of one training mode, by the simulator for the loads of their micro-batches.
struct ModeEpoch {
  int64_t steps = 0;
  int64_t simulated = 0; ///< of these steps; the others take their mean
  double ns = 0;
};
ModeEpoch predictEpoch(const cost::CostReport &costs, const plan::StagePlan &planned);

/// A line for people: steps and seconds, beside what the batches' own costs say (0: nothing).
std::string epochText(const std::vector<ModeEpoch> &modes, const std::vector<std::string> &names,
                      double statedNs);

} // namespace omnibal::compile
#endif // TOOLS_OMNIBAL_COMPILE_EPOCHPREDICTION_H
