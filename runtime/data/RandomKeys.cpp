#include "runtime/data/RandomKeys.h"
#include "runtime/support/Checksum.h"

namespace omnibal::rt {
namespace {

/// SplitMix64's finalizer (Steele, Lea and Flood 2014): every bit of the result depends on all
/// bits.
uint64_t mixed(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

constexpr uint64_t step64 = 0x9e3779b97f4a7c15u; ///< odd, near 2^64 over the golden ratio

/// The `place`th number of a sequence, and never 0.
int32_t keyAt(uint64_t sequence, int64_t place) {
  const auto key =
      static_cast<uint32_t>(mixed(sequence + static_cast<uint64_t>(place + 1) * step64) >> 32);
  return static_cast<int32_t>(key == 0 ? 1 : key);
}

} // namespace

void RandomKeys::append(uint64_t seed, int64_t step, std::string_view sample, int64_t tokens,
                        int64_t tiles) {
  const uint64_t ofStep = mixed(mixed(seed + step64) + static_cast<uint64_t>(step));
  const uint64_t forTokens = mixed(fnv1a(sample, ofStep)), forTiles = mixed(forTokens + 1);
  for (int64_t t = 0; t < tokens; ++t)
    ofTokens.push_back(keyAt(forTokens, t));
  for (int64_t t = 0; t < tiles; ++t)
    ofTiles.push_back(keyAt(forTiles, t));
}

int32_t keyOfRow(int32_t ofTile, int64_t row) {
  return ofTile == 0 ? 0 : keyAt(static_cast<uint32_t>(ofTile), row);
}

} // namespace omnibal::rt
