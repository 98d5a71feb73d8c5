//===- LayoutSearch.cpp ------------------------------------------------------------------===//
#include "runtime/planner/step/LayoutSearch.h"
#include "runtime/planner/step/StepSearch.h"
#include <algorithm>

namespace omnibal::planner {
namespace {

constexpr int64_t notPlanned = std::numeric_limits<int64_t>::max();
/// For a sample of the layout that is chosen in the end.
constexpr int64_t listsAtEnd = 30;

/// The sum over the first samples; notPlanned where one has no plan that fits the memory.
int64_t scoreOf(const StepProblem &problem, const std::vector<StepLoads> &samples,
                size_t sampleCount, int64_t lists, int64_t &evaluated) {
  StepPlanner planner(problem, {std::numeric_limits<int64_t>::max() / 4, lists, true, false});
  int64_t sum = 0;
  for (size_t s = 0; s < std::min(sampleCount, samples.size()); ++s) {
    StepPlan plan = planner.plan(samples[s]);
    if (plan.method == StepMethod::Static && !problem.memoryBytes.empty())
      return notPlanned;
    sum += plan.stepNs;
    evaluated += plan.evaluated;
  }
  return sum;
}

class LayoutSearch {
public:
  LayoutSearch(const StepLayers &layers, const StepProblem &frame,
               const std::vector<StepLoads> &samples, const LayoutSearchOptions &options)
      : layers(layers), frame(frame), samples(samples), left(options.mostActions) {
    for (ChunkLayout &layout :
         chunkLayouts(layers, workOf(layers, samples), frame.stages, options.mostChunks))
      candidates.push_back({0, std::move(layout)});
  }

  std::optional<LayoutChoice> run() {
    // Each round gives those that are left more samples and more lists.
    for (auto [kept, sampleCount, lists] : {std::tuple(size_t{8}, size_t{2}, int64_t{7}),
                                            {size_t{3}, size_t{4}, int64_t{14}},
                                            {size_t{1}, size_t{8}, listsAtEnd}}) {
      for (auto &[ns, layout] : candidates)
        ns = score(layout, sampleCount, lists);
      std::stable_sort(candidates.begin(), candidates.end(),
                       [](const auto &a, const auto &b) { return a.first < b.first; });
      candidates.resize(std::min(candidates.size(), kept));
    }
    if (candidates.empty() || candidates[0].first == notPlanned)
      return std::nullopt;
    ChunkLayout best = std::move(candidates[0].second);
    improveCuts(layers, best, mostRounds, [&](const ChunkLayout &layout) {
      return left > 0 ? score(layout, 6, 14) : notPlanned;
    });
    LayoutChoice choice{best, problemOf(layers, best, frame), 0};
    choice.sampleNs = score(best, samples.size(), listsAtEnd);
    return choice;
  }

private:
  static constexpr int mostRounds = 6;

  int64_t score(const ChunkLayout &layout, size_t sampleCount, int64_t lists) {
    StepProblem problem = problemOf(layers, layout, frame);
    int64_t evaluated = 0;
    const int64_t sum = scoreOf(problem, samples, sampleCount, lists, evaluated);
    left -= 3 * evaluated * frame.microbatches * static_cast<int64_t>(problem.chunks.size());
    return sum;
  }

  const StepLayers &layers;
  const StepProblem &frame;
  const std::vector<StepLoads> &samples;
  int64_t left;
  std::vector<std::pair<int64_t, ChunkLayout>> candidates;
};

} // namespace

std::optional<LayoutChoice> chooseLayout(const StepLayers &layers, const StepProblem &frame,
                                         const std::vector<StepLoads> &samples,
                                         const LayoutSearchOptions &options) {
  return LayoutSearch(layers, frame, samples, options).run();
}

int64_t sampleNsOf(const StepLayers &layers, const ChunkLayout &layout, const StepProblem &frame,
                   const std::vector<StepLoads> &samples) {
  int64_t evaluated = 0;
  return scoreOf(problemOf(layers, layout, frame), samples, samples.size(), listsAtEnd, evaluated);
}

} // namespace omnibal::planner
