//===- AdapterAttributes.h - Adapters as an attribute and back --------------------------------===//
#ifndef PASSES_COMMON_ADAPTERATTRIBUTES_H
#define PASSES_COMMON_ADAPTERATTRIBUTES_H

#include "mlir/IR/BuiltinOps.h"
#include "runtime/program/Adapters.h"

namespace omnibal {

/// On the module: a dictionary with the adapters that omnibal-add-adapters has added.
inline constexpr llvm::StringLiteral adaptersAttrName = "omnibal.adapters";

void setAdapters(mlir::ModuleOp module, const rt::Adapters &adapters);
/// Fails with a diagnostic if the attribute is there and is not such a dictionary.
mlir::FailureOr<rt::Adapters> getAdapters(mlir::ModuleOp module);

} // namespace omnibal
#endif // PASSES_COMMON_ADAPTERATTRIBUTES_H
