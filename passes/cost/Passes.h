//===- Passes.h - What layers cost --------------------------------------------------===//
#ifndef PASSES_COST_PASSES_H
#define PASSES_COST_PASSES_H

#include "mlir/Pass/Pass.h"
#include <memory>
#include <string>

namespace omnibal {
#define GEN_PASS_DECL
#include "passes/cost/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/cost/Passes.h.inc"
} // namespace omnibal

#endif // PASSES_COST_PASSES_H
