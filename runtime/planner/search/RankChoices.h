//===- RankChoices.h - What a rank with several chunks may recompute -------------------------===//
//
// The chunks of a rank share its memory, so their layers are chosen together. Of all choices that
// fit, those matter that no other one beats in the recomputation of every chunk and load.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PLANNER_SEARCH_RANKCHOICES_H
#define RUNTIME_PLANNER_SEARCH_RANKCHOICES_H

#include "runtime/planner/model/PlanningModel.h"
#include "runtime/planner/model/SearchControl.h"
#include "runtime/planner/search/ActionOrder.h"
#include <map>

namespace omnibal::planner {

struct RankChoice {
  std::vector<int64_t> recompute; ///< ns; index [number of the chunk on its rank * loads + load]
  std::vector<int> options;       ///< of the rank's layers, in order
};

class RankChoices {
public:
  struct Answer {
    std::vector<RankChoice> choices; ///< least sum of recomputation first; none: nothing fits
    bool complete = true;            ///< false: some were left out, to keep the number down
  };

  RankChoices(const PlanningModel &model, const ActionOrder &order, SearchControl &control)
      : model(model), order(order), control(control) {}

  /// `bounds`: begin and end of the layers of each chunk of the rank.
  const Answer &of(int64_t rank, const std::vector<int64_t> &bounds);

private:
  struct Point;
  Answer find(int64_t rank, const std::vector<int64_t> &bounds);
  Answer cheapest(const std::vector<int64_t> &bounds) const;
  std::vector<Point> extended(const std::vector<Point> &points, size_t chunk, int64_t layer) const;
  void addBytes(int64_t rank, size_t chunk, int64_t layer, Point &point) const;
  int64_t mostHeld(int64_t rank, const Point &point) const;

  const PlanningModel &model;
  const ActionOrder &order;
  SearchControl &control;
  std::map<std::vector<int64_t>, Answer> known; ///< by rank and bounds
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_RANKCHOICES_H
