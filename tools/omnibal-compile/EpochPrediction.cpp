#include "tools/omnibal-compile/EpochPrediction.h"
#include "runtime/planner/evaluate/Simulator.h"
#include "runtime/support/NumberText.h"
#include <algorithm>

namespace omnibal::compile {
namespace {

constexpr int64_t mostSimulated = 256;

int64_t stepNs(const cost::CostReport &costs, const plan::StagePlan &planned, int64_t step) {
  planner::Problem problem = planned.problem;
  problem.factors.clear();
  for (const cost::GroupLoad &microbatch : cost::stepOf(costs.epoch, problem.microbatches, step))
    problem.factors.push_back(costs.factorsOf(microbatch));
  return planner::simulate(problem, planned.plan).stepNs;
}

std::string seconds(double ns) { return rt::milliseconds(static_cast<int64_t>(ns), 2) + " ms"; }

} // namespace

ModeEpoch predictEpoch(const cost::CostReport &costs, const plan::StagePlan &planned) {
  const int64_t perStep = planned.problem.microbatches * costs.epoch.replicas;
  const auto groups = static_cast<int64_t>(costs.epoch.groups.size());
  const int64_t full = groups / perStep, simulated = std::min(full, mostSimulated);
  ModeEpoch epoch{full, simulated, 0};
  for (int64_t i = 0; i < simulated; ++i)
    epoch.ns += static_cast<double>(stepNs(costs, planned, i * full / simulated));
  if (simulated > 0)
    epoch.ns *= static_cast<double>(full) / static_cast<double>(simulated);
  if (groups > full * perStep) { // the last one lacks micro-batches
    epoch.ns += static_cast<double>(stepNs(costs, planned, full));
    ++epoch.steps;
    ++epoch.simulated;
  }
  return epoch;
}

std::string epochText(const std::vector<ModeEpoch> &modes, const std::vector<std::string> &names,
                      double statedNs) {
  double ns = 0;
  bool sampled = false;
  std::string steps;
  for (size_t m = 0; m < modes.size(); ++m) {
    ns += modes[m].ns;
    sampled |= modes[m].simulated < modes[m].steps;
    steps += (m ? ", " : "") + std::to_string(modes[m].steps) + " steps of " + names[m] + " in " +
             seconds(modes[m].ns);
  }
  std::string text = "predicted epoch: " + seconds(ns) + " (" + steps +
                     (sampled ? ", from samples of them)" : ")");
  if (statedNs > 0)
    text += "; groups.json says " + seconds(statedNs);
  return text + "\n";
}

} // namespace omnibal::compile
