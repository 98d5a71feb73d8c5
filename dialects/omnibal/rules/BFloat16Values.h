//===- BFloat16Values.h - Which float32 values may lie in bfloat16 ---------------------------===//
//
// The IR computes in float32 everywhere. A program that computes in bfloat16 stores values in
// bfloat16 between its kernels if they have the precision of activations. These are values that
// depend on parameters or activations, unless they do so through a statistic alone. Statistics of
// rows (sums, means, log-sum-exp, losses, and what is computed from them only), gradients of
// parameters, and what depends on positions and constants only (rotary angles) stay in float32.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef DIALECTS_OMNIBAL_RULES_BFLOAT16VALUES_H
#define DIALECTS_OMNIBAL_RULES_BFLOAT16VALUES_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "llvm/ADT/DenseSet.h"

namespace omnibal {

/// This unit attribute on arguments and results of a layer's functions marks an activation that
/// stays in float32 whatever the program computes in. Both sides of a call carry it.
constexpr llvm::StringLiteral float32AttrName = "omnibal.float32";

bool isFloat32(mlir::Value value);

/// Returns `inBFloat16` and those results of `ops` (in program order) that may be stored in
/// bfloat16 if `inBFloat16` are.
llvm::DenseSet<mlir::Value> findBFloat16Values(llvm::ArrayRef<mlir::Operation *> ops,
                                               llvm::ArrayRef<mlir::Value> inBFloat16);

/// Whether an argument or result of a layer's function, with these attributes, is stored in
/// bfloat16 where a program computes in it.
bool isBFloat16Formal(mlir::DictionaryAttr attributes, mlir::Type type);

} // namespace omnibal
#endif // DIALECTS_OMNIBAL_RULES_BFLOAT16VALUES_H
