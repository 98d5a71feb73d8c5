#include "passes/plan/RankSearch.h"
#include "dialects/omnibal/analysis/LayerGraph.h"
#include "passes/common/ProblemAttributes.h"
#include <utility>

using namespace mlir;

namespace omnibal::plan {
namespace {

constexpr llvm::StringLiteral passName = "omnibal-search-ranks";

class ModulePlanner : public planner::DivisionPlanner {
public:
  ModulePlanner(PlanChoices given, const PartsPasses &passes, PartCopies &copies,
                const std::optional<planner::Node> &node)
      : given(std::move(given)), passes(passes), copies(copies), node(node) {}

  const planner::Problem *costsOf(const planner::RankDivision &division,
                                  std::optional<double> price) override {
    const PartCopy &copy = copies.of(division, price);
    return copy.module ? &copy.problem : nullptr;
  }

  std::string whyRefused(const planner::RankDivision &division) override {
    for (const Diagnostic &each : copies.of(division).said)
      if (each.getSeverity() == DiagnosticSeverity::Error)
        return each.str();
    return "its layouts or costs cannot be found";
  }

  bool mustServe(const planner::RankDivision &division) override {
    return division.parts == 1 || !passes.mayFail;
  }

  /// At the usual price layouts give time for memory, which not every division is short of.
  std::vector<double> otherPrices(const planner::RankDivision &division) override {
    return passes.arePriced && division.parts > 1 ? std::vector{priceOfTime}
                                                  : std::vector<double>();
  }
  std::optional<double> leastMemory(const planner::RankDivision &division) override {
    return passes.arePriced && division.parts > 1 ? std::optional(priceOfAll) : std::nullopt;
  }

  /// None where no plan could gain if memory had no limit and only time counted in layouts.
  std::vector<double> pricesBetween(const planner::RankDivision &division,
                                    const std::vector<std::string> &schedules,
                                    int64_t bestNs) override {
    const planner::Problem *timed = passes.arePriced ? costsOf(division, priceOfTime) : nullptr;
    if (!timed)
      return {};
    auto isAhead = [&](int64_t boundNs) {
      return static_cast<double>(bestNs) >= planner::leastGain * static_cast<double>(boundNs);
    };
    const bool mayGain =
        isAhead(planner::boundOf(*timed, division, node)) &&
        isAhead(planner::unlimitedBoundOf(*timed, division, node, schedules, planner::workForOne));
    return mayGain ? plan::pricesBetween(*timed) : std::vector<double>();
  }

  std::optional<planner::DivisionStep> plan(const planner::RankCandidate &candidate,
                                            const std::string &schedule,
                                            planner::SearchPurpose purpose,
                                            std::string &why) override {
    PlanChoices choices = given;
    choices.schedule = schedule;
    choices.ranked = candidate.ranked;
    choices.microbatches = candidate.division.microbatches;
    choices.searching = planner::optionsFor(purpose, given.searching);
    // The first reason stays, and where another schedule has a plan nobody asks.
    choices.searching.explains = !candidate.stepNs && why.empty();
    PartCopy &copy = copies.of(candidate.division, candidate.layoutPrice);
    writeCluster(*copy.module, planner::clusterOf(copy.problem.cluster, candidate.division, node));
    last = planQuietly(*copy.module, choices, why);
    if (!last)
      return std::nullopt;
    return planner::DivisionStep{last->timeline.stepNs,
                                 last->search ? std::optional(last->search->lowerBoundNs)
                                              : std::nullopt};
  }
  void keepPlan() override { best = std::move(last); }

  std::optional<StagePlan> best;

private:
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

  PlanChoices given;
  const PartsPasses &passes;
  PartCopies &copies;
  const std::optional<planner::Node> &node;
  std::optional<StagePlan> last;
};

LogicalResult noDivision(ModuleOp module, const planner::RankLimits &limits, size_t layers) {
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

/// The module becomes the copy that the chosen division was planned on, with its plan.
void takeOver(ModuleOp module, PartCopies &copies, const StagePlan &plan, RankRecord &record) {
  const planner::RankCandidate &chosen = record.report.chosen();
  PartCopy &copy = copies.of(chosen.division, chosen.layoutPrice);
  writeCluster(*copy.module, planner::clusterOf(copy.problem.cluster, chosen.division,
                                                record.report.limits.node));
  writeStages(*copy.module, plan);
  module.getBodyRegion().takeBody(copy.module->getBodyRegion());
  module->setDiscardableAttrs(copy.module.get()->getDiscardableAttrDictionary());
  copy.emitSaid(module.getContext());
  record.costs = std::move(copy.costs);
}

} // namespace

FailureOr<StagePlan> searchRanks(ModuleOp module, PlanChoices choices,
                                 const planner::RankLimits &limits, const PartsPasses &passes,
                                 RankRecord &record) {
  auto cluster = readCluster(module, passName);
  auto graph = LayerGraph::get(module, passName);
  if (failed(cluster) || failed(graph))
    return failure();
  record = {};
  const std::string schedule = choices.schedule;
  PartCopies copies(module, passes, *cluster, limits.node);
  ModulePlanner planner(std::move(choices), passes, copies, limits.node);
  const planner::DivisionSearchEnd end = planner::searchDivisions(
      limits, static_cast<int64_t>(graph->layers.size()), schedule, planner, record.report);
  record.choice = {limits, std::move(*cluster), schedule == perStepSchedule ? "auto" : schedule,
                   copies.allCosts()};
  switch (end) {
  case planner::DivisionSearchEnd::Chosen:
    takeOver(module, copies, *planner.best, record);
    return std::move(*planner.best);
  case planner::DivisionSearchEnd::NoDivision:
    return noDivision(module, limits, graph->layers.size());
  case planner::DivisionSearchEnd::Refused:
    copies.of(record.report.candidates.front().division).emitSaid(module.getContext());
    return failure();
  case planner::DivisionSearchEnd::NoneFits:
    return module.emitError() << "--ranks: " << planner::noneFits(record.report);
  }
  llvm_unreachable("a search ends in one of these ways");
}

} // namespace omnibal::plan
