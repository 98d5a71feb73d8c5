#include "runtime/training/report/PlanLog.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

namespace omnibal::rt {

void PlanLog::write(const StepPlanFacts &plan, nlohmann::ordered_json &line) {
  line["plan"] = plan.hasLists ? "lists" : "static";
  line["plan_ms"] = plan.planSeconds * 1e3;
  line["plan_wait_ms"] = plan.waitSeconds * 1e3;
  line["predicted_ms"] = plan.predictedSeconds * 1e3;
  line["bound_ms"] = plan.boundSeconds * 1e3;
  line["static_ms"] = plan.staticSeconds * 1e3;
  line["recomputed"] = plan.recomputed;
  line["divided_microbatches"] = plan.divided;
  line["arena_used"] = plan.arenaUsed;
}

void PlanLog::add(const StepPlanFacts &plan, double pipelineSeconds) {
  if (pipelineSeconds <= 0)
    return;
  errors.push_back(std::abs(plan.predictedSeconds / pipelineSeconds - 1));
  predicted += plan.predictedSeconds;
  fixed += plan.staticSeconds;
  waited += plan.waitSeconds;
  measured += pipelineSeconds;
  withoutLists += !plan.hasLists;
}

std::string PlanLog::summary() const {
  if (errors.empty() || predicted <= 0)
    return "";
  std::vector<double> sorted = errors;
  std::sort(sorted.begin(), sorted.end());
  char text[400];
  std::snprintf(
      text, sizeof text,
      "plans of steps: %.3f times as fast as the program's own lists by prediction, which "
      "was %.1f %% off (median; worst %.1f %%); %lld of %zu steps ran those lists; waiting "
      "for plans took %.2f %% of the steps",
      fixed / predicted, sorted[sorted.size() / 2] * 100, sorted.back() * 100,
      static_cast<long long>(withoutLists), sorted.size(), waited / measured * 100);
  return text;
}

} // namespace omnibal::rt
