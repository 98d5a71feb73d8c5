//===- RadixSort.h - Sorting many small keys -------------------------------------------------===//
#ifndef RUNTIME_BATCHING_ROWS_RADIXSORT_H
#define RUNTIME_BATCHING_ROWS_RADIXSORT_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace omnibal::rt {

/// Packs a key into the upper and a value into the lower 32 bits.
inline uint64_t keyed(uint32_t key, uint32_t value) {
  return static_cast<uint64_t>(key) << 32 | value;
}

/// Sorts stably and ascending by the key alone, in linear time; `scratch` becomes as large as
/// `items`.
inline void radixSort(uint64_t *items, size_t n, std::vector<uint64_t> &scratch) {
  constexpr int bits = 11;
  uint32_t seen = 0;
  for (size_t i = 1; i < n; ++i)
    seen |= static_cast<uint32_t>((items[i] ^ items[0]) >> 32);
  if (seen == 0)
    return;
  if (scratch.size() < n)
    scratch.resize(n);
  uint64_t *from = items, *to = scratch.data();
  for (int shift = 0; shift < 32 && seen >> shift; shift += bits) {
    if ((seen >> shift & ((1u << bits) - 1)) == 0)
      continue;
    size_t counts[1 << bits] = {};
    for (size_t i = 0; i < n; ++i)
      ++counts[from[i] >> (32 + shift) & ((1u << bits) - 1)];
    size_t begin = 0;
    for (size_t &count : counts) {
      size_t here = count;
      count = begin;
      begin += here;
    }
    for (size_t i = 0; i < n; ++i)
      to[counts[from[i] >> (32 + shift) & ((1u << bits) - 1)]++] = from[i];
    std::swap(from, to);
  }
  if (from != items)
    std::copy(from, from + n, items);
}

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_ROWS_RADIXSORT_H
