//===- Passes.h - From layers to functions that train ------------------------------------===//
#ifndef PASSES_DIFFERENTIATE_PASSES_H
#define PASSES_DIFFERENTIATE_PASSES_H

#include "mlir/Pass/Pass.h"
#include <memory>
#include <string>

namespace omnibal {
#define GEN_PASS_DECL
#include "passes/differentiate/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/differentiate/Passes.h.inc"
} // namespace omnibal

#endif // PASSES_DIFFERENTIATE_PASSES_H
