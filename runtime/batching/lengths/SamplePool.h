//===- SamplePool.h - Samples that fill open groups -----------------------------------------===//
#ifndef RUNTIME_BATCHING_LENGTHS_SAMPLEPOOL_H
#define RUNTIME_BATCHING_LENGTHS_SAMPLEPOOL_H

#include "runtime/batching/rows/RadixSort.h"
#include "runtime/batching/rows/Random.h"
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace omnibal::rt {

/// Samples in order of their cost; each is taken once.
class SamplePool {
public:
  static constexpr int64_t none = -1;

  template <typename Cost> SamplePool(const std::vector<uint32_t> &samples, Cost cost) {
    std::vector<uint64_t> scratch;
    items.reserve(samples.size());
    for (uint32_t sample : samples)
      items.push_back(keyed(key(cost(sample)), sample));
    radixSort(items.data(), items.size(), scratch);
    below.resize(items.size());
    for (size_t i = 0; i < below.size(); ++i)
      below[i] = static_cast<int64_t>(i);
  }

  uint32_t sample(int64_t place) const { return static_cast<uint32_t>(items[place]); }

  /// Any place that is not taken.
  int64_t draw(Random &random) {
    if (items.empty())
      return none;
    int64_t place = free(static_cast<int64_t>(random.below(items.size())));
    return place == none ? free(static_cast<int64_t>(items.size()) - 1) : place;
  }

  /// The dearest place of at most this cost (rounded up a little), or of those before `before`.
  int64_t dearest(double cost) {
    auto end = std::upper_bound(items.begin(), items.end(), keyed(key(cost), UINT32_MAX));
    return end == items.begin() ? none : free(end - items.begin() - 1);
  }
  int64_t next(int64_t place) { return place == 0 ? none : free(place - 1); }

  void take(int64_t place) { below[place] = place - 1; }

private:
  /// Costs are 0 or more, so the bits of a float are in their order.
  static uint32_t key(double cost) { return std::bit_cast<uint32_t>(static_cast<float>(cost)); }

  int64_t free(int64_t place) {
    int64_t found = place;
    while (found >= 0 && below[found] != found)
      found = below[found];
    while (place >= 0 && place != found) {
      int64_t up = below[place];
      below[place] = found;
      place = up;
    }
    return found;
  }

  std::vector<uint64_t> items;
  std::vector<int64_t> below; ///< itself, or where to look on
};

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_LENGTHS_SAMPLEPOOL_H
