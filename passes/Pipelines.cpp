//===- Pipelines.cpp - The named pipelines ----------------------------------------------------------===//
#include "passes/Pipelines.h"

void omnibal::registerAllPasses() {}
