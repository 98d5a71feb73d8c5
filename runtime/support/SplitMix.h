//===- SplitMix.h - Well mixed 64-bit words ------------------------------------------------===//
#ifndef RUNTIME_SUPPORT_SPLITMIX_H
#define RUNTIME_SUPPORT_SPLITMIX_H

#include <cstdint>

namespace omnibal::rt {

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014) mixes the
/// multiples of an odd word near 2^64 over the golden ratio.
struct SplitMix {
  static constexpr uint64_t step = 0x9e3779b97f4a7c15u;

  /// Every bit of the result depends on every bit of the word.
  static constexpr uint64_t mixed(uint64_t word) {
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    return word ^ word >> 31;
  }
  /// The `place`th number of a sequence.
  static constexpr uint64_t at(uint64_t sequence, uint64_t place) {
    return mixed(sequence + (place + 1) * step);
  }
};

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_SPLITMIX_H
