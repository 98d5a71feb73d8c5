//===- StageChoices.h - What a stage with several chunks may recompute -----------------------===//
//
// The chunks of a stage share its memory, so their layers are chosen together. Among all choices
// that fit, only those matter that no other one beats in the recomputation of every chunk and load.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PLANNER_SEARCH_STAGECHOICES_H
#define RUNTIME_PLANNER_SEARCH_STAGECHOICES_H

#include "runtime/planner/model/PlanningModel.h"
#include "runtime/planner/model/SearchControl.h"
#include "runtime/planner/search/orders/ActionOrder.h"
#include <map>

namespace omnibal::planner {

struct StageChoice {
  std::vector<int64_t> recompute; ///< ns; index [number of the chunk on its stage * loads + load]
  std::vector<int> options;       ///< of the stage's layers, in order
};

class StageChoices {
public:
  struct Answer {
    std::vector<StageChoice> choices; ///< least sum of recomputation first; none: nothing fits
    bool complete = true;             ///< false: some were left out, to keep the number down
  };

  StageChoices(const PlanningModel &model, const ActionOrder &order, SearchControl &control)
      : model(model), order(order), control(control) {}

  /// `bounds`: begin and end of the layers of each chunk of the stage.
  const Answer &of(int64_t stage, const std::vector<int64_t> &bounds);

private:
  struct Shape;
  struct Points;
  class Front;
  Answer find(int64_t stage, const std::vector<int64_t> &bounds);
  Answer cheapest(const std::vector<int64_t> &bounds) const;
  Points extended(int64_t stage, const Shape &shape, const Points &points, size_t chunk,
                  int64_t layer, int64_t room);
  void extend(int64_t stage, const Shape &shape, size_t chunk, int64_t layer, size_t option,
              int64_t *point) const;
  int64_t mostHeld(int64_t stage, const Shape &shape, const int64_t *point) const;

  const PlanningModel &model;
  const ActionOrder &order;
  SearchControl &control;
  std::map<std::vector<int64_t>, Answer> known; ///< by stage and bounds
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_STAGECHOICES_H
