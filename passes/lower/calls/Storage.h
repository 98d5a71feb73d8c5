//===- Storage.h - Whether a value of a function lies in float32 or bfloat16 -------------===//
//
// Every float value of the IR is computed in float32; a program that computes in bfloat16 stores
// activations and parameters in bfloat16 between kernels (dialects/omnibal/rules/BFloat16Values.h).
// Role and attribute of a function's formals say how they are stored, and the storage of the values
// in between follows.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_LOWER_CALLS_STORAGE_H
#define PASSES_LOWER_CALLS_STORAGE_H

#include "dialects/omnibal/rules/BFloat16Values.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/lower/Lowering.h"
#include "llvm/ADT/DenseSet.h"

namespace omnibal::lower {

class Storage {
public:
  /// Takes a function whose ops are those that calls are made of (after omnibal-fuse).
  Storage(mlir::func::FuncOp fn, llvm::StringRef compute);

  bool isBFloat16(mlir::Value value) const { return inBFloat16.contains(value); }
  /// Tells whether a formal is stored in bfloat16.
  bool isBFloat16(mlir::DictionaryAttr attributes, mlir::Type type) const {
    return enabled && isBFloat16Formal(attributes, type);
  }

private:
  void keepGradientsInFloat32(mlir::func::FuncOp fn);

  bool enabled;
  llvm::DenseSet<mlir::Value> inBFloat16;
};

} // namespace omnibal::lower
#endif // PASSES_LOWER_CALLS_STORAGE_H
