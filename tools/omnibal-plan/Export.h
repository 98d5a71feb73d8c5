//===- Export.h - Plans for other trainers --------------------------------------------------===//
#ifndef TOOLS_OMNIBAL_PLAN_EXPORT_H
#define TOOLS_OMNIBAL_PLAN_EXPORT_H

#include "runtime/planner/json/PlanJson.h"
#include "runtime/planner/model/Problem.h"

namespace omnibal::plan {

struct Exported {
  std::string text;
  std::vector<std::string> warnings; ///< what the other trainer does otherwise, and why
  std::string problem;               ///< why there is no text; empty if there is one
};

/// Command-line flags of Megatron-LM, each line but the last continued: the layout string of
/// megatron/core/transformer/pipeline_parallel_layer_layout.py (E embedding, t transformer layer, L
/// head and loss, | between chunks, x*n repeated), layers, micro-batches, recomputation. The
/// embedding is the first language layer that nothing feeds. Layers of vision and projector have no
/// letter.
Exported exportMegatron(const planner::Problem &problem, const planner::Plan &plan);

/// The plan with its chunks' layers by name, kind and option, one JSON object
/// ("omnibal.plan-export/1").
Exported exportJson(const planner::Problem &problem, const planner::Plan &plan,
                    const planner::PlanSearch &search);

} // namespace omnibal::plan
#endif // TOOLS_OMNIBAL_PLAN_EXPORT_H
