//===- RankDivision.h - Ranks as parts, stages and replicas ----------------------------------===//
#ifndef RUNTIME_PLANNER_MODEL_RANKDIVISION_H
#define RUNTIME_PLANNER_MODEL_RANKDIVISION_H

#include "runtime/planner/model/Node.h"
#include <optional>
#include <vector>

namespace omnibal::planner {

/// How many ranks there are, what a step is, and what of the division is decided already.
struct RankLimits {
  int64_t ranks = 1;
  int64_t groups = 1; ///< packed micro-batches of a step, of all replicas
  std::optional<int64_t> stages, replicas, zero;
  std::optional<Node> node;
  std::optional<int64_t> parts = 1;            ///< of a stage; none: those of `anyParts`
  std::optional<rt::RankOrder> rankOrder = {}; ///< none: whichever gives links of a node to more
  /// What is tried where nobody says. More than the ranks of a node are left out, as these talk
  /// over links that are too slow for them.
  std::vector<int64_t> anyParts = {1, 2, 4, 8};
};

/// parts x stages x replicas ranks; every replica has `microbatches` in a step.
struct RankDivision {
  int64_t stages = 1, replicas = 1, zero = 0, microbatches = 1, parts = 1;
  rt::RankOrder rankOrder = rt::RankOrder::Stage;
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_MODEL_RANKDIVISION_H
