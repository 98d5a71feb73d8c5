//===- Pipelines.cpp - The named pipelines ----------------------------------------------------------===//
#include "passes/Pipelines.h"
#include "passes/lower/Lowering.h"
#include "passes/raise/Passes.h"
#include "passes/specialize/Passes.h"

void omnibal::registerAllPasses() {
  registerOmnibalSpecializePasses();
  registerRaisePasses();
  lower::registerLowerPasses();
}
