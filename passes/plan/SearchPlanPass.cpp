//===- SearchPlanPass.cpp - omnibal-search-plan, -search-ranks and -search-mode-plans ---------===//
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "passes/common/ProblemAttributes.h"
#include "passes/cost/InputFiles.h"
#include "passes/plan/ModePlans.h"
#include "passes/plan/Passes.h"
#include "passes/plan/PlanRemarks.h"
#include "passes/plan/RankSearch.h"
#include "passes/plan/SearchPlan.h"

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
              std::shared_ptr<plan::RankReport> report, std::shared_ptr<cost::InputFiles> files)
      : SearchRanksBase(options), found(std::move(found)), report(std::move(report)),
        files(std::move(files)) {}

  LogicalResult initialize(MLIRContext *context) override {
    limits = {ranks, groups, {}, {}, {}, {}};
    if (ranks < 1 || groups < 1 || stages < 0 || dataParallel < 0 || zero < -1 || zero > 1)
      return emitError(UnknownLoc::get(context))
             << "omnibal-search-ranks: ranks and groups must be >= 1, stages and data-parallel "
                ">= 0, zero -1, 0 or 1";
    if (stages > 0)
      limits.stages = stages;
    if (dataParallel > 0)
      limits.replicas = dataParallel;
    if (zero >= 0)
      limits.zero = zero;
    if (cluster.empty())
      return success();
    rt::Result<planner::ClusterFile> file = files->cluster(cluster);
    if (!file)
      return emitError(UnknownLoc::get(context)) << file.status().message();
    limits.node = file->node;
    return success();
  }

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
    choices.subMicrobatches = subMicrobatches;
    return finish(getOperation(), plan::searchRanks(getOperation(), choices, limits, *report),
                  found.get());
  }

  std::shared_ptr<plan::ModePlans> found;
  std::shared_ptr<plan::RankReport> report = std::make_shared<plan::RankReport>();
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
                                        std::shared_ptr<plan::RankReport> report,
                                        std::shared_ptr<cost::InputFiles> files) {
  return std::make_unique<SearchRanks>(options, std::move(found), std::move(report),
                                       std::move(files));
}

std::unique_ptr<Pass> createSearchPlan(const SearchPlanOptions &options,
                                       std::shared_ptr<plan::ModePlans> found) {
  return std::make_unique<SearchPlan>(options, std::move(found));
}

} // namespace omnibal
