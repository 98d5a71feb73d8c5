//===- CallGraph.h - Form C as plain data ------------------------------------------------===//
#ifndef DIALECTS_OMNIBAL_ANALYSIS_CALLGRAPH_H
#define DIALECTS_OMNIBAL_ANALYSIS_CALLGRAPH_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace omnibal::analysis {

/// An activation that passes between layers, or a result of the head.
struct Edge {
  int64_t producer = 0;        ///< call
  int64_t output = 0;          ///< index among the producer's outputs
  std::string kind = "output"; ///< output | loss | prediction | router_loss
  SymbolicShape shape;
  bool isBFloat16 =
      false; ///< lies in bfloat16 where the program computes in it, and its gradient too
  llvm::SmallVector<std::pair<int64_t, int64_t>> consumers; ///< (call, input index), in order
  bool isGraphOutput = false;
  std::string graphOutput; ///< ONNX name where it is one
};

struct Call {
  std::string name, kind;
  LayerFnOp callee;
  llvm::SmallVector<LayerFnOp> variants; ///< of `omnibal.variants`
  /// By part, where parts of a stage run different functions (`omnibal.callees`); else none.
  llvm::SmallVector<LayerFnOp> partCallees;
  CallLayerOp op;
  int64_t chunk = 0;
  llvm::SmallVector<int64_t> inputs, outputs; ///< edges
  llvm::SmallVector<std::string> parameters;

  /// All functions that may run it: the variants, those of other parts, then the callee.
  llvm::SmallVector<LayerFnOp> callees() const {
    llvm::SmallVector<LayerFnOp> all = variants;
    all.append(partCallees);
    all.push_back(callee);
    return all;
  }
  LayerFnOp calleeOf(int64_t part) const {
    return partCallees.empty() ? callee : partCallees[part];
  }
};

struct CallGraph {
  std::vector<Call> calls; ///< in program order
  std::vector<Edge> edges;
  int64_t chunks = 1;
  std::vector<ParameterOp> parameters; ///< those that a call uses, in order of first use
};

/// The ONNX name of a result of @main.
std::string nameOfResult(mlir::func::FuncOp main, size_t position);

/// Reads @main of a module in form C; chunks must be non-decreasing along the calls.
llvm::FailureOr<CallGraph> readCallGraph(mlir::ModuleOp module);

} // namespace omnibal::analysis
#endif // DIALECTS_OMNIBAL_ANALYSIS_CALLGRAPH_H
