//===- Grouping.h - Groups while they are being made -----------------------------------------===//
#ifndef RUNTIME_BATCHING_ROWS_GROUPING_H
#define RUNTIME_BATCHING_ROWS_GROUPING_H

#include "runtime/batching/rows/BatchTypes.h"
#include <cstdint>
#include <vector>

namespace omnibal::rt {

/// The most samples of one call; numbers fit 32 bits, which halves the memory.
constexpr int64_t mostSamples = (int64_t(1) << 31) - 1;

/// The largest sums that a group may have. Each is at most 2^31 - 1, so sums of groups fit 32 bits.
struct Caps {
  int32_t tiles = 0, tokens = 0;
};

struct GroupLoad {
  int64_t tiles = 0, tokens = 0;
};

/// Group g is samples[offsets[g] .. offsets[g + 1]).
struct Grouping {
  std::vector<uint32_t> samples;
  std::vector<uint32_t> offsets{0};
  int64_t groups() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t size(int64_t group) const { return offsets[group + 1] - offsets[group]; }
  /// Ends the group of the samples added last.
  void close() { offsets.push_back(static_cast<uint32_t>(samples.size())); }
};

/// Groups with the sums of their samples.
struct LoadedGroups {
  Grouping grouping;
  std::vector<uint32_t> tiles, tokens; ///< of each group
};

inline GroupLoad loadOf(const SampleLengths &lengths, const Grouping &grouping, int64_t group) {
  GroupLoad load;
  for (uint32_t i = grouping.offsets[group]; i < grouping.offsets[group + 1]; ++i) {
    load.tiles += lengths.tiles[grouping.samples[i]];
    load.tokens += lengths.tokens[grouping.samples[i]];
  }
  return load;
}

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_ROWS_GROUPING_H
