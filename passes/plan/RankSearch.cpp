#include "passes/plan/RankSearch.h"
#include "dialects/omnibal/analysis/LayerGraph.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "passes/common/ProblemAttributes.h"
#include "runtime/planner/search/Search.h"
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

using namespace mlir;

namespace omnibal::plan {
namespace {

constexpr llvm::StringLiteral passName = "omnibal-search-ranks";
/// Of a search for one division of several: about two seconds, but the same on every machine, and
/// seconds only against a machine that does next to nothing.
constexpr int64_t workForOne = int64_t{1} << 29;
constexpr double secondsForOne = 120;
/// Of the best step over a bound, from which on more layouts are tried.
constexpr double leastGain = 1.001;

std::string textOf(const planner::RankDivision &division) {
  const std::string parts =
      division.parts > 1 ? std::to_string(division.parts) + " parts x " : std::string();
  return parts + std::to_string(division.stages) + " stages x " +
         std::to_string(division.replicas) + " replicas" + (division.zero ? " with ZeRO-1" : "") +
         (division.rankOrder == rt::RankOrder::Replica ? ", replicas as neighbors" : "");
}

/// The order among divisions that take equally long.
auto simplicity(const planner::RankDivision &division) {
  return std::tuple(division.parts, division.zero, division.stages, division.rankOrder);
}
using Simplicity = decltype(simplicity(planner::RankDivision()));
auto simplicity(const RankCandidate &candidate) {
  return std::tuple_cat(simplicity(candidate.division), std::tuple(candidate.layoutPrice));
}

class RankSearch {
public:
  RankSearch(ModuleOp module, PlanChoices given, const PartsPasses &passes, RankReport &report)
      : module(module), given(std::move(given)), passes(passes), report(report) {}

  FailureOr<StagePlan> run(const planner::RankLimits &limits) {
    auto cluster = readCluster(module, passName);
    if (failed(cluster))
      return failure();
    report = {limits, {}, 0, {}};
    copies.emplace(module, passes, std::move(*cluster), limits.node);
    if (failed(listCandidates()))
      return failure();
    planAll();
    const bool isFound = best != nullptr;
    if (isFound)
      best->isChosen = true;
    keepBestLayouts();
    if (!isFound)
      return noneFits();
    report.boundNs = leastBound();
    takeOver(report.chosen());
    return std::move(*plan);
  }

private:
  LogicalResult listCandidates() {
    auto graph = LayerGraph::get(module, passName);
    if (failed(graph))
      return failure();
    const auto layers = static_cast<int64_t>(graph->layers.size());
    for (const planner::RankDivision &division : planner::rankDivisions(report.limits, layers))
      if (failed(addCandidate(division)))
        return failure();
    isOneDivision = report.candidates.size() == 1;
    addFastestLayouts();
    if (report.candidates.empty())
      return noDivision(layers);
    if (llvm::all_of(report.candidates, [](const auto &each) { return each.isRefused; }))
      return refuse(report.candidates.front().division);
    order(&RankCandidate::boundNs);
    return success();
  }

  LogicalResult addCandidate(const planner::RankDivision &division) {
    PartCopy &copy = copies->of(division);
    RankCandidate &candidate = report.candidates.emplace_back();
    candidate.division = division;
    if (!copy.module) {
      candidate.isRefused = true;
      candidate.boundNs = std::numeric_limits<int64_t>::max(); // behind all that have one
      candidate.ruledOut = whyRefused(copy);
      return division.parts == 1 || !passes.mayFail ? refuse(division) : success();
    }
    candidate.boundNs = boundOf(candidate);
    return success();
  }

  /// At the usual price layouts give time for memory, which not every division is short of.
  void addFastestLayouts() {
    std::vector<RankCandidate> faster;
    for (const RankCandidate &usual : report.candidates) {
      if (!passes.arePriced || usual.division.parts == 1 || usual.isRefused)
        continue;
      PartCopy &copy = copies->of(usual.division, priceOfTime);
      if (!copy.module || &copy == &copyOf(usual))
        continue;
      RankCandidate &candidate = faster.emplace_back(usual);
      candidate.layoutPrice = priceOfTime;
      candidate.boundNs = boundOf(candidate);
    }
    llvm::append_range(report.candidates, faster);
  }

  int64_t boundOf(const RankCandidate &candidate) {
    planner::Problem problem = copyOf(candidate).problem;
    problem.schedule = given.schedule == perStepSchedule ? "auto" : given.schedule;
    return planner::boundOf(problem, candidate.division, report.limits.node);
  }

  /// Of several layouts of one division, leaves those whose plan is best. `isUndecided`: those
  /// without a plan stay, too.
  void keepBestLayouts(bool isUndecided = false) {
    std::map<Simplicity, const RankCandidate *> kept;
    auto rank = [](const RankCandidate &each) {
      const bool isPlanned = each.stepNs || each.isInfeasible; // its bound says nothing more
      return std::tuple(!each.stepNs, each.stepNs, each.isInfeasible, isPlanned ? 0 : each.boundNs,
                        each.layoutPrice);
    };
    for (const RankCandidate &each : report.candidates) {
      const RankCandidate *&first = kept[simplicity(each.division)];
      if (!first || rank(each) < rank(*first))
        first = &each;
    }
    std::vector<RankCandidate> left;
    for (RankCandidate &each : report.candidates)
      if (kept.at(simplicity(each.division)) == &each || (isUndecided && !each.stepNs))
        left.push_back(each);
      else if (!each.isInfeasible)
        boundOfDropped = std::min(boundOfDropped, each.boundNs);
    report.candidates = std::move(left);
  }

  static std::string whyRefused(const PartCopy &copy) {
    for (const Diagnostic &each : copy.said)
      if (each.getSeverity() == DiagnosticSeverity::Error)
        return each.str();
    return "its layouts or costs cannot be found";
  }

  LogicalResult refuse(const planner::RankDivision &division) {
    copies->of(division).emitSaid(module.getContext());
    return failure();
  }

  LogicalResult noDivision(int64_t layers) {
    const planner::RankLimits &limits = report.limits;
    if (limits.parts && limits.ranks % *limits.parts != 0)
      return module.emitError() << "--ranks: stages of " << *limits.parts
                                << " parts cannot be made of " << limits.ranks
                                << " ranks; let --model-parallel be a divisor of " << limits.ranks
                                << ", or auto";
    return module.emitError()
           << "--ranks: no division of " << limits.ranks << " ranks gives every replica equally "
           << "many of " << limits.groups << " micro-batches with at most " << layers
           << " stages (and what --model-parallel, --stages, --data-parallel and --zero say); "
              "change --ranks or --groups";
  }

  /// The module becomes the copy, with its plan.
  void takeOver(const RankCandidate &chosen) {
    PartCopy &copy = copyOf(chosen);
    writeCluster(*copy.module, clusterOf(chosen.division));
    writeStages(*copy.module, *plan);
    module.getBodyRegion().takeBody(copy.module->getBodyRegion());
    module->setDiscardableAttrs(copy.module.get()->getDiscardableAttrDictionary());
    copy.emitSaid(module.getContext());
    report.costs = std::move(copy.costs);
  }

  PartCopy &copyOf(const RankCandidate &candidate) {
    return copies->of(candidate.division, candidate.layoutPrice);
  }
  planner::Cluster clusterOf(const planner::RankDivision &division) {
    return planner::clusterOf(copies->of(division).problem.cluster, division, report.limits.node);
  }

  template <typename T> void order(T RankCandidate::*key) {
    llvm::sort(report.candidates, [&](const RankCandidate &a, const RankCandidate &b) {
      return std::tuple(a.*key, simplicity(a)) < std::tuple(b.*key, simplicity(b));
    });
  }

  void planAll() {
    const bool isSearched =
        (given.schedule == "auto" || given.schedule == perStepSchedule) && !isOneDivision;
    if (!isSearched) {
      planWithEach({given.schedule});
      return;
    }
    planWithEach({"1f1b", "zb-h1"});
    keepBestLayouts(/*isUndecided=*/true);
    // Those without a plan last: another schedule may need less memory.
    llvm::sort(report.candidates, [](const RankCandidate &a, const RankCandidate &b) {
      return std::tuple(!a.stepNs, a.stepNs, a.boundNs, simplicity(a)) <
             std::tuple(!b.stepNs, b.stepNs, b.boundNs, simplicity(b));
    });
    best = nullptr;
    const int64_t leastNs = report.candidates.front().stepNs.value_or(0);
    int searched = 0;
    for (RankCandidate &candidate : report.candidates) {
      if (candidate.stepNs && isFarBehind(candidate, leastNs)) {
        candidate.ruledOut = "no schedule searched, as the best named one is far behind";
      } else if (candidate.stepNs && searched >= mostSearched) {
        candidate.ruledOut = "no schedule searched, as others are ahead";
      } else {
        searched += candidate.stepNs.has_value();
        planOne(candidate, {given.schedule});
      }
    }
  }

  void planWithEach(const std::vector<std::string> &schedules) {
    for (RankCandidate &candidate : report.candidates)
      planOne(candidate, schedules);
    if (best)
      for (const planner::RankDivision &division : nearlyBest())
        if (mayGain(division, schedules))
          planBetween(division, schedules);
  }

  /// Divisions with parts whose layouts differ by price, those of the least steps first.
  std::vector<planner::RankDivision> nearlyBest() {
    std::vector<const RankCandidate *> near;
    std::set<Simplicity> listed;
    for (const RankCandidate &each : report.candidates)
      if (each.stepNs && each.division.parts > 1 && !isFarBehind(each, *best->stepNs))
        near.push_back(&each);
    llvm::sort(near,
               [](const RankCandidate *a, const RankCandidate *b) { return isBetter(*a, *b); });
    std::vector<planner::RankDivision> divisions;
    for (const RankCandidate *each : near)
      if (divisions.size() < mostSearched && listed.insert(simplicity(each->division)).second)
        divisions.push_back(each->division);
    return divisions;
  }

  /// Whether a plan that is better than the best one by far enough could be found if memory had no
  /// limit and only time counted in layouts.
  bool mayGain(const planner::RankDivision &division, const std::vector<std::string> &schedules) {
    if (!passes.arePriced || !copies->of(division, priceOfTime).module)
      return false;
    const planner::Problem &timed = copies->of(division, priceOfTime).problem;
    auto isAhead = [&](int64_t boundNs) {
      return static_cast<double>(*best->stepNs) >= leastGain * static_cast<double>(boundNs);
    };
    return isAhead(planner::boundOf(timed, division, report.limits.node)) &&
           isAhead(planner::unlimitedBoundOf(timed, division, report.limits.node, schedules,
                                             workForOne));
  }

  void planBetween(const planner::RankDivision &division,
                   const std::vector<std::string> &schedules) {
    const PartCopy &timed = copies->of(division, priceOfTime);
    std::vector<const PartCopy *> tried = {&timed, &copies->of(division)};
    for (double price : pricesBetween(timed.problem)) {
      const PartCopy &copy = copies->of(division, price);
      if (!copy.module || llvm::is_contained(tried, &copy))
        continue;
      tried.push_back(&copy);
      RankCandidate &candidate = append(division);
      candidate.layoutPrice = price;
      candidate.boundNs = boundOf(candidate);
      planOne(candidate, schedules);
    }
  }

  /// The best one may move in memory.
  RankCandidate &append(const planner::RankDivision &division) {
    const auto place = best - report.candidates.data();
    report.candidates.emplace_back().division = division;
    best = &report.candidates[place];
    return report.candidates.back();
  }

  static bool isFarBehind(const RankCandidate &candidate, int64_t leastNs) {
    return static_cast<double>(*candidate.stepNs) >= farBehind * static_cast<double>(leastNs);
  }

  /// Plans it with each of the schedules; the best plan counts.
  void planOne(RankCandidate &candidate, ArrayRef<std::string> schedules) {
    if (candidate.isRefused)
      return;
    candidate = {candidate.division,   candidate.boundNs, {}, {}, false, false, false,
                 candidate.layoutPrice};
    if (best && candidate.boundNs >= *best->stepNs) {
      candidate.ruledOut = "its bound is not below " + textOf(best->division);
      return;
    }
    planCopy(candidate, schedules);
    if (candidate.isInfeasible && passes.arePriced && candidate.division.parts > 1 &&
        !candidate.layoutPrice)
      divideAll(candidate, schedules);
  }

  /// Layouts that leave least in memory, where the others leave too much.
  void divideAll(RankCandidate &candidate, ArrayRef<std::string> schedules) {
    if (!copies->of(candidate.division, priceOfAll).module)
      return;
    RankCandidate again = candidate;
    again.layoutPrice = priceOfAll;
    again.boundNs = boundOf(again);
    again.isInfeasible = false;
    again.ruledOut.clear();
    const RankCandidate before = std::exchange(candidate, std::move(again));
    if (!best || candidate.boundNs < *best->stepNs)
      planCopy(candidate, schedules);
    else
      candidate.ruledOut = "its bound is not below " + textOf(best->division);
    if (candidate.isInfeasible)
      candidate = before; // whose reason is that of what was asked for
  }

  void planCopy(RankCandidate &candidate, ArrayRef<std::string> schedules) {
    PlanChoices choices = given;
    choices.microbatches = candidate.division.microbatches;
    if (!isOneDivision) {
      choices.work = workForOne;
      choices.seconds = secondsForOne;
    }
    ModuleOp copy = *copyOf(candidate).module;
    writeCluster(copy, clusterOf(candidate.division));
    std::string why;
    for (const std::string &schedule : schedules) {
      choices.schedule = schedule;
      if (std::optional<StagePlan> planned = planQuietly(copy, choices, why))
        consider(candidate, std::move(*planned), schedule == given.schedule);
    }
    if (candidate.stepNs)
      return;
    candidate.isInfeasible = why.find(planner::noPlanInTime) == std::string::npos &&
                             why.find(planner::noPlanFound) == std::string::npos;
    candidate.ruledOut = std::move(why);
  }

  /// Returns a plan or says why there is none; the first reason stays.
  static std::optional<StagePlan> planQuietly(ModuleOp copy, const PlanChoices &choices,
                                              std::string &why) {
    ScopedDiagnosticHandler quiet(copy.getContext(), [&](Diagnostic &diagnostic) {
      if (why.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
        why = diagnostic.str();
      return success();
    });
    FailureOr<StagePlan> planned = planStages(copy, choices);
    std::optional<StagePlan> found;
    if (succeeded(planned))
      found.emplace(std::move(*planned));
    return found;
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
    int64_t least = std::min(*report.chosen().stepNs, boundOfDropped);
    for (const RankCandidate &candidate : report.candidates)
      if (!candidate.isInfeasible && !candidate.isRefused)
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
  const PartsPasses &passes;
  RankReport &report;
  std::optional<PartCopies> copies;
  bool isOneDivision = false;    ///< which is planned as if it had been asked for
  RankCandidate *best = nullptr; ///< until layouts are dropped
  std::optional<StagePlan> plan; ///< of the best
  int64_t boundOfDropped = std::numeric_limits<int64_t>::max();
};

} // namespace

const RankCandidate &RankReport::chosen() const {
  return *llvm::find_if(candidates, [](const RankCandidate &each) { return each.isChosen; });
}

FailureOr<StagePlan> searchRanks(ModuleOp module, PlanChoices choices,
                                 const planner::RankLimits &limits, const PartsPasses &passes,
                                 RankReport &report) {
  return RankSearch(module, std::move(choices), passes, report).run(limits);
}

} // namespace omnibal::plan
