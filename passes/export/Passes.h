//===- Passes.h - From form C to a program directory ------------------------------------------===//
#ifndef PASSES_EXPORT_PASSES_H
#define PASSES_EXPORT_PASSES_H

#include "mlir/Pass/Pass.h"
#include <memory>
#include <string>

namespace omnibal {
#define GEN_PASS_DECL
#include "passes/export/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/export/Passes.h.inc"
} // namespace omnibal

#endif // PASSES_EXPORT_PASSES_H
