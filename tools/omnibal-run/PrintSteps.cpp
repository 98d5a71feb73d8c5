#include "tools/omnibal-run/PrintSteps.h"
#include "runtime/executor/StepRuns.h"
#include "runtime/planner/step/StepProblemJson.h"
#include "runtime/schedule/StepText.h"

namespace omnibal::rt {

Result<std::string> printSteps(const Program &program, const RunOptions &options) {
  if (program.stepProblem.empty())
    return invalid("--loads: " + options.program + " runs the same lists (" +
                   program.trainModes[0].schedule +
                   ") in every step; compile it with --schedule per-step, or leave out --loads");
  OMNIBAL_ASSIGN_OR_RETURN(std::shared_ptr<StepPlans> plans, openStepPlans(program, 1));
  for (const Stage *stage : program.firstParts())
    OMNIBAL_RETURN_IF_ERROR(StepRuns::open(program, *stage, /*replica=*/0, plans).status());
  OMNIBAL_ASSIGN_OR_RETURN(std::vector<planner::StepLoads> steps,
                           planner::readStepLoads(options.loads, plans->problem()));
  std::string text = stepTextKey();
  for (size_t line = 0; line < steps.size(); ++line) {
    // A replica of its own for each line: a file may have a step twice.
    OMNIBAL_ASSIGN_OR_RETURN(TakenStep taken, plans->take(static_cast<int64_t>(line), steps[line]));
    text += "\n" + textOf(plans->problem(), steps[line], *taken.step, plans->messages());
  }
  return text;
}

} // namespace omnibal::rt
