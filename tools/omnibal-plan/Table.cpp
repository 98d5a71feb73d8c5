#include "tools/omnibal-plan/Table.h"
#include "runtime/support/NumberText.h"
#include "tools/report/TextTable.h"
#include <map>

namespace omnibal::plan {
namespace {

using namespace planner;
using rt::fixed;
using rt::gigabytes;
using rt::milliseconds;
using rt::percent;

/// "first .. last" of every chunk on the stage.
std::string layersOf(const Problem &problem, const Plan &plan, int64_t stage) {
  std::string text;
  for (size_t c = 0; c < plan.chunkStage.size(); ++c) {
    if (plan.chunkStage[c] != stage)
      continue;
    text += text.empty() ? "" : ", ";
    text += problem.layers[plan.cuts[c]].name;
    if (plan.cuts[c] + 1 < plan.cuts[c + 1])
      text += " .. " + problem.layers[plan.cuts[c + 1] - 1].name;
  }
  return text;
}

/// "10 full, 2 selective", most frequent first; "none" where every layer keeps.
std::string recomputed(const Plan &plan, int64_t stage) {
  std::map<std::string, int64_t> counts;
  for (size_t c = 0; c < plan.chunkStage.size(); ++c)
    for (int64_t l = plan.cuts[c]; plan.chunkStage[c] == stage && l < plan.cuts[c + 1]; ++l)
      if (plan.remat[l] != "keep")
        ++counts[plan.remat[l]];
  std::string text;
  for (const auto &[name, count] : counts)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + name;
  return text.empty() ? "none" : text;
}

std::string aligned(const std::vector<std::vector<std::string>> &rows) {
  return report::textTable(rows, report::Align::Left);
}

} // namespace

std::string table(const Problem &problem, const Plan &plan, const PlanSearch &search) {
  std::vector<std::vector<std::string>> rows = {
      {"rank", "layers", "forward ms", "backward ms", "recomputed", "memory / limit GB", "idle"}};
  for (size_t r = 0; r < plan.stages.size(); ++r) {
    const StageFigures &stage = plan.stages[r];
    auto number = static_cast<int64_t>(r);
    double idle = plan.stepNs > 0 ? 1.0 * stage.idleNs / plan.stepNs : 0;
    rows.push_back(
        {std::to_string(r), layersOf(problem, plan, number), milliseconds(stage.forwardNs),
         milliseconds(stage.backwardNs), recomputed(plan, number),
         gigabytes(stage.peakBytes) + " / " + gigabytes(stage.limitBytes), percent(idle, 1)});
  }
  const char *proof = search.provedOptimal   ? "proved optimal"
                      : search.stoppedByTime ? "stopped by the time limit"
                                             : "not proved optimal";
  return aligned(rows) + "step " + milliseconds(plan.stepNs) + " ms, no plan takes less than " +
         milliseconds(search.lowerBoundNs) + " ms (gap " + percent(search.gap, 3) + ", " + proof +
         "); " + std::to_string(problem.microbatches) + " micro-batches, " + plan.schedule +
         "; searched " + fixed(search.seconds, 2) + " s\n";
}

std::string baselineTable(const Plan &plan, const std::vector<Baseline> &baselines) {
  std::vector<std::vector<std::string>> rows = {{"baseline", "step ms", "times ours", "how"}};
  for (const Baseline &b : baselines) {
    if (!b.plan) {
      rows.push_back({b.name, "-", "-", b.method + "; no plan: " + b.problem});
      continue;
    }
    double ratio = static_cast<double>(b.plan->stepNs) /
                   static_cast<double>(std::max<int64_t>(1, plan.stepNs));
    rows.push_back({b.name, milliseconds(b.plan->stepNs), fixed(ratio, 3), b.method});
  }
  return "\n" + aligned(rows);
}

} // namespace omnibal::plan
