//===- FixedOrder.h - The step of gpipe and 1f1b from the times of their stages -------------===//
#ifndef RUNTIME_PLANNER_SEARCH_ORDERS_FIXEDORDER_H
#define RUNTIME_PLANNER_SEARCH_ORDERS_FIXEDORDER_H

#include "runtime/planner/model/PlanningModel.h"

namespace omnibal::planner {

/// Times of all stages. Index [stage * loads + load].
struct StageTimes {
  struct Feed {
    int32_t from = 0, to = 0;
    bool gradient = false;                  ///< whether backward waits for `to`
    std::vector<int64_t> forward, backward; ///< transfer time by load
  };
  std::vector<int64_t> forward, backward; ///< backward with recomputation
  std::vector<int64_t> reduction;         ///< by stage
  std::vector<Feed> feeds;
};

/// Finds what feeds what under these cuts (cuts of stages 0 .. cuts.size() - 2, which need not
/// reach the last layer), sorted by (to, from); `times.feeds` is overwritten.
void findFeeds(const PlanningModel &model, const std::vector<int64_t> &cuts, StageTimes &times);

/// The longest path through a fixed action order: what the simulator computes, without its maps, in
/// a few nanoseconds per action.
class FixedOrder {
public:
  FixedOrder(const PlanningModel &model);

  int64_t step(const StageTimes &times);

  /// Returns the same for the first `stages` alone, if what lies behind them answers each
  /// micro-batch of the last of them after `echo[load]` and is never busy with another one: no plan
  /// that begins with these stages is faster. An empty `echo` means that there is no answer to wait
  /// for.
  int64_t stepOfPrefix(const StageTimes &times, int64_t stages, const std::vector<int64_t> &echo);

private:
  struct Place {
    int32_t stage, microbatch;
    bool backward;
  };
  int64_t run(const StageTimes &times, int64_t stages, const std::vector<int64_t> &echo);

  const PlanningModel &model;
  std::vector<Place> order; ///< every action after all that it can wait for
  std::vector<int64_t> forwardEnd, backwardEnd, clock;
  std::vector<int32_t> firstIn, firstOut, outgoing, slots;
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_ORDERS_FIXEDORDER_H
