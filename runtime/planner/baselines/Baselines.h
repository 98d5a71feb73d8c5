//===- Baselines.h - How others cut and recompute -------------------------------------------===//
#ifndef RUNTIME_PLANNER_BASELINES_BASELINES_H
#define RUNTIME_PLANNER_BASELINES_BASELINES_H

#include "runtime/planner/model/Plan.h"
#include "runtime/planner/model/Problem.h"
#include <optional>

namespace omnibal::planner {

struct Baseline {
  std::string name;
  std::string method;       ///< one sentence
  std::optional<Plan> plan; ///< timed by the simulator; none: it fits no memory, or has no meaning
  std::string problem;      ///< why there is none
};

/// Returns plans of the problem's schedule (1f1b if that is "auto") by published and common rules.
/// If a rule says nothing about recomputation, each stage recomputes the least that fits, found
/// exactly, so that the cuts are what is compared. With several chunks per stage, rules cut as many
/// stages as there are chunks. The result is empty if there are fewer layers than that. `seconds`
/// bounds all of them together.
///
///   equal-layers       the same number of layers a stage
///   equal-parameters   the least largest parameter bytes of a stage
///   vision-first       everything before the language model on the first stage, the rest in equal
///                      numbers
///   profile-greedy     the least largest forward + backward time of a stage
///   bmp                OmniBal's balanced model partition (Bmp.cpp)
///   adapipe            AdaPipe's two levels (AdaPipe.cpp)
///   megatron           equal layers, and one number of fully recomputed layers for all stages
std::vector<Baseline> baselines(const Problem &problem, double seconds = 10);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_BASELINES_BASELINES_H
