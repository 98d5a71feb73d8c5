//===- StepSamples.h - Steps that are planned by themselves, for a page ---------------------===//
#ifndef TOOLS_REPORT_STEPSAMPLES_H
#define TOOLS_REPORT_STEPSAMPLES_H

#include "runtime/planner/step/StepPlan.h"
#include "runtime/support/JsonWriter.h"
#include <string>

namespace omnibal::planner {

/// Lists of actions by stage, with their times for a step's loads.
struct DrawnLists {
  std::vector<std::vector<StepAction>> actions;
  std::vector<std::vector<int64_t>> starts, ends; ///< in the form of the actions
  int64_t stepNs = 0;
};

struct SampledStep {
  StepLoads loads;
  StepPlan plan;
  DrawnLists planned;
  DrawnLists own; ///< those of the program that serve every step
};

/// Steps of a program whose steps are planned by themselves.
struct StepSamples {
  std::string source; ///< where the loads come from; empty: none are known
  std::vector<SampledStep> steps;
};

/// Plans the steps as a run of the program does.
StepSamples planSamples(const StepProblem &problem, const std::vector<StepLoads> &loads,
                        std::string source);

/// The samples that are drawn: those that gain least, that gain the median, and that gain most;
/// fewer where they are the same or have more actions than a page should hold.
std::vector<size_t> samplesDrawn(const StepSamples &samples);

/// The section of the page: means, a table, and a figure "sample0" .. for each one drawn.
std::string samplesSection(const StepSamples &samples);

/// The attribute `samples` for report.js. `chunkNumber` is a chunk's place among those of the page,
/// -1 for one of a stage that is not among `stages`, which are shown.
void writeSamples(rt::JsonWriter &out, const StepSamples &samples,
                  const std::vector<size_t> &stages, const std::vector<int64_t> &chunkNumber);

} // namespace omnibal::planner
#endif // TOOLS_REPORT_STEPSAMPLES_H
