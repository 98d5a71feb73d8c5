#include "runtime/planner/model/ScheduleRules.h"
#include "runtime/planner/remat/RematFrontier.h"
#include <algorithm>

namespace omnibal::planner {

RematChoices::RematChoices(const PlanningModel &m, const std::vector<int64_t> &stages,
                           const std::vector<std::vector<Action>> &actions)
    : model(m), chunkStage(stages), profiles(memoryProfiles(m, stages, actions)),
      answers(stages.size(), std::vector<std::vector<Answer>>(m.layers)) {
  for (const std::vector<Action> &list : actions)
    for (const Action &action : list)
      splits |= action.kind == ActionKind::WeightGrad;
}

const std::vector<RematChoice> &RematChoices::of(int64_t chunk, int64_t begin, int64_t end) {
  std::vector<Answer> &row = answers[chunk][begin];
  if (static_cast<int64_t>(row.size()) <= end - begin)
    row.resize(end - begin + 1);
  Answer &answer = row[end - begin];
  if (!answer.asked) {
    answer.choices = find(chunk, begin, end);
    answer.asked = true;
  }
  return answer.choices;
}

std::pair<int64_t, int64_t> RematChoices::chunksFrom(int64_t begin) const {
  auto chunks = static_cast<int64_t>(chunkStage.size());
  return {std::max<int64_t>(0, chunks - (model.layers - begin)), std::min(begin, chunks - 1)};
}

std::unique_ptr<RematChoices> makeRematChoices(const PlanningModel &model, SearchControl &control,
                                               const std::vector<int64_t> &chunkStage,
                                               const std::vector<std::vector<Action>> &actions) {
  return model.loads.size() == 1 ? makeRematFrontier(model, control, chunkStage, actions)
                                 : makeLoadFrontier(model, control, chunkStage, actions);
}

std::unique_ptr<RematChoices> makeRematChoices(const PlanningModel &model, SearchControl &control) {
  return makeRematChoices(
      model, control, stagesInTurn(model.stages, model.stages),
      *scheduleActions(model.problem.schedule, model.stages, model.microbatches));
}

} // namespace omnibal::planner
