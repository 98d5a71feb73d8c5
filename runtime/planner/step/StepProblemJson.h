//===- StepProblemJson.h - Step problems and steps' loads as JSON -----------------------------===//
#ifndef RUNTIME_PLANNER_STEP_STEPPROBLEMJSON_H
#define RUNTIME_PLANNER_STEP_STEPPROBLEMJSON_H

#include "runtime/planner/step/StepProblem.h"
#include "runtime/support/Status.h"

namespace omnibal::planner {

/// Parses `omnibal.step-problem/1` (docs/step-plans.md) and checks it: chunks, variants and stages
/// exist, edges lead to later chunks, the static plan runs every unit, and neither the times nor
/// the bytes of a whole step at the caps leave 62 bits. Messages begin with `where`.
rt::Result<StepProblem> parseStepProblem(std::string_view text, const std::string &where);
/// The same from a file.
rt::Result<StepProblem> readStepProblem(const std::string &path);
/// The problem as a file of JSON that readStepProblem reads.
std::string writeStepProblem(const StepProblem &problem);

/// Parses one line of a file of loads. It must fit the problem's caps and number of micro-batches.
rt::Result<StepLoads> parseStepLoads(std::string_view line, const StepProblem &problem,
                                     const std::string &where);
/// The same for every line of a file; an error names the line.
rt::Result<std::vector<StepLoads>> readStepLoads(const std::string &path,
                                                 const StepProblem &problem);
/// The line, with its end.
std::string writeStepLoads(const StepLoads &loads);

/// Says why loads do not fit a problem; empty where they do.
std::string misfit(const StepProblem &problem, const StepLoads &loads);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_STEP_STEPPROBLEMJSON_H
