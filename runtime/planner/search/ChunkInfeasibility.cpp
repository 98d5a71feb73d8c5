#include "runtime/planner/search/ChunkInfeasibility.h"
#include "runtime/planner/model/ScheduleRules.h"
#include "runtime/planner/search/FixedSearch.h"

namespace omnibal::planner {
namespace {

/// Whether a plan is found with this much more memory on every stage.
bool findsPlan(Problem problem, int64_t moreBytes, SearchControl &control) {
  for (int64_t &limit : problem.cluster.memoryBytes)
    limit += moreBytes;
  PlanningModel model(problem);
  return searchFixed(model, control, Effort::Quick).has_value();
}

} // namespace

std::string explainInfeasibleChunks(const Problem &problem, SearchControl &control) {
  std::string text =
      "the " + std::to_string(*chunksPerStage(problem.schedule)) +
      " chunks of a stage do not fit its memory together, wherever the cuts are, " +
      (problem.varyRemat ? "even with everything recomputed" : "with the given rematerialization");
  int64_t low = 0, high = 1;
  for (; !findsPlan(problem, high, control); high *= 2) {
    low = high;
    if (control.stoppedByTime())
      return text;
  }
  // Three digits are enough for people.
  while (high - low > high / 1000 + 1 && !control.stoppedByTime()) {
    int64_t middle = low + (high - low) / 2;
    (findsPlan(problem, middle, control) ? high : low) = middle;
  }
  return text + "; " + std::to_string(high) + " bytes more on every stage would be enough";
}

} // namespace omnibal::planner
