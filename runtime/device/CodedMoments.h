//===- CodedMoments.h - Moments of 8 bits
//--------------------------------------------------------===//
//
// Blocks of values have a scale each, their largest magnitude, and every value is a code of 8 bits:
// the nearest of 256 parts of the scale (DynamicMap.h). Dettmers et al., "8-bit Optimizers via
// Block-wise Quantization", arXiv 2110.02861. A moment lies in memory as its scales, then its
// codes.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_CODEDMOMENTS_H
#define RUNTIME_DEVICE_CODEDMOMENTS_H

#include <cstdint>

namespace omnibal::rt {

/// Elements that have a scale together.
inline constexpr int64_t codedBlock = 256;

constexpr int64_t scalesOf(int64_t elements) { return (elements + codedBlock - 1) / codedBlock; }

/// Where the codes begin behind the scales of so many elements.
constexpr int64_t codesAt(int64_t elements) {
  constexpr int64_t line = 64;
  return (scalesOf(elements) * int64_t{sizeof(float)} + line - 1) / line * line;
}

constexpr int64_t codedBytes(int64_t elements) { return codesAt(elements) + elements; }

/// Of a tensor, from the first element of a block on.
struct CodedMoment {
  uint8_t *codes = nullptr;
  float *scales = nullptr;
};

/// The moment at `begin`, which has room for `room` elements, from element `first` on.
inline CodedMoment codedMomentAt(void *begin, int64_t room, int64_t first) {
  auto *bytes = static_cast<uint8_t *>(begin);
  return {bytes + codesAt(room) + first, reinterpret_cast<float *>(bytes) + first / codedBlock};
}

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_CODEDMOMENTS_H
