//===- Diagnostics.h - The importer's three kinds of errors ------------------------------===//
#ifndef IMPORTERS_ONNX_DIAGNOSTICS_H
#define IMPORTERS_ONNX_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"

namespace omnibal::onnx {

/// The file breaks the rules of ONNX, or of where its data may lie.
inline mlir::InFlightDiagnostic invalidModel(mlir::Location where) {
  return mlir::emitError(where) << "invalid model: ";
}
/// Valid ONNX that the importer does not take; the message says what to do instead.
inline mlir::InFlightDiagnostic notSupported(mlir::Location where) {
  return mlir::emitError(where) << "not supported: ";
}
/// A bug here.
inline mlir::InFlightDiagnostic internalError(mlir::Location where) {
  return mlir::emitError(where) << "internal error of the importer: ";
}

} // namespace omnibal::onnx
#endif // IMPORTERS_ONNX_DIAGNOSTICS_H
