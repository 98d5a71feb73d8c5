//===- BatchTypes.h - What is balanced, how, and into what ---------------------------------===//
#ifndef RUNTIME_BATCHING_ROWS_BATCHTYPES_H
#define RUNTIME_BATCHING_ROWS_BATCHTYPES_H

#include <cstdint>
#include <string>
#include <vector>

namespace omnibal::rt {

/// Lengths of all samples; `tiles` and `tokens` have one entry a sample, none is negative.
struct SampleLengths {
  std::vector<int32_t> tiles;  ///< vision units (image tiles)
  std::vector<int32_t> tokens; ///< language tokens, image placeholders included
  /// For each sample the sum over its pictures of their squared numbers of units, which attention
  /// within pictures costs, or `unknown`; empty: unknown for all of them.
  std::vector<int64_t> squaredTiles = {};
  static constexpr int64_t unknown = -1;

  int64_t size() const { return static_cast<int64_t>(tiles.size()); }
  bool knowsPictures() const { return !squaredTiles.empty(); }
  /// Where the sizes of its pictures are not known, a sample's units count as one picture: no other
  /// pictures of as many units cost more.
  int64_t squaredTilesOf(int64_t sample) const {
    int64_t units = tiles[sample], squares = knowsPictures() ? squaredTiles[sample] : unknown;
    return squares == unknown ? units * units : squares;
  }
  /// Appends a sample of another table.
  void add(const SampleLengths &from, int64_t sample) {
    if (from.knowsPictures() || knowsPictures()) {
      squaredTiles.resize(tiles.size(), unknown); // of samples from tables without squares
      squaredTiles.push_back(from.knowsPictures() ? from.squaredTiles[sample] : unknown);
    }
    tiles.push_back(from.tiles[sample]);
    tokens.push_back(from.tokens[sample]);
  }
};

/// Sums over samples, of all that costs are made of.
struct LoadSums {
  double tiles = 0, tokens = 0;
  double squaredTokens = 0; ///< of a sample's tokens
  double squaredTiles = 0;  ///< of a picture's units
  void add(const SampleLengths &lengths, int64_t sample) {
    double length = lengths.tokens[sample];
    tiles += lengths.tiles[sample];
    tokens += length;
    squaredTokens += length * length;
    squaredTiles += static_cast<double>(lengths.squaredTilesOf(sample));
  }
};

/// What a group costs, in nanoseconds, a unit of each sum. All zero: counts alone are balanced.
struct LoadCost {
  double tileNs = 0, tokenNs = 0, squareNs = 0, tileSquareNs = 0;
  bool isSet() const { return tileNs > 0 || tokenNs > 0 || squareNs > 0 || tileSquareNs > 0; }
  double of(const LoadSums &sums) const {
    return tileNs * sums.tiles + tokenNs * sums.tokens + squareNs * sums.squaredTokens +
           tileSquareNs * sums.squaredTiles;
  }
};

enum class BatchMethod {
  Plan, ///< patterns of a configuration LP, rows of equal sums, stratified order
  Isf,  ///< iterative sampling and filtering (OmniBal, arXiv 2407.20761), without its known defects
  Random, ///< next-fit of one random permutation
  Sorted  ///< next-fit in order of tokens
};

/// What happens to a sample with more tiles or tokens than the caps.
enum class Oversize {
  Error,    ///< the call fails and names samples
  OwnGroup, ///< it gets a group to itself
  Skip      ///< it is left out and listed
};

/// The last epoch that may be asked for; a run goes on from there.
constexpr int64_t largestEpoch = int64_t{1} << 20;

struct BatchOptions {
  BatchMethod method = BatchMethod::Plan;
  Oversize oversize = Oversize::Error;
  int64_t tilesCap = 0, tokensCap = 0;
  int32_t ranks = 1;
  uint64_t seed = 1;
  int64_t epoch = 0; ///< each epoch has its own composition, a function of (seed, epoch)
  LoadCost cost;     ///< when set, rows are formed by this cost as well
};

struct Batches {
  std::vector<int64_t> samples;  ///< sample numbers, group after group
  std::vector<int64_t> offsets;  ///< groups + 1; group g is samples[offsets[g] .. offsets[g + 1])
  std::vector<int64_t> oversize; ///< numbers of the samples over a cap, ascending
  int64_t lowerBound = 0;  ///< no grouping of these samples has fewer groups (ranks not counted)
  std::string boundMethod; ///< "sum", "big-item" or "configuration-lp"
  int64_t groups() const { return static_cast<int64_t>(offsets.size()) - 1; }
};

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_ROWS_BATCHTYPES_H
