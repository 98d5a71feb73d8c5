//===- CompileRecord.h - What a run of omnibal-compile's pipeline leaves --------------------===//
#ifndef PASSES_DRIVER_COMPILERECORD_H
#define PASSES_DRIVER_COMPILERECORD_H

#include "passes/cost/LayerCosts.h"
#include "passes/export/ExportProgram.h"
#include "passes/plan/SearchPlan.h"

namespace omnibal {

/// For tables and reports: what the module's attributes do not say.
struct CompileRecord {
  cost::CostReport costs;
  plan::StagePlan plan;
  exporter::ProgramSlot laidOut; ///< its constants go into the program directory
};

} // namespace omnibal
#endif // PASSES_DRIVER_COMPILERECORD_H
