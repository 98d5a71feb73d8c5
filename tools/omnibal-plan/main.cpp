//===- main.cpp - omnibal-plan: a planning problem in, the best plan out --------------------===//
#include "runtime/planner/evaluate/VerifyPlan.h"
#include "runtime/planner/json/ChoiceJson.h"
#include "runtime/planner/json/PlanJson.h"
#include "runtime/planner/json/ProblemJson.h"
#include "runtime/planner/search/ranks/ChoiceSearch.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/JsonWriter.h"
#include "runtime/support/NumberText.h"
#include "tools/omnibal-plan/Export.h"
#include "tools/omnibal-plan/Options.h"
#include "tools/omnibal-plan/Steps.h"
#include "tools/omnibal-plan/Table.h"
#include "tools/report/Progress.h"
#include "tools/report/RankTable.h"
#include "tools/report/Report.h"
#include "tools/report/Trace.h"
#include <csignal>
#include <filesystem>
#include <iostream>

namespace omnibal::plan {
namespace {

using namespace planner;

int fail(const std::string &message) {
  std::cerr << "omnibal-plan: error: " << message << "\n";
  return 1;
}

bool isWritten(const std::string &path, const std::string &text) {
  rt::Status status = rt::writeFileAtomically(path, text);
  if (!status)
    fail(status.message());
  return static_cast<bool>(status);
}

/// Runs a phase that ends after the time limit at the latest.
template <typename Phase>
auto withProgress(const std::string &what, const Options &options, Phase phase) {
  std::string limit = rt::fixed(options.timeLimit, 0);
  rt::Progress progress(what + " (at most " + limit + " s)", options.timeLimit);
  return phase();
}

/// The page and the trace of a plan, where they are asked for.
bool areViewsWritten(const Options &options, const Problem &problem, const Plan &plan,
                     const std::optional<PlanSearch> &facts, const std::vector<Baseline> &others) {
  if (options.report.empty() && options.trace.empty())
    return true;
  Timeline timeline = simulate(problem, plan);
  if (!options.trace.empty() && !isWritten(options.trace, traceJson(problem, plan, timeline)))
    return false;
  std::string name = std::filesystem::path(options.files[0]).filename();
  return options.report.empty() ||
         isWritten(options.report, htmlReport({name, "", problem, plan, timeline, facts, others}));
}

/// The plan for another trainer on stdout, what it cannot follow on stderr.
int writeExport(const Options &options, const Problem &problem, const Plan &plan,
                const PlanSearch &facts) {
  Exported exported = options.exportTo == "megatron" ? exportMegatron(problem, plan)
                                                     : exportJson(problem, plan, facts);
  for (const std::string &warning : exported.warnings)
    std::cerr << "omnibal-plan: warning: " << warning << "\n";
  if (!exported.problem.empty())
    return fail(options.files[0] + ": " + exported.problem);
  std::cout << exported.text;
  return 0;
}

std::vector<Baseline> baselinesFor(const Options &options, const Problem &problem, bool wanted) {
  if (!wanted)
    return {};
  return withProgress("timing other ways to plan", options,
                      [&] { return baselines(problem, options.timeLimit); });
}

struct Found {
  ChosenPlan plan;
  std::optional<RankReport> ranks; ///< where the file leaves it open how they are divided
};

Found find(const Options &options, ProblemOrChoice given) {
  if (auto *choice = std::get_if<PlanChoice>(&given)) {
    Found found;
    rt::Progress progress("planning the divisions of the ranks");
    found.plan = searchChoice(*choice, {options.timeLimit}, found.ranks.emplace());
    return found;
  }
  auto &problem = std::get<Problem>(given);
  SearchResult result = withProgress("searching for a plan", options,
                                     [&] { return searchPlan(problem, {options.timeLimit}); });
  return {{std::move(problem), std::move(result)}, std::nullopt};
}

int search(const Options &options) {
  auto given = readProblemOrChoice(options.files[0]);
  if (!given)
    return fail(given.status().message());
  const Found found = find(options, std::move(*given));
  const Problem &problem = found.plan.problem;
  const SearchResult &result = found.plan.search;
  if (!result.plan)
    return fail(options.files[0] + ": " + result.problem);
  PlanSearch facts = result.facts();
  std::vector<Baseline> others =
      baselinesFor(options, problem, options.baselines || !options.report.empty());
  for (const Baseline &b : others)
    facts.baselines.emplace_back(b.name,
                                 b.plan ? std::optional<int64_t>(b.plan->stepNs) : std::nullopt);
  std::string text = writePlan(*result.plan, facts);
  if ((!options.output.empty() && !isWritten(options.output, text)) ||
      (!options.emitProblem.empty() && !isWritten(options.emitProblem, writeProblem(problem))) ||
      !areViewsWritten(options, problem, *result.plan, facts, others))
    return 1;
  if (!options.exportTo.empty())
    return writeExport(options, problem, *result.plan, facts);
  std::cout << (options.json ? text : table(problem, *result.plan, facts));
  if (found.ranks && !options.json)
    std::cout << report::rankTable(*found.ranks);
  if (options.baselines && !options.json)
    std::cout << baselineTable(*result.plan, others);
  return 0;
}

int check(const Options &options) {
  auto problem = readProblem(options.files[0]);
  if (!problem)
    return fail(problem.status().message());
  PlanClaims claims;
  auto plan = readPlan(options.files[1], &claims);
  if (!plan)
    return fail(plan.status().message());
  if (std::string why = completePlan(*problem, *plan); !why.empty())
    return fail(options.files[1] + ": " + why);
  std::vector<std::string> violations;
  for (const Violation &violation : verifyPlan(*problem, *plan, claims))
    violations.push_back(violation.message());
  if (options.json) {
    rt::JsonWriter verdict;
    verdict.object([&] {
      verdict.attribute("valid", violations.empty());
      verdict.attribute("violations", violations);
    });
    std::cout << verdict.take() << "\n";
  }
  for (const std::string &violation : violations)
    std::cerr << "omnibal-plan: " << options.files[1] << ": " << violation << "\n";
  if (!violations.empty())
    return 1;
  std::vector<Baseline> others = baselinesFor(options, *problem, options.baselines);
  if (!areViewsWritten(options, *problem, *plan, std::nullopt, others))
    return 1;
  if (!options.exportTo.empty()) {
    Timeline timeline = simulate(*problem, *plan);
    plan->stepNs = timeline.stepNs;
    plan->stages = timeline.stages;
    PlanSearch facts;
    facts.method = "given";
    facts.lowerBoundNs = claims.lowerBoundNs.value_or(0);
    return writeExport(options, *problem, *plan, facts);
  }
  if (!options.json)
    std::cout << options.files[1] << ": valid\n";
  if (!options.json && options.baselines) {
    plan->stepNs = simulate(*problem, *plan).stepNs;
    std::cout << baselineTable(*plan, others);
  }
  return 0;
}

int steps(const Options &options) {
  if (!options.checkSteps) {
    rt::Status status = planSteps(options);
    return status ? 0 : fail(status.message());
  }
  rt::Result<bool> valid = checkSteps(options);
  return valid ? (*valid ? 0 : 1) : fail(valid.status().message());
}

} // namespace
} // namespace omnibal::plan

int main(int argc, char **argv) {
  // Past `ulimit -f` writing fails with an error that says so, instead of killing the process.
  std::signal(SIGXFSZ, SIG_IGN);
  omnibal::plan::Options options;
  int exitCode = 0;
  if (!omnibal::plan::parseOptions(argc, argv, options, exitCode))
    return exitCode;
  int status = !options.steps.empty() || options.checkSteps ? omnibal::plan::steps(options)
               : options.check                              ? omnibal::plan::check(options)
                                                            : omnibal::plan::search(options);
  if (!std::cout.flush())
    return omnibal::plan::fail("writing to the standard output failed");
  return status;
}
