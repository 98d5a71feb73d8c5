//===- RunPlan.h - The actions of one run of a mode, and where its regions lie -------------===//
//
// A mode holds the actions and offsets that serve every run. Where steps are planned one by one, a
// step's plan has others; both are looked at through a RunPlan, which owns nothing.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PROGRAM_RUNPLAN_H
#define RUNTIME_PROGRAM_RUNPLAN_H

#include "runtime/program/Program.h"
#include <span>

namespace omnibal::rt {

struct RunPlan {
  std::span<const Action> actions;
  /// By region: one offset into the arena a micro-batch.
  std::vector<const int64_t *> offsets;
  /// Whether this is the plan of a single step, whose regions move from step to step.
  bool ofStep = false;

  int64_t offset(int32_t region, int32_t microbatch) const { return offsets[region][microbatch]; }
};

/// The mode's own.
inline RunPlan ownPlan(const Mode &mode) {
  RunPlan plan{mode.actions, {}, false};
  plan.offsets.reserve(mode.regions.size());
  for (const Region &region : mode.regions)
    plan.offsets.push_back(region.offsets.data());
  return plan;
}

/// V and N of a micro-batch, N as regions are sized for it.
struct RunLoad {
  int64_t tiles = 0, tokens = 0;
};

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_RUNPLAN_H
