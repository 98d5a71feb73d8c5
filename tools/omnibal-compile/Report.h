//===- Report.h - The plan as a page -----------------------------------------------------===//
#ifndef TOOLS_OMNIBAL_COMPILE_REPORT_H
#define TOOLS_OMNIBAL_COMPILE_REPORT_H

#include "passes/partition/PlanStages.h"
#include <string>

namespace omnibal::compile {

/// A self-contained HTML page: the stage table, the predicted timeline of every rank (forward blue,
/// backward green, recomputation hatched, idle grey, micro-batch numbers) and the layers of each
/// stage.
std::string htmlReport(const partition::PlannedModule &planned, const std::string &model,
                       const std::string &table);

} // namespace omnibal::compile
#endif // TOOLS_OMNIBAL_COMPILE_REPORT_H
