//===- Passes.h - What drives other passes --------------------------------------------------===//
#ifndef PASSES_DRIVER_PASSES_H
#define PASSES_DRIVER_PASSES_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include <memory>
#include <string>

namespace omnibal {
#define GEN_PASS_DECL
#include "passes/driver/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/driver/Passes.h.inc"

/// omnibal-fit-memory over the passes that `populate` adds.
std::unique_ptr<mlir::Pass>
createFitMemory(const FitMemoryOptions &options,
                llvm::function_ref<void(mlir::OpPassManager &)> populate);
} // namespace omnibal

#endif // PASSES_DRIVER_PASSES_H
