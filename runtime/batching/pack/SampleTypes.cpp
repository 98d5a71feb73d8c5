#include "runtime/batching/pack/SampleTypes.h"
#include <algorithm>
#include <cmath>
#include <numeric>

namespace omnibal::rt {
namespace {

/// True if none of the cell's samples has any load.
bool hasNoLoad(const Histogram &histogram, const Cell &cell) {
  return cell.tiles == 0 && cell.tokens == 0 && histogram.tileUnit() == 1 &&
         histogram.tokenUnit() == 1;
}

/// Exact, unless numbers of tiles are so many that they alone make too many types.
int32_t tileWidth(const std::vector<Cell> &cells, int32_t mostLines) {
  for (int32_t width = 1;; width *= 2) {
    int32_t lines = 0;
    int64_t last = -1;
    for (const Cell &cell : cells)
      if (cell.tiles / width != last) {
        last = cell.tiles / width;
        ++lines;
      }
    if (lines <= mostLines)
      return width;
  }
}

/// Grows types from the longest cell of a line down.
class TypeMaker {
public:
  /// Types of about `enough` samples, at most `widest` tokens wide; four times as wide where
  /// samples are few.
  TypeMaker(const Histogram &histogram, Caps caps, int64_t enough, int32_t widest, int32_t unit)
      : histogram(histogram), caps(caps), unit(unit), widest(widest), enough(enough) {}

  SampleTypes run(int32_t tileWidth) {
    const std::vector<Cell> &cells = histogram.cells();
    result.typeOf.assign(cells.size(), SampleTypes::withoutLoad);
    result.exactTiles = tileWidth == 1 && histogram.tileUnit() == 1;
    std::vector<uint32_t> order(cells.size());
    std::iota(order.begin(), order.end(), 0u);
    if (tileWidth > 1)
      std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        int32_t lineA = cells[a].tiles / tileWidth, lineB = cells[b].tiles / tileWidth;
        return lineA != lineB                       ? lineA < lineB
               : cells[a].tokens != cells[b].tokens ? cells[a].tokens < cells[b].tokens
                                                    : a < b;
      });
    // Backwards: the most tiles first, the longest first. The types are turned round at the end.
    for (size_t i = order.size(); i-- > 0;) {
      const Cell &cell = cells[order[i]];
      if (hasNoLoad(histogram, cell))
        continue;
      if (cell.tiles / tileWidth != line || !belongs(cell))
        open(cell.tiles / tileWidth);
      add(cell);
      result.typeOf[order[i]] = static_cast<uint32_t>(result.types.size() - 1);
    }
    finish();
    return std::move(result);
  }

private:
  double middleOf(const Cell &cell) const {
    return cell.tokens + 0.5 * (histogram.tokenUnit() - 1);
  }

  void open(int64_t newLine) {
    line = newLine;
    result.types.emplace_back();
    sum = 0;
    aim = -1;
  }

  /// A full type takes a little more if that brings its mean down to a multiple of the unit.
  bool belongs(const Cell &cell) {
    const SampleType &type = result.types.back();
    int64_t width = type.mostTokens - cell.tokens;
    if (width > widest && (width > 4 * int64_t(widest) || type.count >= enough / 8))
      return false;
    if (type.count + cell.count > 2 * enough)
      return false;
    if (type.count < enough)
      return true;
    if (aim < 0)
      aim = std::floor(type.meanTokens / unit) * unit;
    return type.meanTokens > aim;
  }

  void add(const Cell &cell) {
    SampleType &type = result.types.back();
    int32_t most = std::min(cell.tokens + (histogram.tokenUnit() - 1), caps.tokens);
    type.mostTokens = std::max(type.mostTokens, most);
    type.leastTokens = type.count == 0 ? cell.tokens : std::min(type.leastTokens, cell.tokens);
    type.tiles =
        std::max(type.tiles, std::min(cell.tiles + (histogram.tileUnit() - 1), caps.tiles));
    type.count += cell.count;
    sum += static_cast<double>(cell.count) * middleOf(cell);
    type.meanTokens = sum / static_cast<double>(type.count);
  }

  void finish() {
    std::reverse(result.types.begin(), result.types.end());
    for (uint32_t &type : result.typeOf)
      if (type != SampleTypes::withoutLoad)
        type = static_cast<uint32_t>(result.types.size() - 1 - type);
  }

  const Histogram &histogram;
  Caps caps;
  int32_t unit, widest;
  int64_t enough;
  int64_t line = -1;
  double sum = 0, aim = -1;
  SampleTypes result;
};

} // namespace

SampleTypes makeTypes(const Histogram &histogram, Caps caps, TypeChoice choice) {
  int32_t tiles = tileWidth(histogram.cells(), choice.lines);
  int64_t enough = std::max<int64_t>(1, histogram.samples() / choice.wanted);
  // Narrow types hold sums together, but there must not be too many.
  for (int32_t parts = 64;; parts /= 2) {
    int32_t widest = std::max(1, caps.tokens / parts);
    SampleTypes types = TypeMaker(histogram, caps, enough, widest, choice.unit).run(tiles);
    if (parts <= 2 || static_cast<int32_t>(types.types.size()) <= choice.most)
      return types;
  }
}

} // namespace omnibal::rt
