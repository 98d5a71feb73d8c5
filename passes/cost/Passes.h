//===- Passes.h - What layers cost --------------------------------------------------===//
#ifndef PASSES_COST_PASSES_H
#define PASSES_COST_PASSES_H

#include "mlir/Pass/Pass.h"
#include <memory>
#include <string>
#include <vector>

namespace omnibal {
#define GEN_PASS_DECL
#include "passes/cost/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/cost/Passes.h.inc"

namespace cost {
struct CostReport;
using CostReports = std::vector<CostReport>;
class InputFiles;
} // namespace cost
/// The same pass, which also leaves in `reports`, by training mode, what stands in no attribute,
/// and reads `files`, which other passes of its pipeline share.
std::unique_ptr<mlir::Pass> createAnnotateCosts(const AnnotateCostsOptions &options,
                                                std::shared_ptr<cost::CostReports> reports,
                                                std::shared_ptr<cost::InputFiles> files);
} // namespace omnibal

#endif // PASSES_COST_PASSES_H
