//===- BestFit.h - The tightest group with room ----------------------------------------------===//
#ifndef RUNTIME_BATCHING_PACK_BESTFIT_H
#define RUNTIME_BATCHING_PACK_BESTFIT_H

#include "runtime/batching/rows/Grouping.h"

namespace omnibal::rt {

/// How much a unit of either load matters, so that room left in both can be compared.
struct LoadWeights {
  double tile = 0, token = 0;
  double of(int64_t tiles, int64_t tokens) const {
    return tile * static_cast<double>(tiles) + token * static_cast<double>(tokens);
  }
};

/// Groups with room, found by what they have left. Room is kept in up to 64 x 4096 classes,
/// rounded down, so a query takes a few operations for each class of tiles.
class OpenGroups {
public:
  OpenGroups(Caps caps, LoadWeights weights);

  /// Adds `group`, which has this room left.
  void insert(uint32_t group, int32_t tiles, int32_t tokens);
  /// Removes and returns the group that has the least room left once this sample is in it; -1 if
  /// none has room.
  int64_t take(int32_t tiles, int32_t tokens);

private:
  static constexpr int32_t words = 64; ///< of token classes
  struct Line {
    uint64_t any = 0; ///< words that are not 0
    uint64_t bits[words] = {};
  };
  /// Returns the first token class >= `from` with a group; -1: none.
  static int32_t firstFrom(const Line &line, int32_t from);

  LoadWeights weights;
  int32_t tileUnit, tokenUnit;
  std::vector<Line> lines;                   ///< a class of tiles each
  std::vector<std::vector<uint32_t>> groups; ///< [line][token class]
};

/// Adds samples to groups with room, the largest first, each where it leaves the least room, and
/// opens groups where there is none. `tiles` and `tokens` are the sums of the groups; `open` are
/// the groups to try. The grouping is rebuilt: numbers of groups stay, and new groups come after
/// them.
void bestFit(const SampleLengths &lengths, Caps caps, LoadWeights weights,
             const std::vector<uint32_t> &open, std::vector<uint32_t> samples, Grouping &grouping,
             std::vector<uint32_t> &tiles, std::vector<uint32_t> &tokens);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_PACK_BESTFIT_H
