#include "tools/omnibal-plan/Options.h"
#include "runtime/support/Formats.h"
#include "tools/NumberChecks.h"
#include "tools/WordChecks.h"
#include "tools/config/CommandLine.h"

namespace omnibal::plan {
namespace {

constexpr const char *example = R"(Examples:
  Cuts, rematerialization and schedule for a model and a cluster (docs/planner.md has the formats):
    omnibal-plan problem.json -o plan.json
  The same, against published and common ways to plan:
    omnibal-plan problem.json -o plan.json --baselines
  The plan as flags of Megatron-LM, and as a page:
    omnibal-plan problem.json --export megatron --report plan.html
  How ranks are divided best into parts, stages and replicas, and the plan for that:
    omnibal-plan choice.json -o plan.json --emit-problem problem.json
  Whether a plan, by hand or by another tool, is valid and takes what it says:
    omnibal-plan --check problem.json plan.json

  A plan for every step's own micro-batches, and a check of such plans (docs/step-plans.md):
    omnibal-plan --steps loads.jsonl step-problem.json -o plans.jsonl
    omnibal-plan --check-steps step-problem.json loads.jsonl plans.jsonl

`omnibal-compile MODEL.onnx ... --emit-problem problem.json` writes the problem of a model,
`--ranks R --groups G ... --emit-choice choice.json` its costs for any division of the ranks.)";

/// What is needed for what; an empty string if all is well.
std::string problemWith(const Options &o) {
  if (o.json && !o.exportTo.empty())
    return "--json and --export both want the standard output; take one";
  if (o.checkSteps)
    return o.files.size() == 3 ? ""
                               : "--check-steps needs three files: STEP-PROBLEM.json "
                                 "LOADS.jsonl PLANS.jsonl";
  const bool hasViews = !o.report.empty() || !o.trace.empty() || !o.exportTo.empty() ||
                        !o.emitProblem.empty() || o.baselines;
  if (!o.steps.empty() && (o.check || hasViews))
    return "--steps goes with -o and --json only";
  if (o.check && !o.emitProblem.empty())
    return "--emit-problem goes with a choice, which --check does not take";
  if (o.check)
    return o.files.size() == 2 ? "" : "--check needs two files: PROBLEM.json PLAN.json";
  if (o.files.size() != 1)
    return "one problem is expected, not " + std::to_string(o.files.size()) + " files";
  if (o.output.empty() && o.report.empty() && o.trace.empty() && o.exportTo.empty() && !o.json)
    return "-o PLAN.json is required (or --json, to see the plan only; --report, --trace, "
           "--export)";
  return "";
}

} // namespace

bool parseOptions(int argc, char **argv, Options &o, int &exitCode) {
  CLI::App app("omnibal-plan: stage cuts, rematerialization and schedule, with a proved bound",
               "omnibal-plan");
  app.footer(example);
  // A flag given twice: the last one counts, as when a script adds to a fixed command.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.set_version_flag("--version",
                       rt::formats::versionText("omnibal-plan", OMNIBAL_VERSION,
                                                {rt::formats::plan, rt::formats::planProblem,
                                                 rt::formats::planChoice, rt::formats::planExport,
                                                 rt::formats::stepPlan, rt::formats::stepProblem}));
  config::addConfigOptions(app);
  app.add_option("files", o.files,
                 "PROBLEM.json or CHOICE.json; with --check PROBLEM.json PLAN.json")
      ->required()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("-o,--output", o.output, "Where the plan is written");
  app.add_option(
      "--emit-problem", o.emitProblem,
      "Write the problem that was planned, for --check: of a choice, that of the division "
      "that was chosen");
  app.add_flag("--check", o.check, "Check a plan with the independent verifier");
  app.add_option("--time-limit", o.timeLimit,
                 "Seconds after which the best plan so far is given; where "
                 "divisions of ranks are compared, work is limited instead")
      ->check(rt::number(0.001, false, 1e6))
      ->capture_default_str();
  app.add_flag("--baselines", o.baselines, "Compare with how others cut and recompute");
  app.add_option("--report", o.report,
                 "Write the plan as a self-contained HTML page, with baselines");
  app.add_option("--trace", o.trace, "Write the predicted step as Chrome trace JSON (Perfetto)");
  app.add_option("--export", o.exportTo,
                 "Print the plan for another trainer: megatron (its flags) or json (with the names "
                 "of every chunk's layers)")
      ->check(rt::word({"megatron", "json"}));
  app.add_option(
      "--steps", o.steps,
      "Plan every step of this file of loads (JSON, a line a step); the problem is a step problem");
  app.add_flag("--check-steps", o.checkSteps,
               "Check such plans: STEP-PROBLEM.json LOADS.jsonl PLANS.jsonl");
  app.add_option_function<std::string>(
         "--sub-microbatches", [&](const std::string &word) { o.maySplitSteps = word == "auto"; },
         "Whether plans of steps may divide the pictures of a micro-batch: auto (default) or off")
      ->check(rt::word({"auto", "off"}));
  app.add_option("--actions", o.stepActions, "Work for a step's plan: actions put into lists")
      ->check(rt::wholeNumber(1, 1'000'000'000'000))
      ->capture_default_str();
  app.add_option("--lists", o.stepLists, "Work for a step's plan: lists made by policies")
      ->check(rt::wholeNumber(1, 1'000'000'000'000))
      ->capture_default_str();
  app.add_flag("--json", o.json, "Print the plan (with --check: the verdict) as JSON");
  if (!config::parseCommandLine(app, argc, argv, exitCode))
    return false;
  if (std::string problem = problemWith(o); !problem.empty())
    return config::refuse(app, problem, exitCode);
  return true;
}

} // namespace omnibal::plan
