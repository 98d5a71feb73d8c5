//===- LayerFunctions.h - The functions of one distinct layer ----------------------------===//
#ifndef PASSES_DIFFERENTIATE_LAYERFUNCTIONS_H
#define PASSES_DIFFERENTIATE_LAYERFUNCTIONS_H

#include "dialects/omnibal/analysis/LayerGraph.h"
#include "mlir/IR/OwningOpRef.h"

namespace omnibal {

/// What besides its body makes a layer's functions what they are.
struct LayerSignature {
  llvm::SmallVector<bool> inputActive;    ///< something upstream of the input trains
  llvm::SmallVector<bool> trains;         ///< one a parameter
  llvm::SmallVector<bool> outputRead;     ///< another layer reads the output
  llvm::SmallVector<bool> outputGradient; ///< such a layer gives a gradient of it
  llvm::SmallVector<bool> inputInFloat32, outputInFloat32; ///< stays in float32 (BFloat16Values.h)
  std::string remat = "keep";                              ///< omnibal.remat
  bool nearestRemat = false;  ///< a part with little of the layer may know less of it
  bool splitBackward = false; ///< the schedule runs the backward in two halves
  bool operator==(const LayerSignature &) const = default;
};

/// Functions before they have names and a place in the module.
struct LayerFunctions {
  mlir::OwningOpRef<mlir::func::FuncOp> forward, evaluate, inference;
  mlir::OwningOpRef<mlir::func::FuncOp> backward;              ///< null: nothing trains
  mlir::OwningOpRef<mlir::func::FuncOp> inputGrad, weightGrad; ///< BackwardSplit.h; either is null
                                                               ///< where the other is all of it
  llvm::SmallVector<bool> inputGradient;       ///< backward gives a gradient of the input
  llvm::SmallVector<bool> parameterGradient;   ///< and of the parameter
  llvm::SmallVector<std::string> rematOptions; ///< what `remat` may be, "keep" first
};

/// Builds the functions that docs/contract-compiler.md lists; `layer` is left as it is.
mlir::FailureOr<LayerFunctions> buildLayerFunctions(LayerOp layer, const LayerSignature &signature);

/// True if both compute the same from the same arguments.
bool areSameFunction(mlir::func::FuncOp a, mlir::func::FuncOp b);

} // namespace omnibal
#endif // PASSES_DIFFERENTIATE_LAYERFUNCTIONS_H
