//===- Float16.h - IEEE binary16 as a stored number ----------------------------------------===//
#ifndef RUNTIME_SUPPORT_FLOAT16_H
#define RUNTIME_SUPPORT_FLOAT16_H

#include <bit>
#include <cmath>
#include <cstdint>

namespace omnibal::rt {

/// A stored number: arithmetic happens in float32. Conversions round to nearest, ties to even; what
/// is above the largest number (65504) by half a unit or more becomes infinite; a NaN stays one.
struct Float16 {
  uint16_t bits = 0;

  static Float16 fromFloat(float value) {
    const auto word = std::bit_cast<uint32_t>(value);
    const uint32_t sign = word >> 16 & 0x8000, magnitude = word & 0x7fffffff;
    if (magnitude > 0x7f800000) // NaN
      return {static_cast<uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff))};
    if (magnitude >= 0x47800000) // 65536
      return {static_cast<uint16_t>(sign | 0x7c00)};
    if (magnitude < 0x38800000) { // below 2^-14: a multiple of 2^-24, the unit of [0.5, 1) too
      const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
      return {static_cast<uint16_t>(
          sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f)))};
    }
    // Rounding may carry into the exponent, and from 65520 on into infinity, as it should.
    const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return {static_cast<uint16_t>(sign | ((rounded >> 13) - (uint32_t{112} << 10)))};
  }
  /// Rounds once: the float32 between is the one towards zero, odd where digits were cut off, so
  /// that it lies on no middle between two numbers where the value does not.
  static Float16 fromDouble(double value) {
    auto near = static_cast<float>(value);
    if (static_cast<double>(near) == value || value != value)
      return fromFloat(near);
    auto word = std::bit_cast<uint32_t>(near);
    if (std::abs(static_cast<double>(near)) > std::abs(value))
      --word;
    return fromFloat(std::bit_cast<float>(word | 1));
  }
  float toFloat() const {
    const uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
                   fraction = bits & 0x3ff;
    if (exponent == 31)
      return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
    if (exponent)
      return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
    const float small = static_cast<float>(fraction) * 0x1p-24f; // subnormal or zero, exact
    return sign ? -small : small;
  }
};
static_assert(sizeof(Float16) == 2);

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_FLOAT16_H
