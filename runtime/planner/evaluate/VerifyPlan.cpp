#include "runtime/planner/evaluate/VerifyPlan.h"
#include "runtime/planner/evaluate/Simulator.h"
#include "runtime/planner/model/ScheduleRules.h"
#include <cmath>
#include <map>

namespace omnibal::planner {
namespace {

std::string number(int64_t value) { return std::to_string(value); }

class Verifier {
public:
  Verifier(const Problem &problem, const Plan &plan, const PlanClaims &claims)
      : problem(problem), plan(plan), claims(claims) {}

  std::vector<Violation> run() {
    checkCuts();
    checkRemat();
    if (found.empty()) {
      checkStages();
      checkGiven();
    }
    if (found.empty())
      checkActions();
    if (found.empty())
      checkTimes();
    return std::move(found);
  }

private:
  /// What a violation is about.
  struct Place {
    std::optional<int64_t> stage, layer;
  };
  static Place stageAt(size_t stage) { return {static_cast<int64_t>(stage), {}}; }
  static Place layerAt(size_t layer) { return {{}, static_cast<int64_t>(layer)}; }
  /// Its first layer; a cut may be anything.
  Place chunkAt(size_t chunk) const {
    int64_t first = plan.cuts[chunk], layers = static_cast<int64_t>(problem.layers.size());
    return first >= 0 && first < layers ? Place{{}, first} : Place{};
  }

  void report(const char *rule, const std::string &text, Place place = {}) {
    found.push_back({std::string("plan_") + rule, place.stage, place.layer, text});
  }

  void checkCuts() {
    auto layers = static_cast<int64_t>(problem.layers.size());
    if (plan.cuts.size() < 2 || plan.cuts.front() != 0 || plan.cuts.back() != layers)
      return report("c1",
                    "cuts must begin with 0 and end with the number of layers, " + number(layers));
    for (size_t c = 0; c + 1 < plan.cuts.size(); ++c)
      if (plan.cuts[c] >= plan.cuts[c + 1])
        report("c1",
               "chunk " + std::to_string(c) + " is empty or runs backwards (cuts " +
                   number(plan.cuts[c]) + ", " + number(plan.cuts[c + 1]) + ")",
               chunkAt(c));
  }

  void checkRemat() {
    if (plan.remat.size() != problem.layers.size())
      return report("c3", std::to_string(plan.remat.size()) + " options for " +
                              std::to_string(problem.layers.size()) + " layers");
    for (size_t l = 0; l < plan.remat.size(); ++l)
      if (!problem.layers[l].option(plan.remat[l]))
        report("c3", "layer " + problem.layers[l].name + " has no option " + plan.remat[l],
               layerAt(l));
  }

  void checkStages() {
    size_t chunks = plan.cuts.size() - 1;
    auto stages = static_cast<size_t>(problem.cluster.stages);
    std::optional<int64_t> perStage = chunksPerStage(problem.schedule);
    if (plan.chunkStage.size() != chunks)
      return report("c2", std::to_string(plan.chunkStage.size()) + " chunk stages for " +
                              std::to_string(chunks) + " chunks");
    if (perStage && chunks != stages * static_cast<size_t>(*perStage))
      return report("c2", problem.schedule + " on " + std::to_string(stages) + " stages needs " +
                              std::to_string(stages * static_cast<size_t>(*perStage)) +
                              " chunks, not " + std::to_string(chunks));
    for (size_t c = 0; c < chunks; ++c)
      if (plan.chunkStage[c] < 0 || plan.chunkStage[c] >= problem.cluster.stages ||
          (problem.schedule != "auto" && plan.chunkStage[c] != static_cast<int64_t>(c % stages)))
        report("c2",
               "chunk " + std::to_string(c) + " cannot be on stage " + number(plan.chunkStage[c]),
               chunkAt(c));
  }

  void checkGiven() {
    if (!problem.varyCuts && plan.cuts != problem.givenCuts)
      report("c4", "the cuts are not the given ones");
    for (size_t l = 0; !problem.varyRemat && l < plan.remat.size(); ++l)
      if (plan.remat[l] != problem.givenRemat[l])
        report("c4",
               "layer " + problem.layers[l].name + " must have the given option " +
                   problem.givenRemat[l],
               layerAt(l));
  }

  void checkActions() {
    if (plan.actions.size() != static_cast<size_t>(problem.cluster.stages))
      return report("c5", std::to_string(plan.actions.size()) + " action lists for " +
                              number(problem.cluster.stages) + " stages");
    // What has run of each (chunk, micro-batch), as "", "F", "FB", "FI" or "FIW".
    std::map<std::pair<int64_t, int64_t>, std::string> done;
    for (size_t r = 0; r < plan.actions.size(); ++r)
      for (const Action &a : plan.actions[r]) {
        if (a.chunk < 0 || a.chunk >= static_cast<int64_t>(plan.chunkStage.size()) ||
            a.microbatch < 0 || a.microbatch >= problem.microbatches ||
            plan.chunkStage[a.chunk] != static_cast<int64_t>(r)) {
          report("c5",
                 "stage " + std::to_string(r) + " runs chunk " + number(a.chunk) +
                     ", micro-batch " + number(a.microbatch) + ", which is not its own",
                 stageAt(r));
          return;
        }
        done[{a.chunk, a.microbatch}] += letterOf(a.kind);
      }
    for (int64_t c = 0; c < static_cast<int64_t>(plan.chunkStage.size()); ++c)
      for (int64_t m = 0; m < problem.microbatches; ++m)
        if (const std::string &ran = done[{c, m}]; ran != "FB" && ran != "FIW")
          report("c5",
                 "chunk " + number(c) + ", micro-batch " + number(m) + " runs '" + ran +
                     "' and not F, B or F, I, W",
                 chunkAt(static_cast<size_t>(c)));
    if (found.empty())
      checkOrder();
  }

  void checkOrder() {
    if (plan.schedule != problem.schedule)
      report("c6",
             "the plan's schedule is " + plan.schedule + ", the problem's " + problem.schedule);
    auto rule = scheduleActions(problem.schedule, problem.cluster.stages, problem.microbatches);
    for (size_t r = 0; rule && r < rule->size(); ++r)
      for (size_t i = 0; i < (*rule)[r].size(); ++i) {
        const Action &want = (*rule)[r][i];
        if (i < plan.actions[r].size() && plan.actions[r][i].kind == want.kind &&
            plan.actions[r][i].microbatch == want.microbatch &&
            plan.actions[r][i].chunk == want.chunk)
          continue;
        report("c6",
               "stage " + std::to_string(r) + ": action " + std::to_string(i) + " of " +
                   problem.schedule + " is " + letterOf(want.kind) + " of micro-batch " +
                   number(want.microbatch) + ", chunk " + number(want.chunk),
               stageAt(r));
        break;
      }
  }

  void checkTimes() {
    Timeline timeline = simulate(problem, plan);
    if (!timeline.error.empty())
      return report("c7", timeline.error);
    for (size_t r = 0; r < timeline.stages.size(); ++r)
      if (const StageFigures &stage = timeline.stages[r];
          !problem.cluster.memoryBytes.empty() && stage.peakBytes > stage.limitBytes)
        report("c8",
               "stage " + std::to_string(r) + " needs " + number(stage.peakBytes) + " bytes, " +
                   number(stage.peakBytes - stage.limitBytes) + " more than its limit",
               stageAt(r));
    checkClaims(timeline);
  }

  void checkClaims(const Timeline &timeline) {
    auto compare = [&](const std::string &what, int64_t claimed, int64_t actual, Place place = {}) {
      if (claimed != actual)
        report("c9", what + " is " + number(actual) + ", but the plan says " + number(claimed),
               place);
    };
    if (claims.stepNs)
      compare("step_ns", *claims.stepNs, timeline.stepNs);
    if (claims.lowerBoundNs && *claims.lowerBoundNs > timeline.stepNs)
      report("c9", "lower_bound_ns " + number(*claims.lowerBoundNs) + " is above the step, " +
                       number(timeline.stepNs));
    if (claims.gap && claims.lowerBoundNs && *claims.lowerBoundNs > 0) {
      double gap = static_cast<double>(timeline.stepNs - *claims.lowerBoundNs) /
                   static_cast<double>(*claims.lowerBoundNs);
      if (std::abs(gap - *claims.gap) > 1e-3 * std::max(1.0, gap))
        report("c9", "gap is " + std::to_string(gap) + ", but the plan says " +
                         std::to_string(*claims.gap));
    }
    if (!claims.stages.empty() && claims.stages.size() != timeline.stages.size())
      return report("c9", "stages has " + std::to_string(claims.stages.size()) + " entries for " +
                              std::to_string(timeline.stages.size()) + " stages");
    for (size_t r = 0; r < claims.stages.size(); ++r) {
      const StageFigures &said = claims.stages[r], &is = timeline.stages[r];
      std::string where = "ranks[" + std::to_string(r) + "].";
      compare(where + "forward_ns", said.forwardNs, is.forwardNs, stageAt(r));
      compare(where + "backward_ns", said.backwardNs, is.backwardNs, stageAt(r));
      compare(where + "recompute_ns", said.recomputeNs, is.recomputeNs, stageAt(r));
      compare(where + "peak_bytes", said.peakBytes, is.peakBytes, stageAt(r));
      compare(where + "limit_bytes", said.limitBytes, is.limitBytes, stageAt(r));
      compare(where + "idle_ns", said.idleNs, is.idleNs, stageAt(r));
    }
  }

  const Problem &problem;
  const Plan &plan;
  const PlanClaims &claims;
  std::vector<Violation> found;
};

} // namespace

std::vector<Violation> verifyPlan(const Problem &problem, const Plan &plan,
                                  const PlanClaims &claims) {
  return Verifier(problem, plan, claims).run();
}

} // namespace omnibal::planner
