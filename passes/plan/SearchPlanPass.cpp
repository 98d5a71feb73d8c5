//===- SearchPlanPass.cpp - omnibal-search-plan and omnibal-search-mode-plans -----------------===//
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "passes/common/ProblemAttributes.h"
#include "passes/plan/ModePlans.h"
#include "passes/plan/Passes.h"
#include "passes/plan/PlanRemarks.h"
#include "passes/plan/SearchPlan.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_SEARCHPLAN
#define GEN_PASS_DEF_SEARCHMODEPLANS
#include "passes/plan/Passes.h.inc"

namespace {

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
    FailureOr<plan::StagePlan> result = plan::searchStages(getOperation(), choices);
    if (failed(result))
      return failure();
    plan::explainPlan(getOperation(), *result);
    if (found) {
      found->modes.clear();
      found->modes.push_back(std::move(*result));
    }
    return success();
  }

  std::shared_ptr<plan::ModePlans> found;
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

std::unique_ptr<Pass> createSearchPlan(const SearchPlanOptions &options,
                                       std::shared_ptr<plan::ModePlans> found) {
  return std::make_unique<SearchPlan>(options, std::move(found));
}

} // namespace omnibal
