//===- Passes.h - Raising: form S to form R to form L ------------------------------------===//
#ifndef PASSES_RAISE_PASSES_H
#define PASSES_RAISE_PASSES_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace omnibal {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/raise/Passes.h.inc"

/// Takes form S to form R by the raising passes in their order. `tokens` is the cap of tokens.
void buildRaisePipeline(mlir::OpPassManager &manager, int64_t tokens);
/// Registers the passes above and the pipeline "omnibal-raise" with its option `tokens`.
void registerRaisePasses();

} // namespace omnibal

#endif // PASSES_RAISE_PASSES_H
