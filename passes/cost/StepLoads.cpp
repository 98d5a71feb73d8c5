#include "passes/cost/StepLoads.h"
#include <algorithm>
#include <cmath>

namespace omnibal::cost {
namespace {

constexpr int factorDigits = 4, factorUnits = 10000;

planner::Decimal ratio(int64_t part, int64_t whole) {
  __int128 units = (static_cast<__int128>(part) * factorUnits + whole - 1) / whole;
  return planner::Decimal::of(static_cast<int64_t>(units), factorDigits);
}

} // namespace

std::vector<planner::StepLoads> sampleSteps(const EpochLoads &epoch, int64_t microbatches,
                                            const MicrobatchLoad &full) {
  constexpr int64_t most = 16;
  const int64_t perStep = microbatches * epoch.replicas;
  const int64_t steps = static_cast<int64_t>(epoch.groups.size()) / perStep;
  const int64_t count = std::min(most, steps);
  std::vector<planner::StepLoads> samples(std::max<int64_t>(1, count));
  for (int64_t s = 0; s < static_cast<int64_t>(samples.size()); ++s) {
    const int64_t step = count > 0 ? s * steps / count : 0;
    samples[s].step = step;
    for (int64_t m = 0; m < microbatches; ++m) {
      planner::UnitLoad load{full.tiles, full.tokens, full.squares(), 0};
      if (count > 0) {
        const GroupLoad &group = epoch.groups[step * perStep + m * epoch.replicas];
        load = {group.tiles, group.tokens, group.squaredTokens, 0};
      }
      samples[s].microbatches.push_back({load, std::nullopt});
    }
  }
  return samples;
}

planner::Decimal factorOf(double share) {
  return planner::Decimal::of(std::llround(std::ceil(share * factorUnits - 1e-6)), factorDigits);
}

MicrobatchLoad loadAtCaps(const EpochLoads &epoch, int64_t tilesCap, int64_t tokensCap) {
  __int128 tiles = 0, tokens = 0, squaredTiles = 0, squaredTokens = 0;
  for (const GroupLoad &group : epoch.groups) {
    tiles += group.tiles;
    tokens += group.tokens;
    squaredTiles += group.squaredTiles;
    squaredTokens += group.squaredTokens;
  }
  auto scaled = [](__int128 squares, __int128 length, int64_t cap) -> std::optional<int64_t> {
    if (length == 0)
      return std::nullopt;
    return static_cast<int64_t>((squares * cap + length - 1) / length);
  };
  return {tilesCap, tokensCap, scaled(squaredTokens, tokens, tokensCap),
          scaled(squaredTiles, tiles, tilesCap)};
}

std::vector<GroupLoad> stepOf(const EpochLoads &epoch, int64_t microbatches, int64_t step) {
  const int64_t perStep = microbatches * epoch.replicas;
  const auto groups = static_cast<int64_t>(epoch.groups.size());
  std::vector<GroupLoad> result(microbatches);
  for (int64_t i = 0; i < perStep && step * perStep + i < groups; ++i) {
    const GroupLoad &group = epoch.groups[step * perStep + i];
    GroupLoad &largest = result[i / epoch.replicas];
    largest.tiles = std::max(largest.tiles, group.tiles);
    largest.tokens = std::max(largest.tokens, group.tokens);
    largest.squaredTokens = std::max(largest.squaredTokens, group.squaredTokens);
    largest.squaredTiles = std::max(largest.squaredTiles, group.squaredTiles);
  }
  return result;
}

std::vector<GroupLoad> typicalStep(const EpochLoads &epoch, int64_t microbatches,
                                   const UnitCosts &costs) {
  int64_t perStep = microbatches * epoch.replicas;
  int64_t groups = static_cast<int64_t>(epoch.groups.size());
  std::vector<std::pair<double, int64_t>> steps; // work, number
  for (int64_t s = 0; s < groups / perStep; ++s) {
    double work = 0;
    for (int64_t g = s * perStep; g < (s + 1) * perStep; ++g)
      work += costs.of(epoch.groups[g]);
    steps.push_back({work, s});
  }
  int64_t chosen = 0;
  if (!steps.empty()) {
    auto median = steps.begin() + static_cast<int64_t>(steps.size() - 1) / 2;
    std::nth_element(steps.begin(), median, steps.end());
    chosen = median->second;
  }
  return stepOf(epoch, microbatches, chosen);
}

planner::LoadFactors factorsOf(const GroupLoad &microbatch, int64_t tilesCap, int64_t tokensCap) {
  planner::LoadFactors factors;
  if (tilesCap > 0)
    factors["vision"] = factors["projector"] = ratio(microbatch.tiles, tilesCap);
  if (tokensCap > 0)
    factors["language"] = factors["head"] = ratio(microbatch.tokens, tokensCap);
  return factors;
}

} // namespace omnibal::cost
