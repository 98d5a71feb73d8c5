//===- Random.h - Random numbers that are the same everywhere --------------------------------===//
//
// The standard library leaves the results of its shuffles and distributions to the
// implementation; batches must not depend on it. SplitMix64 is fast and good enough to mix samples.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BATCHING_ROWS_RANDOM_H
#define RUNTIME_BATCHING_ROWS_RANDOM_H

#include "runtime/support/SplitMix.h"
#include <cstddef>
#include <cstdint>
#include <utility>

namespace omnibal::rt {

class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  /// Makes a separate stream for each (seed, epoch, purpose).
  Random(uint64_t seed, int64_t epoch, uint64_t purpose) : state(seed) {
    state = next() ^ static_cast<uint64_t>(epoch);
    state = next() ^ purpose;
    next();
  }

  uint64_t next() {
    state += SplitMix::step;
    return SplitMix::mixed(state);
  }
  /// Returns a number in 0 .. n - 1; n is at most 2^32. It is off from uniform by less than n /
  /// 2^32, for one draw instead of a loop.
  uint64_t below(uint64_t n) { return (next() >> 32) * n >> 32; }
  /// Returns a number in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  template <typename T> void shuffle(T *values, size_t n) {
    for (size_t i = n; i > 1; --i)
      std::swap(values[i - 1], values[below(i)]);
  }

private:
  uint64_t state;
};

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_ROWS_RANDOM_H
