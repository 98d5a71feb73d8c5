//===- ProblemAttributes.h - Between attributes and the planner's structs -------------------===//
#ifndef PASSES_COMMON_PROBLEMATTRIBUTES_H
#define PASSES_COMMON_PROBLEMATTRIBUTES_H

#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/planner/model/Plan.h"
#include "runtime/planner/model/Problem.h"

namespace omnibal::plan {

/// On the module, dense arrays by stage: what the program that was laid out needs.
inline constexpr llvm::StringLiteral arenaAttrName = "omnibal.arena";
inline constexpr llvm::StringLiteral workspaceAttrName = "omnibal.workspace"; ///< beside the arena

/// Which ranks are neighbors, in the runtime's words.
rt::RankOrder rankOrderOf(ClusterAttr cluster);
/// The ranks as `omnibal.cluster` of the module.
void writeCluster(mlir::ModuleOp module, const planner::Cluster &cluster);
/// Reads them back. Reports in the name of `pass` where there is no such attribute.
llvm::FailureOr<planner::Cluster> readCluster(mlir::ModuleOp module, llvm::StringRef pass);
/// Writes the factors of each micro-batch as `omnibal.loads`; without factors the attribute is
/// removed.
void writeLoads(mlir::ModuleOp module, const std::vector<planner::LoadFactors> &loads);

/// Reads layers, options, edges, cluster and loads of a module in form L with costs
/// (omnibal-annotate-costs). A parameter that several layers use counts with the first of them.
/// Micro-batches and schedule are left to the caller, who knows them from an option or a plan. What
/// is missing is reported where it is missing, in the name of `pass`.
llvm::FailureOr<planner::Problem> readProblem(mlir::ModuleOp module, llvm::StringRef pass);

/// Writes decisions as `omnibal.chunk` and `omnibal.remat` on layers and `omnibal.plan` on the
/// module.
void writePlan(mlir::ModuleOp module, const planner::Problem &problem, const planner::Plan &plan);
/// Reads the plan back from the attributes. Reports layers without them, and chunks that do not
/// hold consecutive layers.
llvm::FailureOr<planner::Plan> readPlan(mlir::ModuleOp module, llvm::StringRef pass);

} // namespace omnibal::plan
#endif // PASSES_COMMON_PROBLEMATTRIBUTES_H
