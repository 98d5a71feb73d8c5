#include "runtime/data/RandomKeys.h"
#include "runtime/support/Checksum.h"
#include "runtime/support/SplitMix.h"

namespace omnibal::rt {
namespace {

/// The `place`th number of a sequence, and never 0.
int32_t keyAt(uint64_t sequence, int64_t place) {
  const auto key =
      static_cast<uint32_t>(SplitMix::at(sequence, static_cast<uint64_t>(place)) >> 32);
  return static_cast<int32_t>(key == 0 ? 1 : key);
}

} // namespace

void RandomKeys::append(uint64_t seed, int64_t step, std::string_view sample, int64_t tokens,
                        int64_t tiles) {
  const uint64_t ofStep = SplitMix::mixed(SplitMix::at(seed, 0) + static_cast<uint64_t>(step));
  const uint64_t forTokens = SplitMix::mixed(fnv1a(sample, ofStep)),
                 forTiles = SplitMix::mixed(forTokens + 1);
  for (int64_t t = 0; t < tokens; ++t)
    ofTokens.push_back(keyAt(forTokens, t));
  for (int64_t t = 0; t < tiles; ++t)
    ofTiles.push_back(keyAt(forTiles, t));
}

int32_t keyOfRow(int32_t ofTile, int64_t row) {
  return ofTile == 0 ? 0 : keyAt(static_cast<uint32_t>(ofTile), row);
}

} // namespace omnibal::rt
