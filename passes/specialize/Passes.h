//===- Passes.h - Specialization: form I to form S ---------------------------------------===//
#ifndef PASSES_SPECIALIZE_PASSES_H
#define PASSES_SPECIALIZE_PASSES_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/Pass/Pass.h"

namespace omnibal {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/specialize/Passes.h.inc"
} // namespace omnibal

#endif // PASSES_SPECIALIZE_PASSES_H
