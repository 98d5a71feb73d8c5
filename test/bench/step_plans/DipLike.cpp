//===- DipLike.cpp -----------------------------------------------------------------------===//
#include "test/bench/step_plans/DipLike.h"
#include "runtime/planner/step/ListMaker.h"
#include <algorithm>
#include <numeric>
#include <random>

namespace omnibal::bench {

using namespace planner;

namespace {

int64_t visionLayers(const StepLayers &layers) {
  return std::count_if(layers.layers.begin(), layers.layers.end(), [](const StepLayer &layer) {
    return layer.component == ChunkComponent::Vision;
  });
}

Borders evenParts(const StepLoads &loads, int64_t tiles) {
  Borders borders;
  for (const MicrobatchLoad &microbatch : loads.microbatches) {
    std::vector<int64_t> &own = borders.emplace_back();
    int64_t all = microbatch.load.tiles, parts = (all + tiles - 1) / tiles;
    for (int64_t p = 0; all > 0 && p <= parts; ++p)
      own.push_back(all * p / parts);
  }
  return borders;
}

} // namespace

ChunkLayout dipLayout(const StepLayers &layers, int64_t vision, int64_t language, int64_t stages) {
  ChunkLayout layout;
  auto count = static_cast<int64_t>(layers.layers.size()), border = visionLayers(layers);
  auto add = [&](int64_t begin, int64_t end, int64_t chunks) {
    for (int64_t c = 0; c < chunks; ++c) {
      layout.cuts.push_back(begin + (end - begin) * c / chunks);
      layout.stages.push_back(c % stages);
    }
  };
  add(0, border, vision * stages);
  add(border, count, language * stages);
  layout.cuts.push_back(count);
  return layout;
}

ChunkLayout dipLayout(const StepLayers &layers, const std::vector<int64_t> &work, int64_t stages) {
  int64_t border = visionLayers(layers), count = static_cast<int64_t>(layers.layers.size());
  int64_t vision = std::accumulate(work.begin(), work.begin() + border, int64_t{0});
  int64_t language = std::accumulate(work.begin() + border, work.end(), int64_t{0});
  int64_t least = std::max<int64_t>(std::min(vision, language), 1);
  // No chunk may be empty.
  return dipLayout(layers, std::clamp<int64_t>(vision / least, 1, border / stages),
                   std::clamp<int64_t>(language / least, 1, (count - border) / stages), stages);
}

int64_t dipStep(const StepProblem &problem, const StepLoads &loads, int64_t tiles,
                int64_t evaluations) {
  StepModel model(problem);
  StepUnits units(model, loads, evenParts(loads, tiles));
  std::vector<UnitBytes> bytes = unitBytes(units);
  std::vector<int64_t> limits;
  if (!problem.memoryBytes.empty())
    for (int64_t s = 0; s < problem.stages; ++s)
      limits.push_back(problem.memoryOf(s));
  ListMaker maker(units, bytes, limits);
  StepPolicy policy;
  policy.phase = StepPolicy::Phase::InTurn;
  policy.isSplit = false;
  policy.window = static_cast<int32_t>(problem.microbatches);
  policy.level = limits.empty() ? 0 : 3;
  std::vector<int32_t> order(problem.microbatches), best;
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(1);
  auto below = [&](size_t count) { return static_cast<size_t>(random() % count); };
  int64_t bestNs = std::numeric_limits<int64_t>::max();
  StepLists bestLists;
  StepPolicy bestPolicy = policy;
  best = order;
  for (int64_t i = 0; i < evaluations; ++i) {
    // All ways to take segments are tried first; the tree's leaves are orders of segments.
    if (i < 12) {
      policy.forwards = static_cast<StepPolicy::Forwards>(i % 3);
      policy.phase = i % 2 ? StepPolicy::Phase::InTurn : StepPolicy::Phase::BackwardFirst;
      policy.window = static_cast<int32_t>(
          i < 6 ? problem.microbatches : std::min(problem.microbatches, 2 * problem.stages));
    } else {
      order = best;
      policy = bestPolicy;
      std::swap(order[below(order.size())], order[below(order.size())]);
      if (below(3) == 0)
        std::swap(order[below(order.size())], order[below(order.size())]);
    }
    const TimedLists *made = maker.make(policy, order);
    if (!made || made->stepNs > bestNs)
      continue;
    bestNs = made->stepNs;
    best = order;
    bestPolicy = policy;
    bestLists = made->lists;
  }
  if (limits.empty() || bestLists.actions.empty())
    return bestNs;
  fatten(units, bytes, limits, bestLists);
  return timesOf(units, bestLists)->stepNs;
}

} // namespace omnibal::bench
