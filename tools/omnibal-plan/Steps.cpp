//===- Steps.cpp -------------------------------------------------------------------------===//
#include "tools/omnibal-plan/Steps.h"
#include "runtime/planner/step/CheckStepPlan.h"
#include "runtime/planner/step/StepPlanJson.h"
#include "runtime/planner/step/StepProblemJson.h"
#include "runtime/planner/step/StepSearch.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/JsonWriter.h"
#include "runtime/support/NumberText.h"
#include "runtime/support/TextLines.h"
#include <algorithm>
#include <chrono>
#include <iostream>

namespace omnibal::plan {
namespace {

using namespace planner;

double medianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double ratio(__int128 a, __int128 b) {
  return b > 0 ? static_cast<double>(a) / static_cast<double>(b) : 1;
}

/// What planning steps has brought.
struct StepSummary {
  std::vector<double> overBound, gain, milliseconds;
  int64_t staticSteps = 0;
  __int128 stepNs = 0, staticNs = 0; ///< sums over all steps

  void add(const StepPlan &plan, double took) {
    overBound.push_back(ratio(plan.stepNs, plan.boundNs));
    gain.push_back(ratio(plan.staticNs, plan.stepNs));
    milliseconds.push_back(took);
    staticSteps += plan.method == StepMethod::Static;
    stepNs += plan.stepNs;
    staticNs += plan.staticNs;
  }

  std::string text() const {
    std::string steps = std::to_string(gain.size());
    return steps + " steps, " +
           rt::milliseconds(static_cast<int64_t>(stepNs / static_cast<int64_t>(gain.size())), 3) +
           " ms on average; the static plan takes " + rt::fixed(ratio(staticNs, stepNs), 3) +
           " times as long\nover the bound: median " + rt::fixed(medianOf(overBound), 3) +
           ", worst " + rt::fixed(*std::max_element(overBound.begin(), overBound.end()), 3) +
           "\nsteps that run the static plan: " + std::to_string(staticSteps) +
           "\ntime of a plan: median " + rt::fixed(medianOf(milliseconds), 1) + " ms, worst " +
           rt::fixed(*std::max_element(milliseconds.begin(), milliseconds.end()), 1) + " ms\n";
  }
};

} // namespace

rt::Status planSteps(const Options &options) {
  OMNIBAL_ASSIGN_OR_RETURN(StepProblem problem, readStepProblem(options.files[0]));
  OMNIBAL_ASSIGN_OR_RETURN(std::vector<StepLoads> loads, readStepLoads(options.steps, problem));
  StepPlanner planner(problem, {options.stepActions, options.stepLists, options.maySplitSteps});
  StepSummary summary;
  std::string plans;
  for (const StepLoads &step : loads) {
    auto begin = std::chrono::steady_clock::now();
    StepPlan plan = planner.plan(step);
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    summary.add(plan, took.count());
    plans += writeStepPlan(plan);
  }
  if (!options.output.empty())
    OMNIBAL_RETURN_IF_ERROR(rt::writeFileAtomically(options.output, plans));
  std::cout << (options.json ? plans : summary.text());
  return rt::Status::ok();
}

rt::Result<bool> checkSteps(const Options &options) {
  OMNIBAL_ASSIGN_OR_RETURN(StepProblem problem, readStepProblem(options.files[0]));
  OMNIBAL_ASSIGN_OR_RETURN(std::vector<StepLoads> loads, readStepLoads(options.files[1], problem));
  OMNIBAL_ASSIGN_OR_RETURN(std::vector<rt::TextLine> lines,
                           rt::readTextLines(options.files[2], "a step"));
  if (lines.size() != loads.size())
    return rt::invalid(options.files[2] + ": " + std::to_string(lines.size()) + " plans for the " +
                       std::to_string(loads.size()) + " steps of " + options.files[1]);
  std::vector<std::string> violations;
  for (size_t i = 0; i < lines.size(); ++i) {
    OMNIBAL_ASSIGN_OR_RETURN(StepPlan plan, parseStepPlan(lines[i].text, lines[i].where));
    if (plan.step != loads[i].step)
      return rt::invalid(lines[i].where + ": it is the plan of step " + std::to_string(plan.step) +
                         "; the loads there are those of step " + std::to_string(loads[i].step));
    for (const StepViolation &violation : checkStepPlan(problem, loads[i], plan))
      violations.push_back(lines[i].where + ": " + violation.message());
  }
  for (const std::string &violation : violations)
    std::cerr << "omnibal-plan: " << violation << "\n";
  if (options.json) {
    rt::JsonWriter verdict;
    verdict.object([&] {
      verdict.attribute("valid", violations.empty());
      verdict.attribute("violations", violations);
    });
    std::cout << verdict.take() << "\n";
  } else if (violations.empty()) {
    std::cout << options.files[2] << ": " << lines.size() << " valid plans\n";
  }
  return violations.empty();
}

} // namespace omnibal::plan
