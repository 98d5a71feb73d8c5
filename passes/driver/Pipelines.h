//===- Pipelines.h - Registration of passes and named pipelines --------------------------===//
#ifndef PASSES_DRIVER_PIPELINES_H
#define PASSES_DRIVER_PIPELINES_H

#include "mlir/Pass/PassManager.h"
#include <cstdint>
#include <string>
#include <vector>

namespace omnibal {

/// What the front half of the compiler needs to know.
struct FrontOptions {
  int64_t tokens = 0; ///< largest N: length of tables by position
  std::vector<std::string> freezeParts;
  std::string freezeMatch;
};

/// Takes form I to form L with a loss: specialize, raise, find layers, freeze, attach the loss.
void buildFrontPipeline(mlir::OpPassManager &passes, const FrontOptions &options);
/// Takes form P to form C and verifies it.
void buildFunctionsPipeline(mlir::OpPassManager &passes);

/// Takes form P with costs to form C with the messages and actions of its plan, which passes/export
/// reads. The plan is verified first. It is registered as `omnibal-program`.
void buildProgramPipeline(mlir::OpPassManager &passes);

/// Registers every pass and named pipeline of omnibal (omnibal-opt, tests).
void registerAllPasses();

} // namespace omnibal
#endif // PASSES_DRIVER_PIPELINES_H
