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

/// Form S to form R: the raising passes in their order. `tokens` is the cap of a micro-batch;
/// `routerLossCoefficient`, a number in text, stands in for the graph's; empty: the graph's.
void buildRaisePipeline(mlir::OpPassManager &manager, int64_t tokens,
                        const std::string &routerLossCoefficient = "");
/// Registers the passes above and the pipeline "omnibal-raise" with these as options.
void registerRaisePasses();

} // namespace omnibal

#endif // PASSES_RAISE_PASSES_H
