//===- StepSamples.h - Steps of the data and times of their loads, as attributes ----------===//
#ifndef PASSES_COMMON_STEPSAMPLES_H
#define PASSES_COMMON_STEPSAMPLES_H

#include "mlir/IR/BuiltinOps.h"
#include "runtime/planner/step/StepProblem.h"

namespace omnibal::plan {

/// On the module: `tiles`, `tokens` (the caps) and `loads`, of some steps tiles, tokens and squared
/// lengths of each micro-batch.
inline constexpr llvm::StringLiteral stepSamplesAttrName = "omnibal.step_samples";

/// What layouts for plans of single steps are chosen by.
struct StepSamples {
  int64_t tilesCap = 0, tokensCap = 0;
  std::vector<planner::StepLoads> steps;
};

void writeStepSamples(mlir::ModuleOp module, const StepSamples &samples);
/// None where the module has none for so many micro-batches.
std::optional<StepSamples> readStepSamples(mlir::ModuleOp module, int64_t microbatches);

/// Terms of a function's time in `omnibal.time_models`: fixed, per tile, per token, per squared
/// token of a sample.
inline constexpr size_t termsOfTime = 4;
using TimeTerms = std::array<double, termsOfTime>;
/// By kind of action.
using ActionTerms = std::array<TimeTerms, 4>;

/// What a layer (or the call of one) says of an option; none where it says nothing.
std::optional<ActionTerms> timeTermsOf(mlir::Operation *layer, llvm::StringRef option);
/// With six decimal places; without what only the tokens' part of a model sees where the time is
/// one of vision.
planner::TimeModel timeModelOf(const TimeTerms &terms, bool ofVision);

} // namespace omnibal::plan
#endif // PASSES_COMMON_STEPSAMPLES_H
