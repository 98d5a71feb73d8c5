//===- StepPlansFuzz.cpp - Step problems, loads and step plans --------------------------------===//
//
// An input is a step problem, a line of loads and a step plan. What the readers accept is planned,
// and the checker finds nothing wrong with that plan; it also judges the input's own plan.
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/planner/step/CheckStepPlan.h"
#include "runtime/planner/step/StepPlanJson.h"
#include "runtime/planner/step/StepProblemJson.h"
#include "runtime/planner/step/StepSearch.h"
#include "test/fuzz/Fuzz.h"

namespace omnibal::fuzz {

const Allowance allowance{size_t{16} << 20, 4096};

void run(std::string_view input) {
  using namespace planner;
  // Larger ones are only read.
  constexpr size_t mostChunks = 12;
  constexpr int64_t mostStages = 6, mostMicrobatches = 8;
  std::vector<std::string_view> parts = partsOf(input);
  auto problem = parseStepProblem(parts[0], "problem.json");
  if (!problem)
    return;
  auto again = parseStepProblem(writeStepProblem(*problem), "again.json");
  require(again.status());
  require(writeStepProblem(*again) == writeStepProblem(*problem), "another problem");
  if (parts.size() < 2 || problem->chunks.size() > mostChunks || problem->stages > mostStages ||
      problem->microbatches > mostMicrobatches)
    return;
  auto loads = parseStepLoads(parts[1], *problem, "loads.jsonl:1");
  if (!loads)
    return;
  StepPlan plan = StepPlanner(*problem, {2000, 20}).plan(*loads);
  auto read = parseStepPlan(writeStepPlan(plan), "plans.jsonl:1");
  require(read.status());
  for (const StepViolation &violation : checkStepPlan(*problem, *loads, *read))
    broken(violation.message());
  if (parts.size() > 2)
    if (auto own = parseStepPlan(parts[2], "own.jsonl:1"))
      checkStepPlan(*problem, *loads, *own);
}

} // namespace omnibal::fuzz
