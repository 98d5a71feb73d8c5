#include "runtime/planner/baselines/BaselinesInternal.h"
#include "runtime/planner/evaluate/Simulator.h"
#include "runtime/planner/model/Partition.h"
#include "runtime/planner/model/ScheduleRules.h"
#include "runtime/planner/search/Search.h"
#include <algorithm>

namespace omnibal::planner {

double BaselineTask::secondsLeft() const { return control.secondsLeft(); }

Baseline BaselineTask::timed(const char *name, const std::string &method, const Cuts &cuts,
                             std::vector<std::string> remat) const {
  Baseline result{name, method, {}, {}};
  Plan plan;
  plan.cuts = cuts;
  plan.remat = std::move(remat);
  result.problem = completePlan(problem, plan, {std::max(0.05, secondsLeft())});
  if (!result.problem.empty())
    return result;
  Timeline timeline = simulate(problem, plan);
  result.problem = timeline.error;
  for (size_t r = 0; r < timeline.stages.size(); ++r)
    if (const StageFigures &stage = timeline.stages[r];
        !problem.cluster.memoryBytes.empty() && stage.peakBytes > stage.limitBytes)
      result.problem = "stage " + std::to_string(r) + " needs " +
                       std::to_string(stage.peakBytes - stage.limitBytes) +
                       " bytes more than its limit";
  if (!result.problem.empty())
    return result;
  plan.stepNs = timeline.stepNs;
  plan.stages = timeline.stages;
  result.plan = std::move(plan);
  return result;
}

namespace {

/// Layers [begin, end) in `parts` whose counts differ by at most one, the larger ones first.
void cutEvenly(int64_t begin, int64_t end, int64_t parts, Cuts &cuts) {
  int64_t count = end - begin;
  for (int64_t p = 1; p <= parts; ++p)
    cuts.push_back(begin + p * (count / parts) + std::min(p, count % parts));
}

Baseline visionFirst(const BaselineTask &task) {
  const Problem &problem = task.problem;
  constexpr const char *name = "vision-first";
  const std::string method = "everything before the language model on the first stage";
  auto layers = static_cast<int64_t>(problem.layers.size());
  int64_t front = 0;
  while (front < layers &&
         (problem.layers[front].kind == "vision" || problem.layers[front].kind == "projector"))
    ++front;
  if (front == 0 || layers - front < task.chunks - 1 || task.chunks < 2)
    return {name, method, {}, "needs vision layers in front, two stages and enough layers behind"};
  Cuts cuts = {0, front};
  cutEvenly(front, layers, task.chunks - 1, cuts);
  return task.timed(name, method, cuts);
}

/// Layers of a stage that are recomputed whole: the option "full", or the last one.
const RematOption &fullOption(const Layer &layer) {
  const RematOption *full = layer.option("full");
  return full ? *full : layer.remat.back();
}

/// The least number that fits, of the first layers of every stage.
Baseline megatron(BaselineTask &task, const Cuts &cuts) {
  const std::string method = "equal layers, one number of recomputed layers for all stages";
  const Problem &problem = task.problem;
  Baseline result{"megatron", method, {}, {}};
  if (!problem.varyRemat) {
    result.problem = "rematerialization is given";
    return result;
  }
  int64_t longest = 0;
  for (size_t s = 0; s + 1 < cuts.size(); ++s)
    longest = std::max(longest, cuts[s + 1] - cuts[s]);
  for (int64_t count = 0; count <= longest && !result.plan; ++count) {
    std::vector<std::string> remat;
    for (size_t s = 0; s + 1 < cuts.size(); ++s)
      for (int64_t l = cuts[s]; l < cuts[s + 1]; ++l) {
        const Layer &layer = problem.layers[l];
        remat.push_back(l - cuts[s] < count ? fullOption(layer).name : layer.remat.front().name);
      }
    result = task.timed("megatron", method, cuts, std::move(remat));
    if (task.secondsLeft() <= 0)
      break;
  }
  return result;
}

} // namespace

std::vector<Baseline> baselines(const Problem &given, double seconds) {
  Problem problem = given;
  problem.varyCuts = true;
  problem.givenCuts.clear();
  if (problem.schedule == "auto")
    problem.schedule = "1f1b"; // what others run
  Problem parts = problem;     // with a stage for every chunk, for rules that only cut
  parts.cluster.stages *= chunksPerStage(problem.schedule).value_or(1);
  int64_t chunks = parts.cluster.stages;
  if (chunks > static_cast<int64_t>(problem.layers.size()))
    return {};
  PlanningModel model(problem);
  BaselineTask task{problem, model, chunks, SearchControl(seconds)};
  return {task.timed("equal-layers", "the same number of layers a stage", cutsByLayerCount(parts)),
          task.timed("equal-parameters", "the least largest parameter bytes of a stage",
                     cutsByParameters(parts)),
          visionFirst(task),
          task.timed("profile-greedy", "the least largest forward + backward time of a stage",
                     cutsByTime(parts)),
          bmp(task),
          adaPipe(task),
          megatron(task, cutsByLayerCount(parts))};
}

} // namespace omnibal::planner
