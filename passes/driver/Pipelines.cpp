//===- Pipelines.cpp - The named pipelines -----------------------------------------------===//
#include "passes/driver/Pipelines.h"
#include "passes/cost/Passes.h"
#include "passes/differentiate/Passes.h"
#include "passes/export/Passes.h"
#include "passes/layers/Passes.h"
#include "passes/lower/Lowering.h"
#include "passes/plan/Passes.h"
#include "passes/raise/Passes.h"
#include "passes/schedule/Passes.h"
#include "passes/specialize/Passes.h"

using namespace mlir;

namespace omnibal {

void buildFrontPipeline(OpPassManager &passes, const FrontOptions &options) {
  // Shapes first: everything later reads sizes from types.
  passes.addPass(createSpecializePass());
  buildRaisePipeline(passes, options.tokens);
  passes.addPass(createFormLayersPass());
  // Freezing names parts, so it needs layers; the loss follows because the gradient's reach,
  // which decides what is saved, depends on both.
  if (!options.freezeParts.empty() || !options.freezeMatch.empty()) {
    FreezeOptions freeze;
    freeze.parts.assign(options.freezeParts.begin(), options.freezeParts.end());
    freeze.match = options.freezeMatch;
    passes.addPass(createFreeze(freeze));
  }
  passes.addPass(createAttachLoss());
}

void buildFunctionsPipeline(OpPassManager &passes) {
  passes.addPass(createMaterializeLayers());
  passes.addPass(createVerifyFunctions());
}

void buildProgramPipeline(OpPassManager &passes) {
  // Whoever made the plan; what follows trusts it.
  passes.addPass(createVerifyPlan());
  buildFunctionsPipeline(passes);
  // Messages depend on which gradients the functions give, so they follow the functions.
  passes.addPass(createMaterializeSchedule());
}

void registerAllPasses() {
  registerOmnibalSpecializePasses();
  registerRaisePasses();
  registerOmnibalLayersPasses();
  registerOmnibalDifferentiatePasses();
  registerOmnibalCostPasses();
  registerOmnibalPlanPasses();
  registerOmnibalSchedulePasses();
  registerOmnibalExportPasses();
  lower::registerLowerPasses();
  PassPipelineRegistration<>("omnibal-program",
                             "Form P with costs to form C with messages and actions, as "
                             "omnibal-compile makes it of a plan",
                             buildProgramPipeline);
}

} // namespace omnibal
