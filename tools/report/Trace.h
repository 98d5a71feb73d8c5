//===- Trace.h - A predicted step for Perfetto ----------------------------------------------===//
#ifndef TOOLS_REPORT_TRACE_H
#define TOOLS_REPORT_TRACE_H

#include "runtime/planner/evaluate/Simulator.h"
#include <string>

namespace omnibal::planner {

/// Chrome trace JSON, times in microseconds: a process a stage with the lanes compute, send and
/// receive, an arrow from the action that makes a message over both to the one that needs it, and a
/// counter of the stage's memory in bytes. `timeline` is that of the plan, without an error.
std::string traceJson(const Problem &problem, const Plan &plan, const Timeline &timeline);

} // namespace omnibal::planner
#endif // TOOLS_REPORT_TRACE_H
