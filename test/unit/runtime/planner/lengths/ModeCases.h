//===- ModeCases.h - Two modes of a planning problem, and samples for them ------------------===//
#ifndef TEST_UNIT_RUNTIME_PLANNER_LENGTHS_MODECASES_H
#define TEST_UNIT_RUNTIME_PLANNER_LENGTHS_MODECASES_H

#include "runtime/planner/lengths/LengthJudge.h"
#include "test/unit/runtime/planner/RandomProblem.h"
#include <cmath>

namespace omnibal::planner {

inline constexpr int64_t caseTiles = 32, caseTokens = 4096;

/// Times that make a full micro-batch take what the problem says: vision by tiles, the rest by
/// tokens and, a tenth to a half of it, by squares.
inline ModeProblem modeOf(Problem problem, const ModeLoad &full, uint64_t seed) {
  Draw draw(seed);
  ModeProblem mode{std::move(problem), full, {}, 0};
  for (const Layer &layer : mode.problem.layers) {
    const bool vision = layer.kind == "vision" || layer.kind == "projector";
    const double squares = static_cast<double>(draw(1, 5)) / 10;
    auto time = [&](int64_t ns) {
      const auto all = static_cast<double>(ns);
      return vision
                 ? LoadTime{0, all / full.tiles, 0, 0}
                 : LoadTime{0, 0, all * (1 - squares) / full.tokens, all * squares / full.squares};
    };
    auto &options = mode.times.emplace_back();
    for (const RematOption &option : layer.remat)
      options.push_back({time(layer.forwardNs),
                         time(layer.inputGradNs + layer.weightGradNs + option.recomputeNs)});
  }
  return mode;
}

/// Short samples with pictures, and a few that only whole caps hold.
inline std::vector<rt::Cell> randomCells(uint64_t seed) {
  Draw draw(seed);
  std::vector<rt::Cell> cells;
  for (int32_t tokens = 100; tokens < caseTokens; tokens += static_cast<int32_t>(draw(40, 400)))
    cells.push_back({static_cast<int32_t>(draw(0, tokens * 20 / 4096)), tokens,
                     draw(1, 1 + 400 / (1 + tokens / 500))});
  return cells;
}

/// What a full group of the samples that it holds is like.
inline ModeLoad typicalLoad(const rt::LengthGroup &group, const std::vector<rt::Cell> &cells) {
  ModeLoad held;
  for (const rt::Cell &cell : cells)
    if (group.holds(cell.tiles, cell.tokens)) {
      const auto n = static_cast<double>(cell.count);
      held.add(n * cell.tiles, n * cell.tokens, n * cell.tokens * cell.tokens);
    }
  return meanGroup(group, held);
}

/// The problem's times are those of a typical micro-batch, its memory that of a full one.
inline void useTypicalTimes(LengthCandidate &candidate, const std::vector<rt::Cell> &cells) {
  const ModeLoad load = typicalLoad(candidate.group, cells);
  std::vector<Layer> &layers = candidate.mode.problem.layers;
  for (size_t l = 0; l < layers.size(); ++l) {
    const std::vector<OptionTime> &times = candidate.mode.times[l];
    const double keep = times.front().backward.of(load);
    const int64_t backward = layers[l].inputGradNs + layers[l].weightGradNs;
    layers[l].inputGradNs = backward
                                ? std::llround(keep * static_cast<double>(layers[l].inputGradNs) /
                                               static_cast<double>(backward))
                                : 0;
    layers[l].weightGradNs = std::llround(keep) - layers[l].inputGradNs;
    layers[l].forwardNs = std::llround(times.front().forward.of(load));
    for (size_t o = 0; o < times.size(); ++o)
      layers[l].remat[o].recomputeNs = std::llround(times[o].backward.of(load) - keep);
  }
}

/// A candidate at `caseTokens` / `divisor` tokens; the problem is that of whole caps.
inline LengthCandidate candidateOf(const Problem &whole, int64_t divisor, uint64_t seed,
                                   const std::vector<rt::Cell> &cells) {
  LengthCandidate candidate;
  rt::LengthGroup &group = candidate.group;
  group.name = "1/" + std::to_string(divisor);
  group.tilesCap = caseTiles / divisor;
  group.tokensCap = caseTokens / divisor;
  group.microbatches = whole.microbatches * divisor;
  Problem part = whole;
  part.factors.clear();
  part.microbatches = group.microbatches;
  for (Layer &layer : part.layers) {
    for (int64_t *ns : {&layer.forwardNs, &layer.inputGradNs, &layer.weightGradNs})
      *ns /= divisor;
    for (RematOption &option : layer.remat) {
      option.savedBytes /= divisor;
      option.recomputeNs /= divisor;
      option.workspaceBytes /= divisor;
    }
  }
  for (Edge &edge : part.edges) {
    edge.bytes /= divisor;
    edge.gradBytes /= divisor;
  }
  const ModeLoad full{static_cast<double>(group.tilesCap), static_cast<double>(group.tokensCap),
                      1000.0 * static_cast<double>(group.tokensCap)};
  candidate.mode = modeOf(std::move(part), full, seed);
  useTypicalTimes(candidate, cells);
  return candidate;
}

/// All ways to cut layers into stages.
inline std::vector<std::vector<int64_t>> allCuts(int64_t layers, int64_t stages) {
  std::vector<std::vector<int64_t>> result{{0}};
  for (int64_t s = 1; s <= stages; ++s) {
    std::vector<std::vector<int64_t>> next;
    for (const std::vector<int64_t> &cuts : result)
      for (int64_t end = s == stages ? layers : cuts.back() + 1; end <= layers - (stages - s);
           ++end) {
        next.push_back(cuts);
        next.back().push_back(end);
      }
    result = std::move(next);
  }
  return result;
}

} // namespace omnibal::planner
#endif // TEST_UNIT_RUNTIME_PLANNER_LENGTHS_MODECASES_H
