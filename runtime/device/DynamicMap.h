//===- DynamicMap.h - What codes of 8 bits stand for -----------------------------------------===//
//
// Dynamic tree quantization: zeros in front of the first set bit count powers of ten, and the bits
// behind it divide what a power of ten spans, [0.1, 1], into equal cells, whose middles are the
// values. So small magnitudes have few cells and large ones many. Codes ascend with their values.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_DYNAMICMAP_H
#define RUNTIME_DEVICE_DYNAMICMAP_H

#include <array>

namespace omnibal::rt {

struct DynamicMap {
  std::array<float, 256> values; ///< by code, ascending; the last one is 1
  /// borders[c] is the largest number that is not nearer to value c + 1 than to value c.
  std::array<float, 255> borders;
};

/// The code of 0 among signed values; among unsigned ones it is 0.
inline constexpr int signedZero = 127;

/// For values in [-1, 1]: a sign, then seven bits.
const DynamicMap &signedMap();
/// For values in [0, 1]: the bit of the sign halves every cell.
const DynamicMap &unsignedMap();

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_DYNAMICMAP_H
