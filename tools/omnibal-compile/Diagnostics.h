//===- Diagnostics.h - Compiler diagnostics as lines a user can act on -------------------===//
#ifndef TOOLS_OMNIBAL_COMPILE_DIAGNOSTICS_H
#define TOOLS_OMNIBAL_COMPILE_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include <string>

namespace omnibal::compile {

/// While alive, prints every diagnostic of the context to stderr as
/// `tool: error: FILE: node NAME (in MODULE): message`, with notes below it.
class DiagnosticPrinter {
public:
  DiagnosticPrinter(mlir::MLIRContext &context, std::string tool, std::string file);

private:
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace omnibal::compile
#endif // TOOLS_OMNIBAL_COMPILE_DIAGNOSTICS_H
