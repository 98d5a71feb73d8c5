//===- Load.h - What is known of a micro-batch besides V and N --------------------------------===//
#ifndef RUNTIME_CORE_LOAD_H
#define RUNTIME_CORE_LOAD_H

#include <cstdint>
#include <span>

namespace omnibal::rt {

/// Kernels may do less for it, or choose by it how they do it. -1: not known.
struct Load {
  int64_t labels = -1;  ///< tokens with a target
  int64_t samples = -1; ///< there are at most so many, rounded up: sampleBucket
  int64_t longest = -1; ///< no sample has more tokens, rounded up: lengthBucket
};

/// Powers of two, 4 at least: few values, so that what is prepared or recorded for one serves
/// often.
constexpr int64_t sampleBucket(int64_t samples) {
  int64_t bucket = 4;
  while (bucket < samples)
    bucket *= 2;
  return bucket;
}

/// Powers of two and the middles between them, 128 at least.
constexpr int64_t lengthBucket(int64_t tokens) {
  int64_t bucket = 128;
  while (bucket < tokens)
    bucket += bucket & (bucket - 1) ? bucket / 3 : bucket / 2;
  return bucket;
}

/// `borders`: of the samples, from 0 on.
constexpr Load loadOf(std::span<const int64_t> borders, int64_t labels) {
  int64_t longest = 0;
  for (size_t i = 1; i < borders.size(); ++i)
    longest = borders[i] - borders[i - 1] > longest ? borders[i] - borders[i - 1] : longest;
  const int64_t samples = borders.empty() ? 0 : static_cast<int64_t>(borders.size()) - 1;
  return {labels, sampleBucket(samples), lengthBucket(longest)};
}

} // namespace omnibal::rt
#endif // RUNTIME_CORE_LOAD_H
