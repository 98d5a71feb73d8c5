//===- Passes.h - Cutting layers into stages ---------------------------------------------===//
#ifndef PASSES_PLAN_PASSES_H
#define PASSES_PLAN_PASSES_H

#include "mlir/Pass/Pass.h"
#include <memory>
#include <string>
#include <vector>

namespace omnibal {
#define GEN_PASS_DECL
#include "passes/plan/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/plan/Passes.h.inc"

namespace cost {
struct CostReport;
using CostReports = std::vector<CostReport>;
class InputFiles;
} // namespace cost
namespace plan {
struct LengthGroupReport;
struct ModePlans;
struct RankRecord;
} // namespace plan
/// The same pass, which reads `files`, which other passes of its pipeline share.
std::unique_ptr<mlir::Pass> createAttachCluster(const AttachClusterOptions &options,
                                                std::shared_ptr<cost::InputFiles> files);
/// The same pass, which also leaves what people want to know in `report`, and reads `files`, which
/// other passes of its pipeline share.
std::unique_ptr<mlir::Pass>
createSearchLengthGroups(const SearchLengthGroupsOptions &options,
                         std::shared_ptr<plan::LengthGroupReport> report,
                         std::shared_ptr<cost::InputFiles> files);
/// The same passes, which also leave in `found` what the plan, or each mode's, is predicted to do.
std::unique_ptr<mlir::Pass> createSearchPlan(const SearchPlanOptions &options,
                                             std::shared_ptr<plan::ModePlans> found);
std::unique_ptr<mlir::Pass> createSearchModePlans(const SearchModePlansOptions &options,
                                                  std::shared_ptr<plan::ModePlans> found);
/// The same pass, which also leaves in `report` what became of each division of the ranks, and in
/// `costs` what omnibal-annotate-costs would, where stages have parts.
std::unique_ptr<mlir::Pass> createSearchRanks(const SearchRanksOptions &options,
                                              std::shared_ptr<plan::ModePlans> found,
                                              std::shared_ptr<plan::RankRecord> record,
                                              std::shared_ptr<cost::CostReports> costs,
                                              std::shared_ptr<cost::InputFiles> files);
} // namespace omnibal

#endif // PASSES_PLAN_PASSES_H
