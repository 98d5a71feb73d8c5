#include "passes/planner/RematFrontier.h"
#include <algorithm>
#include <set>

namespace omnibal::planner {

RematChoices::RematChoices(const PlanningModel &m)
    : model(m), answers(m.stages, std::vector<std::vector<Answer>>(m.layers)) {}

const std::vector<RematChoice> &RematChoices::of(int64_t rank, int64_t begin, int64_t end) {
  std::vector<Answer> &row = answers[rank][begin];
  if (static_cast<int64_t>(row.size()) <= end - begin)
    row.resize(end - begin + 1);
  Answer &answer = row[end - begin];
  if (!answer.asked) {
    answer.choices = find(rank, begin, end);
    answer.asked = true;
  }
  return answer.choices;
}

std::pair<int64_t, int64_t> RematChoices::ranksFrom(int64_t begin) const {
  return {std::max<int64_t>(0, model.stages - (model.layers - begin)),
          std::min(begin, model.stages - 1)};
}

std::unique_ptr<RematChoices> makeRematChoices(const PlanningModel &model, SearchControl &control) {
  return model.loads.size() == 1 ? makeRematFrontier(model, control)
                                 : makeLoadFrontier(model, control);
}

int64_t missingBytes(const PlanningModel &model, int64_t rank, int64_t begin, int64_t end) {
  int64_t limit = model.memoryOf(rank);
  if (limit == unreachable)
    return 0;
  std::set<int64_t> bounds;
  for (int64_t l = begin; l < end; ++l)
    for (const RematOption &option : model.loads[0].remat[l])
      bounds.insert(option.workspaceBytes);
  int64_t window = model.inFlight(rank), least = unreachable;
  for (int64_t bound : bounds) {
    // Under a bound on workspace each layer keeps as little as it can.
    std::vector<int64_t> saved(model.loads.size(), 0);
    bool possible = true;
    for (int64_t l = begin; l < end; ++l)
      for (size_t load = 0; load < saved.size(); ++load) {
        int64_t fewest = unreachable;
        for (const RematOption &option : model.loads[load].remat[l])
          if (option.workspaceBytes <= bound)
            fewest = std::min(fewest, option.savedBytes);
        possible &= fewest < unreachable;
        saved[load] += possible ? fewest : 0;
      }
    if (!possible)
      continue;
    int64_t held = 0, most = 0;
    for (int64_t m = 0; m < model.microbatches; ++m) {
      held += saved[model.loadOf[m]] - (m >= window ? saved[model.loadOf[m - window]] : 0);
      most = std::max(most, held);
    }
    least = std::min(least, most + bound + model.paramSum[end] - model.paramSum[begin] - limit);
  }
  return least;
}

} // namespace omnibal::planner
