#include "passes/plan/RankSearch.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "mlir/IR/Diagnostics.h"
#include "passes/common/ProblemAttributes.h"
#include "runtime/planner/search/Search.h"
#include <tuple>

using namespace mlir;

namespace omnibal::plan {
namespace {

constexpr llvm::StringLiteral passName = "omnibal-search-ranks";
/// Of a search for one division of several: about two seconds, but the same on every machine, and
/// seconds only against a machine that does next to nothing.
constexpr int64_t workForOne = int64_t{1} << 29;
constexpr double secondsForOne = 120;

std::string textOf(const planner::RankDivision &division) {
  return std::to_string(division.stages) + " stages x " + std::to_string(division.replicas) +
         " replicas" + (division.zero ? " with ZeRO-1" : "");
}

/// The order among divisions that take equally long.
auto simplicity(const RankCandidate &candidate) {
  return std::tuple(candidate.division.zero, candidate.division.stages);
}

class RankSearch {
public:
  RankSearch(ModuleOp module, PlanChoices given, RankReport &report)
      : module(module), given(std::move(given)), report(report) {}

  FailureOr<StagePlan> run(const planner::RankLimits &limits) {
    auto read = readProblem(module, passName);
    if (failed(read))
      return failure();
    problem = std::move(*read);
    report = {limits, {}, 0};
    if (failed(listCandidates()))
      return failure();
    planAll();
    writeCluster(module, problem.cluster);
    if (!best)
      return noneFits();
    best->isChosen = true;
    report.boundNs = leastBound();
    writeCluster(module, clusterOf(best->division));
    writeStages(module, *plan);
    return std::move(*plan);
  }

private:
  planner::Cluster clusterOf(const planner::RankDivision &division) const {
    return planner::clusterOf(problem.cluster, division, report.limits.node);
  }

  LogicalResult listCandidates() {
    const planner::RankLimits &limits = report.limits;
    const auto layers = static_cast<int64_t>(problem.layers.size());
    problem.schedule = given.schedule == perStepSchedule ? "auto" : given.schedule;
    for (const planner::RankDivision &division : planner::rankDivisions(limits, layers))
      report.candidates.push_back(
          {division, planner::boundOf(problem, division, limits.node), {}, {}});
    if (report.candidates.empty())
      return module.emitError()
             << "--ranks: no division of " << limits.ranks << " ranks gives every replica equally "
             << "many of " << limits.groups << " micro-batches with at most " << layers
             << " stages (and what --stages, --data-parallel and --zero say); change --ranks or "
                "--groups";
    order(&RankCandidate::boundNs);
    return success();
  }

  template <typename T> void order(T RankCandidate::*key) {
    llvm::sort(report.candidates, [&](const RankCandidate &a, const RankCandidate &b) {
      return std::tuple(a.*key, simplicity(a)) < std::tuple(b.*key, simplicity(b));
    });
  }

  void planAll() {
    const bool isSearched = problem.schedule == "auto" && report.candidates.size() > 1;
    if (!isSearched) {
      for (RankCandidate &candidate : report.candidates)
        planOne(candidate, {given.schedule});
      return;
    }
    for (RankCandidate &candidate : report.candidates)
      planOne(candidate, {"1f1b", "zb-h1"});
    // Those without a plan last: another schedule may need less memory.
    llvm::sort(report.candidates, [](const RankCandidate &a, const RankCandidate &b) {
      return std::tuple(!a.stepNs, a.stepNs, a.boundNs, simplicity(a)) <
             std::tuple(!b.stepNs, b.stepNs, b.boundNs, simplicity(b));
    });
    best = nullptr;
    const double limitNs =
        farBehind * static_cast<double>(report.candidates.front().stepNs.value_or(0));
    for (RankCandidate &candidate : report.candidates) {
      if (candidate.stepNs && static_cast<double>(*candidate.stepNs) >= limitNs)
        candidate.ruledOut = "no schedule searched, as the best named one is far behind";
      else
        planOne(candidate, {given.schedule});
    }
  }

  /// Plans it with each of the schedules; the best plan counts.
  void planOne(RankCandidate &candidate, ArrayRef<std::string> schedules) {
    candidate = {candidate.division, candidate.boundNs, {}, {}};
    if (best && candidate.boundNs >= *best->stepNs) {
      candidate.ruledOut = "its bound is not below " + textOf(best->division);
      return;
    }
    PlanChoices choices = given;
    choices.microbatches = candidate.division.microbatches;
    if (report.candidates.size() > 1) {
      choices.work = workForOne;
      choices.seconds = secondsForOne;
    }
    writeCluster(module, clusterOf(candidate.division));
    std::string why;
    for (const std::string &schedule : schedules) {
      choices.schedule = schedule;
      if (std::optional<StagePlan> planned = planQuietly(choices, why))
        consider(candidate, std::move(*planned), schedule == given.schedule);
    }
    if (candidate.stepNs)
      return;
    candidate.isInfeasible = why.find(planner::noPlanInTime) == std::string::npos &&
                             why.find(planner::noPlanFound) == std::string::npos;
    candidate.ruledOut = std::move(why);
  }

  /// Returns a plan or says why there is none; the first reason stays.
  std::optional<StagePlan> planQuietly(const PlanChoices &choices, std::string &why) {
    ScopedDiagnosticHandler quiet(module.getContext(), [&](Diagnostic &diagnostic) {
      if (why.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
        why = diagnostic.str();
      return success();
    });
    FailureOr<StagePlan> planned = planStages(module, choices);
    return succeeded(planned) ? std::optional(std::move(*planned)) : std::nullopt;
  }

  void consider(RankCandidate &candidate, StagePlan planned, bool isAsGiven) {
    // The bound of a schedule is none of another's.
    if (planned.search && isAsGiven)
      candidate.boundNs = std::max(candidate.boundNs, planned.search->lowerBoundNs);
    if (candidate.stepNs && *candidate.stepNs <= planned.timeline.stepNs)
      return;
    candidate.stepNs = planned.timeline.stepNs;
    if (best && best != &candidate && !isBetter(candidate, *best))
      return;
    best = &candidate;
    plan = std::move(planned);
  }

  static bool isBetter(const RankCandidate &a, const RankCandidate &b) {
    return std::tuple(*a.stepNs, simplicity(a)) < std::tuple(*b.stepNs, simplicity(b));
  }

  int64_t leastBound() const {
    int64_t least = *best->stepNs;
    for (const RankCandidate &candidate : report.candidates)
      if (!candidate.isInfeasible)
        least = std::min(least, candidate.boundNs);
    return least;
  }

  LogicalResult noneFits() {
    InFlightDiagnostic error = module.emitError();
    error << "--ranks: no division of " << report.limits.ranks << " ranks has a plan";
    for (const RankCandidate &candidate : report.candidates)
      error << "\n  " << textOf(candidate.division) << ": " << candidate.ruledOut;
    return error;
  }

  ModuleOp module;
  PlanChoices given;
  RankReport &report;
  planner::Problem problem;
  RankCandidate *best = nullptr;
  std::optional<StagePlan> plan; ///< of the best
};

} // namespace

const RankCandidate &RankReport::chosen() const {
  return *llvm::find_if(candidates, [](const RankCandidate &each) { return each.isChosen; });
}

FailureOr<StagePlan> searchRanks(ModuleOp module, PlanChoices choices,
                                 const planner::RankLimits &limits, RankReport &report) {
  return RankSearch(module, std::move(choices), report).run(limits);
}

} // namespace omnibal::plan
