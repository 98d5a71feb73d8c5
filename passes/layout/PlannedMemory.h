//===- PlannedMemory.h - The memory of every stage under a plan, from attributes ----------===//
//
// Rule 6 of docs/planner.md counts parameters, saved values and the largest workspace. A stage's
// arena also holds what comes and goes: receive and send buffers, values of the micro-batch,
// losses, constants, second copies of tied parameters, gaps. Here a plan is laid out as its program
// will be, from the bytes in `omnibal.buffers`.
//
//===----------------------------------------------------------------------------------------===//
#ifndef PASSES_LAYOUT_PLANNEDMEMORY_H
#define PASSES_LAYOUT_PLANNEDMEMORY_H

#include "dialects/omnibal/analysis/LayerGraph.h"
#include "passes/layout/MemoryGraph.h"
#include "runtime/planner/model/Plan.h"
#include "runtime/program/Workspace.h"

namespace omnibal::layout {

struct StageMemory {
  int64_t arenaBytes = 0;                   ///< as Stage::arenaBytes will be
  std::vector<rt::WorkspaceUse> beside;     ///< as rt::workspaceOf() will say
  std::map<std::string, int64_t> constants; ///< bytes of each; part of the arena
  int64_t shareBytes = 0; ///< of the optimizer's state, where replicas divide it; the same
};

/// What plans of single steps choose among, by layer: the option in each variant of its chunk,
/// which has one at least; among the variants is what the plan itself has.
using StepVariants = std::vector<std::vector<std::string>>;

/// A module in form L with costs, read once for any number of plans. A layer without
/// `omnibal.buffers` counts as two functions that its `omnibal.cost` states.
class PlannedMemory {
public:
  static llvm::FailureOr<PlannedMemory> read(mlir::ModuleOp module, llvm::StringRef pass);

  /// One a stage; `plan` is complete. Reports on the module. With `variants` the program's steps
  /// are planned one by one: sizes are then those at the caps but for what blocks are rounded up
  /// to, which only the lowered functions say. `trainsOnly`: of a training mode alone.
  llvm::FailureOr<std::vector<StageMemory>> of(const planner::Plan &plan, int64_t stages,
                                               int64_t microbatches,
                                               const StepVariants *variants = nullptr,
                                               bool trainsOnly = false);

private:
  struct Parameter {
    int64_t bytes = 0;               ///< values, gradient and moments, each an array of its own
    int64_t elements = 0;            ///< that a rank has; 0: it does not train
    int64_t wholeElements = 0;       ///< of all parts of the stage
    std::array<int64_t, 2> matrix{}; ///< rows and columns, where its update is orthogonalized
    int64_t stateArrays = 0;         ///< float32: moments, values of the optimizer's own, averages
    int64_t codedMoments = 0;        ///< of 8 bits
    int64_t factorBytes = 0;         ///< of the variances of rows and columns, as they lie
  };
  struct Scratch {
    bool products = false, columnSums = false;
    int64_t moveBytes = 0;
  };

  void addLayer(LayerOp layer);
  void addFunctions(BuffersAttr buffers);
  void addStated(int64_t layer);
  int64_t addFunction(FunctionMemory function, Scratch scratch);
  int64_t functionOf(FunctionBuffersAttr attribute);
  int64_t persistentBytes(int64_t stage, rt::WorkspaceFacts &facts) const;
  int64_t shareBytes(int64_t stage, const planner::Plan &plan, rt::WorkspaceFacts &facts);
  void choose(const planner::Plan &plan, const StepVariants *variants);

  mlir::ModuleOp module;
  LayerGraph graph;
  std::string target;
  int64_t replicas = 1; ///< that divide the optimizer's state
  MemoryGraph memory;
  /// By layer and option; evaluation and prediction are the same in all.
  std::vector<std::map<std::string, CalleeFunctions>> options;
  std::vector<std::vector<size_t>> parametersOf; ///< by layer
  std::vector<Parameter> parameters;
  std::vector<Scratch> scratchOf; ///< by function
  llvm::DenseMap<mlir::Attribute, int64_t> functionIndex;
  llvm::DenseMap<mlir::Operation *, size_t> parameterIndex;
  llvm::DenseMap<mlir::Value, int64_t> edgeOf;
};

} // namespace omnibal::layout
#endif // PASSES_LAYOUT_PLANNEDMEMORY_H
