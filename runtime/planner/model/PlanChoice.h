//===- PlanChoice.h - Ranks to divide, and costs by parts ------------------------------------===//
#ifndef RUNTIME_PLANNER_MODEL_PLANCHOICE_H
#define RUNTIME_PLANNER_MODEL_PLANCHOICE_H

#include "runtime/planner/model/RankDivision.h"
#include <string>

namespace omnibal::planner {

/// What a part of a stage computes and holds where so many ranks run each stage together.
struct PartsCosts {
  int64_t parts = 1;
  /// Of ways to divide the same layers that trade memory for time; none: the usual way.
  std::optional<double> layoutPrice = {};
  /// Only where so many replicas divide the optimizer's state; none: wherever no others are given.
  std::optional<int64_t> zeroReplicas = {};
  Problem problem; ///< layers and edges
};

/// Ranks to divide, and the costs of what they may be divided into.
struct PlanChoice {
  RankLimits limits;
  Cluster cluster; ///< memory of a rank, and links
  std::string schedule = "auto";
  std::vector<PartsCosts> costs; ///< at least one; all of the same layers
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_MODEL_PLANCHOICE_H
