//===- Pipelines.cpp - The named pipelines ----------------------------------------------------------===//
#include "passes/Pipelines.h"
#include "passes/lower/Lowering.h"
#include "passes/raise/Passes.h"
#include "passes/remat/Passes.h"
#include "passes/specialize/Passes.h"
#include "passes/train/Passes.h"

void omnibal::registerAllPasses() {
  registerOmnibalSpecializePasses();
  registerRaisePasses();
  lower::registerLowerPasses();
  registerOmnibalTrainPasses();
  registerOmnibalRematPasses();
}
