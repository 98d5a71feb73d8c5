//===- TextLengths.h - Text with a few long samples -----------------------------------------===//
#ifndef TEST_BENCH_LENGTH_GROUPS_TEXTLENGTHS_H
#define TEST_BENCH_LENGTH_GROUPS_TEXTLENGTHS_H

#include "runtime/batching/rows/BatchTypes.h"
#include "runtime/batching/rows/Random.h"
#include <algorithm>
#include <cmath>
#include <numbers>

namespace omnibal::rt::test {

/// Most lengths are log-normal around 600 tokens, at most 32,768; four of a thousand are
/// log-uniform from 4,096 to `longest`. docs/batching.md measures 939,343 of them, seed 1.
inline SampleLengths textLengths(int64_t count, uint64_t seed = 1, double longest = 131072) {
  Random random(seed);
  SampleLengths lengths;
  for (int64_t i = 0; i < count; ++i) {
    double tokens = 0;
    if (random.uniform() < 0.004) {
      tokens = 4096 * std::pow(longest / 4096, random.uniform());
    } else {
      double first = random.uniform(), second = random.uniform();
      double z = std::sqrt(-2 * std::log(std::max(first, 0x1p-53))) *
                 std::cos(2 * std::numbers::pi * second);
      tokens = std::clamp(600 * std::exp(0.8 * z), 16.0, 32768.0);
    }
    lengths.tiles.push_back(0);
    lengths.tokens.push_back(static_cast<int32_t>(tokens));
  }
  return lengths;
}

} // namespace omnibal::rt::test
#endif // TEST_BENCH_LENGTH_GROUPS_TEXTLENGTHS_H
