//===- RandomBits.h - Counter-based random numbers -----------------------------------------===//
#ifndef RUNTIME_SUPPORT_RANDOMBITS_H
#define RUNTIME_SUPPORT_RANDOMBITS_H

#include <cstdint>

namespace omnibal::rt {

/// A bijection of 32-bit words whose output bits each depend on all input bits: two rounds of a
/// shift and a product, and a shift. Code generation emits the same steps, and
/// test/scripts/random_bits.py has them in NumPy.
struct RandomBits {
  static constexpr unsigned shifts[] = {16, 15, 16};
  static constexpr uint32_t factors[] = {0x21f0aaad, 0x735a2d97};
  /// Odd, so that neighboring columns, layers and streams lie far apart.
  static constexpr uint32_t ofColumn = 0x9e3779b1, ofLayer = 0x85ebca77, ofStream = 0xc2b2ae3d;
  /// The upper 24 bits make the number: as many as a float32 holds.
  static constexpr unsigned dropped = 8;
  static constexpr double unit = 1.0 / (1 << 24);

  static constexpr uint32_t mix(uint32_t x) {
    x = (x ^ x >> shifts[0]) * factors[0];
    x = (x ^ x >> shifts[1]) * factors[1];
    return x ^ x >> shifts[2];
  }
  /// The number in [0, 1).
  static constexpr double uniform(uint32_t key, uint32_t column, uint32_t layer, uint32_t stream) {
    const uint32_t row = mix(key ^ mix(layer * ofLayer + stream * ofStream));
    return (mix(row ^ column * ofColumn) >> dropped) * unit;
  }
};

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_RANDOMBITS_H
