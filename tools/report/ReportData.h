//===- ReportData.h - What a page's pictures are drawn from ---------------------------------===//
#ifndef TOOLS_REPORT_REPORTDATA_H
#define TOOLS_REPORT_REPORTDATA_H

#include "tools/report/Report.h"

namespace omnibal::planner {

/// Stages that the page shows.
std::vector<size_t> stagesShown(const Plan &plan);

/// JSON for report.js, safe within a script element.
std::string reportData(const ReportInput &input);

} // namespace omnibal::planner
#endif // TOOLS_REPORT_REPORTDATA_H
