//===- PartCopies.h - The model as parts run it, for any number of them
//------------------------===//
//
// How many ranks run a stage together decides what each of them does, and so the costs that a plan
// is made from. Each such model is a copy, so that the module stays as it is until one is chosen.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_PLAN_PARTCOPIES_H
#define PASSES_PLAN_PARTCOPIES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/cost/LayerCosts.h"
#include "runtime/planner/search/RankCandidates.h"
#include <functional>
#include <map>
#include <memory>

namespace omnibal::plan {

/// What is done to a module in form L whose `omnibal.cluster` says how many parts a stage has.
struct PartsPasses {
  std::function<llvm::LogicalResult(mlir::ModuleOp)> addLayouts;
  std::function<llvm::LogicalResult(mlir::ModuleOp, cost::CostReports &)> addCosts;
  /// A search may find layouts that do not serve; what a person wrote has to.
  bool mayFail = true;
};

/// All that ops in a module have: modules that differ in nothing else are equal if these are.
std::vector<mlir::Attribute> attributesIn(mlir::ModuleOp module);

struct PartCopy {
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< null: parts cannot run the model
  planner::Problem problem;                 ///< of all ranks, undivided
  cost::CostReports costs;                  ///< empty: the costs are those of the module itself
  std::vector<mlir::Diagnostic> said;       ///< warnings, and why there is no copy
  std::vector<mlir::Attribute> layouts;     ///< with all else that ops had before costs

  /// Says it aloud.
  void emitSaid(mlir::MLIRContext *context);
};

/// Copies are made when first asked for. One part runs the module as it is, with its costs.
class PartCopies {
public:
  PartCopies(mlir::ModuleOp module, const PartsPasses &passes, planner::Cluster cluster,
             std::optional<planner::Node> node)
      : module(module), passes(passes), cluster(std::move(cluster)), node(node) {}

  /// What a division is planned on.
  PartCopy &of(const planner::RankDivision &division);

private:
  std::shared_ptr<PartCopy> make(const planner::RankDivision &division);
  llvm::LogicalResult addLayouts(PartCopy &copy, const planner::RankDivision &division);
  llvm::LogicalResult addCosts(PartCopy &copy, int64_t parts);
  std::shared_ptr<PartCopy> findEqual(const PartCopy &copy, int64_t parts) const;

  mlir::ModuleOp module;
  const PartsPasses &passes;
  planner::Cluster cluster; ///< of all ranks, undivided
  std::optional<planner::Node> node;
  /// By the number of parts and of replicas that divide the optimizer's state, which the search of
  /// layouts asks for. Equal layouts are one copy.
  std::map<std::pair<int64_t, int64_t>, std::shared_ptr<PartCopy>> copies;
};

} // namespace omnibal::plan
#endif // PASSES_PLAN_PARTCOPIES_H
