//===- SplitChoices.cpp ------------------------------------------------------------------===//
#include "runtime/planner/step/SplitChoices.h"
#include <algorithm>

namespace omnibal::planner {

size_t mostVariants(const StepProblem &problem) {
  size_t most = 1;
  for (const StepChunk &chunk : problem.chunks)
    most = std::max(most, chunk.variants.size());
  return most;
}

int64_t efficientTiles(const StepVariant &variant, int64_t most) {
  const ExactTime forward(variant.times[0]), backward(variant.times[1]);
  auto at = [&](int64_t tiles) {
    const UnitLoad load{tiles, 0, 0, 0};
    return forward.at(load) + backward.at(load);
  };
  int64_t tiles = 1;
  while (tiles <= most && at(tiles) < 10 * at(0))
    ++tiles;
  return tiles;
}

SplitChoices::SplitChoices(const StepModel &model, const StepLoads &loads, bool maySplit)
    : problem(model.problem), loads(loads), mostParts(loads.microbatches.size(), 1) {
  StepUnits units(model, loads, wholeMicrobatches(loads));
  works.resize(loads.microbatches.size());
  for (size_t u = 0; u < units.units.size(); ++u)
    for (ActionKind kind : {ActionKind::Forward, ActionKind::Backward})
      works[units.units[u].microbatch] += units.duration(static_cast<int32_t>(u), 0, kind);
  bool hasVision = false;
  for (const StepChunk &chunk : problem.chunks)
    hasVision |= chunk.component == ChunkComponent::Vision;
  if (!maySplit || !hasVision || problem.mostParts < 2 ||
      problem.microbatches >= 2 * problem.stages)
    return;
  int64_t largest = 0;
  for (size_t m = 0; m < loads.microbatches.size(); ++m) {
    int64_t most =
        std::min(problem.mostParts, loads.microbatches[m].load.tiles / problem.leastTiles);
    for (int64_t parts = 2; parts <= most; ++parts)
      if (bordersOf(m, parts).size() == static_cast<size_t>(parts) + 1)
        mostParts[m] = static_cast<int32_t>(parts);
    if (mostParts[m] > 1)
      largest = std::max(largest, loads.microbatches[m].load.tiles);
  }
  for (int64_t parts = 2; parts <= problem.mostParts && largest > 0; ++parts)
    if (int64_t size = (largest + parts - 1) / parts; allSizes.empty() || size < allSizes.back())
      allSizes.push_back(size);
}

int32_t SplitChoices::partsOfSize(int32_t microbatch, int64_t size) const {
  int64_t parts = (loads.microbatches[microbatch].load.tiles + size - 1) / size;
  return static_cast<int32_t>(std::clamp<int64_t>(parts, 1, mostParts[microbatch]));
}

/// Even parts; each border is the cut nearest to its place that leaves the parts before and behind
/// it large enough, and is left out where there is none.
std::vector<int64_t> SplitChoices::bordersOf(size_t microbatch, int64_t parts) const {
  const auto &[load, cuts] = loads.microbatches[microbatch];
  std::vector<int64_t> borders = {0};
  for (int64_t p = 1; p < parts; ++p) {
    int64_t wanted = load.tiles * p / parts, best = -1;
    auto consider = [&](int64_t cut) {
      bool isLargeEnough =
          cut - borders.back() >= problem.leastTiles && load.tiles - cut >= problem.leastTiles;
      if (isLargeEnough && (best < 0 || std::abs(cut - wanted) < std::abs(best - wanted)))
        best = cut;
    };
    if (cuts)
      for (int64_t cut : *cuts)
        consider(cut);
    else
      consider(std::max(wanted, borders.back() + problem.leastTiles));
    if (best > 0)
      borders.push_back(best);
  }
  borders.push_back(load.tiles);
  return borders;
}

Borders SplitChoices::borders(const std::vector<int32_t> &parts) const {
  Borders borders = wholeMicrobatches(loads);
  for (size_t m = 0; m < borders.size(); ++m)
    if (parts[m] > 1 && !borders[m].empty())
      borders[m] = bordersOf(m, parts[m]);
  return borders;
}

} // namespace omnibal::planner
