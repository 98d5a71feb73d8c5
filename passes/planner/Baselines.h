//===- Baselines.h - How others cut and recompute -------------------------------------------===//
#ifndef PASSES_PLANNER_BASELINES_H
#define PASSES_PLANNER_BASELINES_H

#include "passes/planner/Plan.h"
#include "passes/planner/Problem.h"
#include <optional>

namespace omnibal::planner {

struct Baseline {
  std::string name;
  std::string method;       ///< one sentence
  std::optional<Plan> plan; ///< timed by the simulator; none: it fits no memory, or has no meaning
  std::string problem;      ///< why there is none
};

/// Plans of gpipe or 1f1b by published and common rules. Where a rule says nothing of
/// recomputation, each stage recomputes the least that fits, found exactly: what is compared is the
/// cuts.
///
///   equal-layers       the same number of layers a stage
///   equal-parameters   the least largest parameter bytes of a stage
///   vision-first       everything before the language model on the first stage, the rest in equal
///                      numbers
///   profile-greedy     the least largest forward + backward time of a stage
///   bmp                OmniBal's balanced model partition (arXiv 2407.20761): greedy split by
///                      forward time, each cut moved by up to a radius, candidates ranked by
///                      variance of forward times and bytes sent (both lexicographic orders and the
///                      sum of ranks), the best of each order timed
///   adapipe            AdaPipe's two levels (doi 10.1145/3620666.3651359): a knapsack a stage, and
///                      a dynamic programme over stages for warm-up + ending + steady phase, with
///                      no transfers in it
///   megatron           equal layers, and one number of fully recomputed layers for all stages
std::vector<Baseline> baselines(const Problem &problem);

} // namespace omnibal::planner
#endif // PASSES_PLANNER_BASELINES_H
