//===- StepLayers.h - A module as plans of single steps see it, layer by layer ----------------===//
#ifndef PASSES_PLAN_STEPLAYERS_H
#define PASSES_PLAN_STEPLAYERS_H

#include "passes/common/StepSamples.h"
#include "runtime/planner/step/LayoutSearch.h"

namespace omnibal::plan {

/// Which layers plans of single steps would have on which stage: the step planner's own search
/// (runtime/planner/step/LayoutSearch.h) over the layers of a module in form L with costs and
/// `omnibal.time_models`, against the layout that is given. What layers save counts as linear in
/// their component's load. `problem` has all memory of a stage as its limit. None where nothing is
/// better than what is given. `mayDivide`: micro-batches, by their tiles.
std::optional<planner::ChunkLayout> chooseStepLayout(mlir::ModuleOp module,
                                                     const planner::Problem &problem,
                                                     const planner::Plan &given,
                                                     const StepSamples &samples, bool mayDivide);

} // namespace omnibal::plan
#endif // PASSES_PLAN_STEPLAYERS_H
