//===- Passes.h - From a plan to the actions of every stage ------------------------------===//
#ifndef PASSES_SCHEDULE_PASSES_H
#define PASSES_SCHEDULE_PASSES_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/Pass/Pass.h"
#include <memory>

namespace omnibal {
#define GEN_PASS_DECL
#include "passes/schedule/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/schedule/Passes.h.inc"
} // namespace omnibal

#endif // PASSES_SCHEDULE_PASSES_H
