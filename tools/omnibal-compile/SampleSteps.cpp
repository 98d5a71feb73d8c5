#include "tools/omnibal-compile/SampleSteps.h"
#include "passes/cost/BatchLoads.h"
#include "runtime/planner/step/StepProblemJson.h"

namespace omnibal::compile {

rt::Result<std::optional<planner::StepSamples>> sampleSteps(const Options &options,
                                                            const rt::Program &program) {
  if (program.stepProblem.empty())
    return std::optional<planner::StepSamples>();
  if (options.batches.empty())
    return std::optional(planner::StepSamples());
  OMNIBAL_ASSIGN_OR_RETURN(planner::StepProblem problem,
                           planner::parseStepProblem(program.stepProblem, "step-problem.json"));
  const rt::TrainMode &train = program.trainModes[0];
  OMNIBAL_ASSIGN_OR_RETURN(
      cost::EpochLoads epoch,
      cost::readBatchLoads(options.batches, program.dataParallel, train.tilesCap, train.tokensCap));
  if (static_cast<int64_t>(epoch.groups.size()) < train.microbatches * epoch.replicas)
    return std::optional(planner::StepSamples());
  const std::vector<planner::StepLoads> steps =
      cost::sampleSteps(epoch, train.microbatches, {train.tilesCap, train.tokensCap});
  return std::optional(planner::planSamples(problem, steps, options.batches));
}

} // namespace omnibal::compile
