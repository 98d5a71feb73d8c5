//===- ModulePath.h - The module a node comes from ---------------------------------------===//
#ifndef IMPORTERS_ONNX_MODULEPATH_H
#define IMPORTERS_ONNX_MODULEPATH_H

#include "importers/onnx/Schema.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace omnibal::onnx {

/// The innermost module path that the exporter left in the node's metadata
/// ("a.b.0.c"); null if there is none.
mlir::StringAttr modulePath(const NodeProto &node, mlir::MLIRContext *context);

} // namespace omnibal::onnx
#endif // IMPORTERS_ONNX_MODULEPATH_H
