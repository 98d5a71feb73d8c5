//===- Options.h - The command line of omnibal-plan -----------------------------------------===//
#ifndef TOOLS_OMNIBAL_PLAN_OPTIONS_H
#define TOOLS_OMNIBAL_PLAN_OPTIONS_H

#include <cstdint>
#include <string>
#include <vector>

namespace omnibal::plan {

struct Options {
  /// The problem or choice; with --check the plan too, with --check-steps the loads and the plans.
  std::vector<std::string> files;
  std::string output, report, trace;
  std::string emitProblem; ///< of the division that was chosen
  std::string exportTo;    ///< megatron | json; empty: no export
  bool check = false, json = false, baselines = false;
  double timeLimit = 10; ///< seconds; where divisions are compared, work is limited instead
  std::string steps;     ///< loads, a line a step; empty: one plan for all steps
  bool checkSteps = false;
  bool maySplitSteps = true;
  int64_t stepActions = 300'000, stepLists = 300;
};

/// Parses argv. Returns true when there is work to do; otherwise `exitCode` is what main returns
/// (0 after --help or --version, 2 for wrong usage).
bool parseOptions(int argc, char **argv, Options &options, int &exitCode);

} // namespace omnibal::plan
#endif // TOOLS_OMNIBAL_PLAN_OPTIONS_H
