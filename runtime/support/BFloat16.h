//===- BFloat16.h - The upper half of a float32 ----------------------------------------------===//
#ifndef RUNTIME_SUPPORT_BFLOAT16_H
#define RUNTIME_SUPPORT_BFLOAT16_H

#include <bit>
#include <cmath>
#include <cstdint>

namespace omnibal::rt {

/// A stored number: arithmetic happens in float32. Conversions round to nearest, ties to even;
/// a NaN stays one.
struct BFloat16 {
  uint16_t bits = 0;

  static BFloat16 fromFloat(float value) {
    auto word = std::bit_cast<uint32_t>(value);
    if (value != value)
      return {static_cast<uint16_t>(word >> 16 | 0x40)};
    return {static_cast<uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16)};
  }
  /// Rounds once. A float32 between two bfloat16 that the value was rounded to may lie on the
  /// middle where the value does not; moving it by one unit keeps it on the value's side.
  static BFloat16 fromDouble(double value) {
    auto near = static_cast<float>(value);
    if (static_cast<double>(near) != value && (std::bit_cast<uint32_t>(near) & 0xffff) == 0x8000)
      near = std::nextafter(near, static_cast<float>(value > near ? INFINITY : -INFINITY));
    return fromFloat(near);
  }
  float toFloat() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};
static_assert(sizeof(BFloat16) == 2);

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_BFLOAT16_H
