#include "runtime/batching/lengths/LengthBins.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace omnibal::rt {
namespace {

constexpr int binsAnOctave = 8;

} // namespace

std::vector<LengthBin> binLengths(const std::vector<Cell> &cells, const LengthGroups &candidates) {
  std::vector<int64_t> tileBorders, tokenBorders;
  for (const LengthGroup &g : candidates.groups) {
    tileBorders.push_back(g.tilesCap);
    tokenBorders.push_back(g.tokensCap);
  }
  std::sort(tileBorders.begin(), tileBorders.end());
  std::sort(tokenBorders.begin(), tokenBorders.end());
  auto classOf = [](const std::vector<int64_t> &borders, int64_t value) {
    return std::lower_bound(borders.begin(), borders.end(), value) - borders.begin();
  };
  std::map<std::array<int64_t, 3>, LengthBin> bins;
  for (const Cell &cell : cells) {
    int64_t octave = std::llround(std::floor(binsAnOctave * std::log2(1.0 + cell.tokens)));
    LengthBin &bin =
        bins[{octave, classOf(tokenBorders, cell.tokens), classOf(tileBorders, cell.tiles)}];
    double n = static_cast<double>(cell.count), t = cell.tokens;
    bin.count += n;
    bin.tiles += n * cell.tiles;
    bin.tokens += n * t;
    bin.squares += n * t * t;
    bin.mostTiles = std::max(bin.mostTiles, cell.tiles);
    bin.mostTokens = std::max(bin.mostTokens, cell.tokens);
  }
  std::vector<LengthBin> list;
  for (const auto &[key, bin] : bins)
    list.push_back(bin);
  return list;
}

} // namespace omnibal::rt
