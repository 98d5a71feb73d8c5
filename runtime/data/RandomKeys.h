//===- RandomKeys.h - What random numbers of a micro-batch are made from ----------------------===//
#ifndef RUNTIME_DATA_RANDOMKEYS_H
#define RUNTIME_DATA_RANDOMKEYS_H

#include <cstdint>
#include <string_view>
#include <vector>

namespace omnibal::rt {

/// Numbers other than 0 of the tokens [N] and tiles [V] of a micro-batch. They follow from the
/// run's seed, the step, the sample's key and the place in the sample, so they are the same in
/// whatever micro-batch, replica and order the sample comes.
struct RandomKeys {
  std::vector<int32_t> ofTokens, ofTiles;

  /// Appends those of a sample; `step` is that of the list of groups.
  void append(uint64_t seed, int64_t step, std::string_view sample, int64_t tokens, int64_t tiles);
};

/// The number of row `row` of a tile, as the number of the tile says; 0 of 0.
int32_t keyOfRow(int32_t ofTile, int64_t row);

} // namespace omnibal::rt
#endif // RUNTIME_DATA_RANDOMKEYS_H
