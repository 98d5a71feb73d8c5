//===- CompileRecord.h - What a run of omnibal-compile's pipeline leaves --------------------===//
#ifndef PASSES_DRIVER_COMPILERECORD_H
#define PASSES_DRIVER_COMPILERECORD_H

#include "passes/cost/LayerCosts.h"
#include "passes/export/ExportProgram.h"
#include "passes/plan/LengthGroupSearch.h"
#include "passes/plan/ModePlans.h"
#include "passes/plan/RankSearch.h"

namespace omnibal {

/// For tables and reports: what the module's attributes do not say.
struct CompileRecord {
  cost::CostReports costs;
  plan::LengthGroupReport lengthGroups;
  plan::RankRecord ranks;        ///< where the ranks' division was chosen
  plan::ModePlans plans;         ///< one, or one a training mode
  exporter::ProgramSlot laidOut; ///< its constants go into the program directory
};

} // namespace omnibal
#endif // PASSES_DRIVER_COMPILERECORD_H
