//===- Storage.h - Whether a value of a function lies in float32 or bfloat16 -------------===//
//
// Every float value of the IR is computed in float32; a program that computes in bfloat16 keeps
// activations and parameters in bfloat16 between kernels (dialects/omnibal/rules/NarrowValues.h).
// The formals of a function say by role and attribute how they lie; what is between them follows.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_LOWER_CALLS_STORAGE_H
#define PASSES_LOWER_CALLS_STORAGE_H

#include "dialects/omnibal/rules/NarrowValues.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/lower/Lowering.h"
#include "llvm/ADT/DenseSet.h"

namespace omnibal::lower {

class Storage {
public:
  /// Of a function whose ops are those that calls are made of (after omnibal-fuse).
  Storage(mlir::func::FuncOp fn, llvm::StringRef compute);

  bool isNarrow(mlir::Value value) const { return narrow.contains(value); }
  /// Of formals.
  bool isNarrow(mlir::DictionaryAttr attributes, mlir::Type type) const {
    return enabled && isNarrowFormal(attributes, type);
  }

private:
  void keepGradientsWide(mlir::func::FuncOp fn);

  bool enabled;
  llvm::DenseSet<mlir::Value> narrow;
};

} // namespace omnibal::lower
#endif // PASSES_LOWER_CALLS_STORAGE_H
