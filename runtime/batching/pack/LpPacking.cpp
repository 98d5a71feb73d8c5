#include "runtime/batching/pack/LpPacking.h"
#include "runtime/batching/pack/ConfigurationLp.h"
#include <algorithm>
#include <cmath>

namespace omnibal::rt {
namespace {

/// A relative deviation of a pattern's tokens counts as this part of a group.
constexpr double deviationCost = 0.005;
/// Additions of one knapsack, and its most classes of tiles.
constexpr int64_t knapsackWork = 1 << 22;
constexpr int32_t tileClasses = 512;

/// Where tokens are what limits groups, fine types of tokens matter; else exact tiles.
TypeChoice typeChoice(const Histogram &histogram, Caps caps) {
  bool tokensBind = static_cast<double>(histogram.totalTokens()) / caps.tokens >
                    0.9 * static_cast<double>(histogram.totalTiles()) / caps.tiles;
  TypeChoice choice;
  choice.wanted = 60;
  choice.most = 160;
  choice.lines = tokensBind ? 24 : 256;
  int64_t work = (int64_t(std::min(caps.tiles, tileClasses)) + 1) * choice.wanted;
  while (work * (int64_t(caps.tokens) / choice.unit + 1) > knapsackWork &&
         choice.unit < caps.tokens / 2)
    choice.unit *= 2;
  return choice;
}

/// The LP counts tiles in multiples of `tileUnit`, rounded up.
std::vector<LpType> lpTypes(const SampleTypes &types, const Histogram &histogram, Caps caps,
                            int32_t tileUnit) {
  double tokens = static_cast<double>(histogram.totalTokens());
  double mean = tokens / static_cast<double>(histogram.samples());
  double groups = std::max(
      {1.0, tokens / caps.tokens, static_cast<double>(histogram.totalTiles()) / caps.tiles});
  double group = std::max(1.0, tokens / groups);
  std::vector<LpType> result;
  for (const SampleType &type : types.types) {
    int32_t tiles = type.tiles / tileUnit + (type.tiles % tileUnit > 0);
    result.push_back({std::min(tiles, caps.tiles / tileUnit), type.meanTokens,
                      static_cast<double>(type.count), (type.meanTokens - mean) / group});
  }
  return result;
}

/// Whole numbers: rounded down, then up again where all samples of the pattern are there.
std::vector<int64_t> wholeUses(const SampleTypes &types, const LpSolution &lp) {
  std::vector<int64_t> uses(lp.uses.size()), rest(types.types.size());
  for (size_t i = 0; i < rest.size(); ++i)
    rest[i] = types.types[i].count;
  auto take = [&](size_t p, int64_t times) {
    uses[p] += times;
    for (auto [type, count] : lp.patterns[p])
      rest[type] -= times * count;
  };
  std::vector<std::pair<double, size_t>> fractions;
  for (size_t p = 0; p < uses.size(); ++p) {
    double whole = std::floor(lp.uses[p] + 1e-6);
    take(p, static_cast<int64_t>(whole));
    fractions.push_back({whole - lp.uses[p], p});
  }
  std::sort(fractions.begin(), fractions.end());
  for (auto [fraction, p] : fractions) {
    bool all = true;
    for (auto [type, count] : lp.patterns[p])
      all = all && rest[type] >= count;
    if (all)
      take(p, 1);
  }
  return uses;
}

} // namespace

LpPacking lpPacking(const SampleLengths &lengths, Caps caps, const Histogram &histogram,
                    Random random) {
  LpPacking packing;
  TypeChoice choice = typeChoice(histogram, caps);
  packing.types = makeTypes(histogram, caps, choice);
  int32_t tileUnit = caps.tiles / tileClasses + 1;
  LpSolution lp;
  if (!packing.types.types.empty())
    lp = solveConfigurationLp(lpTypes(packing.types, histogram, caps, tileUnit),
                              caps.tiles / tileUnit, caps.tokens, choice.unit, {deviationCost},
                              {5e-5});
  packing.expansion = expandPatterns(lengths, caps, histogram, packing.types, lp.patterns,
                                     wholeUses(packing.types, lp), random);
  packing.prices = std::move(lp.prices);
  return packing;
}

} // namespace omnibal::rt
