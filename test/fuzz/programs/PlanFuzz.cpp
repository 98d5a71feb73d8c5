//===- PlanFuzz.cpp - omnibal-plan's readers and what they admit ----------------------------===//
//
// An input is a problem and, after a line "---", a plan, both JSON, or a choice of divisions. What
// the readers accept must be simulated, verified, searched, drawn and written without a fault, and
// what the search finds must pass the verifier. Problems beyond a few layers are only read.
//
//===----------------------------------------------------------------------------------------===//
#include "runtime/planner/evaluate/Simulator.h"
#include "runtime/planner/evaluate/VerifyPlan.h"
#include "runtime/planner/json/ChoiceJson.h"
#include "runtime/planner/json/PlanJson.h"
#include "runtime/planner/json/ProblemJson.h"
#include "runtime/planner/search/ranks/ChoiceSearch.h"
#include "tools/report/RankTable.h"
#include "tools/report/Report.h"
#include "tools/report/Trace.h"
#include <cstdio>
#include <cstdlib>

using namespace omnibal::planner;

namespace {

constexpr size_t mostLayers = 16;
constexpr int64_t mostStages = 8, mostMicrobatches = 16;

[[noreturn]] void broken(const std::string &what) {
  std::fprintf(stderr, "broken: %s\n", what.c_str());
  std::abort();
}

void draw(const Problem &problem, const Plan &plan) {
  Timeline timeline = simulate(problem, plan);
  if (!timeline.error.empty())
    return;
  traceJson(problem, plan, timeline);
  htmlReport({"", "", problem, plan, timeline, std::nullopt, {}});
}

void check(const Problem &problem, const SearchResult &result) {
  if (!result.plan) {
    if (result.problem.empty() || result.problem.find("internal error") != std::string::npos)
      broken("no plan: " + result.problem);
    return;
  }
  PlanClaims claims;
  auto again = parsePlan(writePlan(*result.plan, result.facts()), "", &claims);
  if (!again)
    broken(again.status().message());
  for (const Violation &violation : verifyPlan(problem, *again, claims))
    broken(violation.message());
  draw(problem, *again);
}

void solve(const Problem &problem) { check(problem, searchPlan(problem, {0.2})); }

void choose(const PlanChoice &choice) {
  auto again = parseChoice(writeChoice(choice), "again.json");
  if (!again)
    broken(again.status().message());
  const RankLimits &limits = choice.limits;
  if (choice.costs.front().problem.layers.size() > mostLayers || choice.costs.size() > 4 ||
      limits.ranks > mostStages || limits.groups > mostMicrobatches)
    return;
  RankReport ranks;
  const ChosenPlan chosen = searchChoice(*again, {0.2}, ranks);
  check(chosen.problem, chosen.search);
  if (chosen.search.plan)
    omnibal::report::rankTable(ranks);
}

void judge(const Problem &problem, std::string_view text) {
  PlanClaims claims;
  auto plan = parsePlan(text, "plan.json", &claims);
  if (!plan || !completePlan(problem, *plan).empty())
    return;
  if (verifyPlan(problem, *plan, claims).empty())
    draw(problem, *plan);
  else
    simulate(problem, *plan);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  constexpr std::string_view separator = "\n---\n";
  std::string_view text(reinterpret_cast<const char *>(data), size);
  size_t end = text.find(separator);
  std::string_view second = end == text.npos ? "" : text.substr(end + separator.size());
  if (auto choice = parseChoice(text.substr(0, end), "choice.json")) {
    choose(*choice);
    return 0;
  }
  auto problem = parseProblem(text.substr(0, end), "problem.json");
  if (!problem)
    return 0;
  auto again = parseProblem(writeProblem(*problem), "again.json");
  if (!again)
    broken(again.status().message());
  if (problem->layers.size() > mostLayers || problem->cluster.stages > mostStages ||
      problem->microbatches > mostMicrobatches)
    return 0;
  judge(*problem, second);
  solve(*problem);
  return 0;
}
