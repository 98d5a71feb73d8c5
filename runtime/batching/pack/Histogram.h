//===- Histogram.h - How many samples of each length -----------------------------------------===//
#ifndef RUNTIME_BATCHING_PACK_HISTOGRAM_H
#define RUNTIME_BATCHING_PACK_HISTOGRAM_H

#include "runtime/batching/rows/Grouping.h"
#include <span>

namespace omnibal::rt {

/// The samples of one length. If lengths are so diverse that there are too many exact ones, they
/// are rounded down to a multiple of the histogram's units.
struct Cell {
  int32_t tiles = 0, tokens = 0;
  int64_t count = 0;
};

/// Cells in order of tiles, then tokens; none is empty.
class Histogram {
public:
  Histogram() = default;
  /// Makes the histogram of the samples within the caps.
  Histogram(const SampleLengths &lengths, Caps caps);
  /// Makes the histogram of these exact lengths; cellOf is not available then.
  explicit Histogram(std::vector<Cell> cells);

  const std::vector<Cell> &cells() const { return theCells; }
  int64_t samples() const { return theSamples; }
  int32_t tileUnit() const { return 1 << tileShift; }
  int32_t tokenUnit() const { return 1 << tokenShift; }
  int64_t totalTiles() const { return theTiles; }   ///< exact
  int64_t totalTokens() const { return theTokens; } ///< exact

  /// Number of the cell of a sample within the caps.
  uint32_t cellOf(int32_t tiles, int32_t tokens) const {
    const Line &line = lines[tiles >> tileShift];
    return numbers[line.begin + ((tokens >> tokenShift) - line.first)];
  }

private:
  /// The table's part for one number of tiles.
  struct Line {
    int32_t first = INT32_MAX, last = -1; ///< token cells
    size_t begin = 0;
  };
  std::vector<Cell> theCells;
  std::vector<Line> lines;
  std::vector<uint32_t> numbers; ///< counts while it is made, then cell numbers
  int64_t theSamples = 0, theTiles = 0, theTokens = 0;
  int32_t tileShift = 0, tokenShift = 0;
};

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_PACK_HISTOGRAM_H
