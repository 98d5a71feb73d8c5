#include "runtime/planner/search/FixedSearch.h"
#include "runtime/planner/model/ScheduleRules.h"
#include "runtime/planner/search/ChunkSearch.h"
#include "runtime/planner/search/CutSearch.h"

namespace omnibal::planner {
ActionLists listsOf(const PlanningModel &model) {
  const std::string &schedule = model.problem.schedule;
  return {stagesInTurn(model.stages * *chunksPerStage(schedule), model.stages),
          *scheduleActions(schedule, model.stages, model.microbatches)};
}

std::optional<SearchOutcome> searchFixed(const PlanningModel &model, SearchControl &control,
                                         Effort effort, bool *nothingFits) {
  auto none = [&](bool sawAll) {
    if (nothingFits)
      *nothingFits = sawAll;
    return std::nullopt;
  };
  ActionLists lists = listsOf(model);
  bool oneChunk = static_cast<int64_t>(lists.chunkStage.size()) == model.stages;
  if (oneChunk && model.problem.schedule != "zb-h1") {
    CutSearch search(model, control);
    if (!search.run(effort == Effort::Quick))
      return none(!control.exhausted());
    return SearchOutcome{search.bestCuts(), search.bestOptions(), std::move(lists),
                         search.bestStep(), search.lowerBound(),  "branch-and-bound"};
  }
  ChunkSearch search(model, std::move(lists), control);
  if (!search.run(effort))
    return none(search.complete());
  return SearchOutcome{search.bestCuts(), search.bestOptions(), search.lists(),
                       search.bestStep(), search.lowerBound(),  "branch-and-bound"};
}

} // namespace omnibal::planner
