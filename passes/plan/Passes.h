//===- Passes.h - Cutting layers into stages ---------------------------------------------===//
#ifndef PASSES_PLAN_PASSES_H
#define PASSES_PLAN_PASSES_H

#include "mlir/Pass/Pass.h"
#include <memory>
#include <string>

namespace omnibal {
#define GEN_PASS_DECL
#include "passes/plan/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/plan/Passes.h.inc"
} // namespace omnibal

#endif // PASSES_PLAN_PASSES_H
