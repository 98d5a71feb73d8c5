//===- RematFrontier.h - The two ways to find rematerialization choices ---------------------===//
#ifndef RUNTIME_PLANNER_REMAT_REMATFRONTIER_H
#define RUNTIME_PLANNER_REMAT_REMATFRONTIER_H

#include "runtime/planner/remat/RematChoices.h"
#include <algorithm>
#include <functional>

namespace omnibal::planner {

/// Once the time limit has stopped the search, choices go on from this many points of a run of
/// layers. Each is valid, and nothing is concluded from those that are missing.
constexpr size_t pointsAfterStop = 16;

/// Returns that many of `count` points, evenly over their order; the first and the last are among
/// them.
inline std::vector<size_t> someOf(size_t count) {
  std::vector<size_t> some;
  for (size_t i = 0; i < pointsAfterStop; ++i)
    some.push_back(i * (count - 1) / (pointsAfterStop - 1));
  return some;
}

/// True if no number of the first list exceeds the other's.
inline bool noneAbove(const std::vector<int64_t> &a, const std::vector<int64_t> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), std::less_equal<>());
}

/// One load: a point is four numbers.
std::unique_ptr<RematChoices> makeRematFrontier(const PlanningModel &model, SearchControl &control,
                                                const std::vector<int64_t> &chunkStage,
                                                const std::vector<std::vector<Action>> &actions);
/// Several loads: saved bytes and recomputation of each.
std::unique_ptr<RematChoices> makeLoadFrontier(const PlanningModel &model, SearchControl &control,
                                               const std::vector<int64_t> &chunkStage,
                                               const std::vector<std::vector<Action>> &actions);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_REMAT_REMATFRONTIER_H
