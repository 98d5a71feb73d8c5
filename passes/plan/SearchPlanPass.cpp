//===- SearchPlanPass.cpp - omnibal-search-plan, -search-ranks and -search-mode-plans ---------===//
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "mlir/Pass/PassManager.h"
#include "passes/common/ProblemAttributes.h"
#include "passes/cost/CostInputs.h"
#include "passes/cost/Passes.h"
#include "passes/plan/ModePlans.h"
#include "passes/plan/Passes.h"
#include "passes/plan/PlanRemarks.h"
#include "passes/plan/RankSearch.h"
#include "passes/plan/SearchPlan.h"
#include "passes/shard/search/Passes.h"
#include "runtime/program/Names.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_SEARCHPLAN
#define GEN_PASS_DEF_SEARCHRANKS
#define GEN_PASS_DEF_SEARCHMODEPLANS
#include "passes/plan/Passes.h.inc"

namespace {

/// Explains the only plan of a program with one training mode, and keeps it for who asked.
LogicalResult finish(ModuleOp module, FailureOr<plan::StagePlan> planned, plan::ModePlans *found) {
  if (failed(planned))
    return failure();
  plan::explainPlan(module, *planned);
  if (!found)
    return success();
  found->modes.clear();
  found->modes.push_back(std::move(*planned));
  return success();
}

struct SearchPlan : impl::SearchPlanBase<SearchPlan> {
  using SearchPlanBase::SearchPlanBase;
  SearchPlan(const SearchPlanOptions &options, std::shared_ptr<plan::ModePlans> found)
      : SearchPlanBase(options), found(std::move(found)) {}

  void runOnOperation() override {
    if (failed(search()))
      signalPassFailure();
  }

private:
  LogicalResult search() {
    plan::PlanChoices choices;
    choices.method = method;
    choices.remat = remat;
    choices.schedule = schedule;
    choices.microbatches = microbatches;
    choices.subMicrobatches = subMicrobatches;
    choices.planFile = plan;
    return finish(getOperation(), plan::searchStages(getOperation(), choices), found.get());
  }

  std::shared_ptr<plan::ModePlans> found;
};

struct SearchRanks : impl::SearchRanksBase<SearchRanks> {
  using SearchRanksBase::SearchRanksBase;
  SearchRanks(const SearchRanksOptions &options, std::shared_ptr<plan::ModePlans> found,
              std::shared_ptr<plan::RankRecord> record, std::shared_ptr<cost::CostReports> costs,
              std::shared_ptr<cost::InputFiles> files)
      : SearchRanksBase(options), found(std::move(found)), record(std::move(record)),
        costs(std::move(costs)), files(std::move(files)) {}

  void getDependentDialects(DialectRegistry &registry) const override {
    SearchRanksBase::getDependentDialects(registry);
    // Of the passes that divide stages.
    registry.insert<OmnibalDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect>();
  }

  LogicalResult initialize(MLIRContext *context) override {
    if (rt::Status status = readOptions(); !status)
      return emitError(UnknownLoc::get(context), status.message());
    return success();
  }

  void runOnOperation() override {
    if (failed(search()))
      signalPassFailure();
  }

private:
  rt::Status readOptions() {
    const std::string start = "omnibal-search-ranks: ";
    if (ranks < 1 || groups < 1 || stages < 0 || dataParallel < 0 || zero < -1 || zero > 1)
      return rt::invalid(start + "ranks and groups must be >= 1, stages and data-parallel >= 0, "
                                 "zero -1, 0 or 1");
    if (parts < 0 || parts > mostParts)
      return rt::invalid(start + "parts must be from 1 to " + std::to_string(mostParts) +
                         ", or 0 for whatever is best");
    if (parts != 1 && isStepPlanned() && dividesStages())
      return rt::invalid(start + "schedule per-step does not go together with parts that differ "
                                 "yet; let parts be 1, or layouts none");
    const std::optional<rt::RankOrder> order = rt::fromName<rt::RankOrder>(rankOrder.getValue());
    if (!order && !rankOrder.empty())
      return rt::invalid(start + "rank-order is " + rankOrder.getValue() +
                         "; it must be stage, replica or nothing, for whatever is best");
    auto given = [](int64_t value, int64_t searched) {
      return value == searched ? std::nullopt : std::optional(value);
    };
    limits = {ranks,
              groups,
              given(stages, 0),
              given(dataParallel, 0),
              given(zero, -1),
              /*node=*/std::nullopt,
              given(parts, 0),
              order};
    if (!cluster.empty()) {
      OMNIBAL_ASSIGN_OR_RETURN(planner::ClusterFile file, files->cluster(cluster));
      limits.node = file.node;
    }
    return parts == 1 ? rt::Status::ok() : checkCostInputs();
  }

  bool isStepPlanned() const { return schedule.getValue() == perStepSchedule; }
  bool dividesStages() const { return !layouts.empty() && layouts.getValue() != noLayouts; }

  /// Wrong files are no reason to divide ranks otherwise, so they are found before all else.
  rt::Status checkCostInputs() {
    cost::CostInputs inputs{"omnibal-search-ranks", target, compute, device, cluster, {}};
    inputs.calibration.assign(calibration.begin(), calibration.end());
    return cost::readCostOptions(inputs, *files).status();
  }

  LogicalResult search() {
    plan::PlanChoices choices;
    choices.method = method;
    choices.remat = remat;
    choices.schedule = schedule;
    choices.subMicrobatches = subMicrobatches;
    const plan::PartsPasses passes{
        [&](ModuleOp module, std::optional<double> price) { return addLayouts(module, price); },
        [&](ModuleOp module, cost::CostReports &reports) { return addCosts(module, reports); },
        /*mayFail=*/layouts.getValue() == searchedLayouts,
        /*arePriced=*/layouts.getValue() == searchedLayouts && layoutPrice < 0};
    auto planned = plan::searchRanks(getOperation(), choices, limits, passes, *record);
    if (costs && !record->costs.empty())
      *costs = record->costs;
    return finish(getOperation(), std::move(planned), found.get());
  }

  LogicalResult addLayouts(ModuleOp module, std::optional<double> price) {
    if (!dividesStages())
      return success();
    PassManager passes(&getContext());
    SearchLayoutsOptions options;
    options.tiles = tiles;
    options.tokens = tokens;
    options.target = target;
    options.compute = compute;
    options.device = device;
    options.cluster = cluster;
    options.price = price.value_or(layoutPrice);
    addLayoutPasses(passes, layouts, options, files);
    return passes.run(module);
  }

  LogicalResult addCosts(ModuleOp module, cost::CostReports &reports) {
    AnnotateCostsOptions options;
    options.tiles = tiles;
    options.tokens = tokens;
    options.target = target;
    options.compute = compute;
    options.device = device;
    options.cluster = cluster;
    options.calibration.assign(calibration.begin(), calibration.end());
    options.splitBackward = schedule == "zb-h1" || schedule == "auto" || isStepPlanned();
    options.timeModels = isStepPlanned();
    auto made = std::make_shared<cost::CostReports>();
    PassManager passes(&getContext());
    passes.addPass(createAnnotateCosts(options, made, files));
    if (failed(passes.run(module)))
      return failure();
    reports = std::move(*made);
    return success();
  }

  std::shared_ptr<plan::ModePlans> found;
  std::shared_ptr<plan::RankRecord> record = std::make_shared<plan::RankRecord>();
  std::shared_ptr<cost::CostReports> costs;
  std::shared_ptr<cost::InputFiles> files = std::make_shared<cost::InputFiles>();
  planner::RankLimits limits;
};

struct SearchModePlans : impl::SearchModePlansBase<SearchModePlans> {
  using SearchModePlansBase::SearchModePlansBase;
  SearchModePlans(const SearchModePlansOptions &options, std::shared_ptr<plan::ModePlans> found)
      : SearchModePlansBase(options), found(std::move(found)) {}

  void runOnOperation() override {
    FailureOr<plan::ModePlans> result = plan::searchModePlans(getOperation(), method, plan);
    if (failed(result))
      return signalPassFailure();
    if (found)
      *found = std::move(*result);
  }

private:
  std::shared_ptr<plan::ModePlans> found;
};

} // namespace

std::unique_ptr<Pass> createSearchModePlans(const SearchModePlansOptions &options,
                                            std::shared_ptr<plan::ModePlans> found) {
  return std::make_unique<SearchModePlans>(options, std::move(found));
}

std::unique_ptr<Pass> createSearchRanks(const SearchRanksOptions &options,
                                        std::shared_ptr<plan::ModePlans> found,
                                        std::shared_ptr<plan::RankRecord> record,
                                        std::shared_ptr<cost::CostReports> costs,
                                        std::shared_ptr<cost::InputFiles> files) {
  return std::make_unique<SearchRanks>(options, std::move(found), std::move(record),
                                       std::move(costs), std::move(files));
}

std::unique_ptr<Pass> createSearchPlan(const SearchPlanOptions &options,
                                       std::shared_ptr<plan::ModePlans> found) {
  return std::make_unique<SearchPlan>(options, std::move(found));
}

} // namespace omnibal
