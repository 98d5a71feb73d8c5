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
#include "runtime/planner/model/PlanChoice.h"
#include "runtime/planner/search/ranks/RankCandidates.h"
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

namespace omnibal::plan {

/// What is done to a module in form L whose `omnibal.cluster` says how many parts a stage has.
struct PartsPasses {
  /// `price`: of memory, where it is not the one that the passes have anyway.
  std::function<llvm::LogicalResult(mlir::ModuleOp, std::optional<double> price)> addLayouts;
  std::function<llvm::LogicalResult(mlir::ModuleOp, cost::CostReports &)> addCosts;
  /// A search may find layouts that do not serve; what a person wrote has to.
  bool mayFail = true;
  /// Whether layouts depend on a price that nobody gave.
  bool arePriced = false;
};

/// The prices at which a search divides all that can be divided, and at which only time counts.
inline constexpr double priceOfAll = 1, priceOfTime = 0;

/// Returns prices between the usual one and `priceOfTime`, falling, each of one digit, so that a
/// person can give them. Layouts stay the same over wide ranges of prices: a few in a geometric
/// row meet most of those that there are. `timed`: the model's costs at `priceOfTime`.
std::vector<double> pricesBetween(const planner::Problem &timed);

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

  /// What a division is planned on, with layouts at this price.
  PartCopy &of(const planner::RankDivision &division, std::optional<double> price = std::nullopt);

  /// The costs of all copies that were asked for.
  std::vector<planner::PartsCosts> allCosts() const;

private:
  std::shared_ptr<PartCopy> make(const planner::RankDivision &division,
                                 std::optional<double> price);
  llvm::LogicalResult addLayouts(PartCopy &copy, const planner::RankDivision &division,
                                 std::optional<double> price);
  llvm::LogicalResult addCosts(PartCopy &copy, int64_t parts);
  std::shared_ptr<PartCopy> findEqual(const PartCopy &copy, int64_t parts) const;

  mlir::ModuleOp module;
  const PartsPasses &passes;
  planner::Cluster cluster; ///< of all ranks, undivided
  std::optional<planner::Node> node;
  /// By the number of parts, the price, and the number of replicas that divide the optimizer's
  /// state, which the search of layouts asks for unless memory costs nothing. Equal layouts are one
  /// copy.
  using Key = std::tuple<int64_t, std::optional<double>, int64_t>;
  std::map<Key, std::shared_ptr<PartCopy>> copies;
};

} // namespace omnibal::plan
#endif // PASSES_PLAN_PARTCOPIES_H
