//===- Strides.h - Element types and strided shapes that the kernels' launchers take ---------===//
//
// Sizes and strides are in elements; all indices are 64 bits wide.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_STRIDES_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_STRIDES_H

#include <cstdint>
#include <cstdlib>
#include <utility>

namespace omnibal::rt::cuda {

enum class Element { F32, BF16, F64, I32, I64, Bool };

constexpr int64_t bytesOf(Element type) {
  switch (type) {
  case Element::F64:
  case Element::I64:
    return 8;
  case Element::F32:
  case Element::I32:
    return 4;
  case Element::BF16:
    return 2;
  case Element::Bool:
    return 1;
  }
  return 0;
}

/// A matrix in memory.
struct RowStrides {
  int64_t row = 0, col = 1;
};

/// [tokens, heads, features] in memory.
struct HeadStrides {
  int64_t token = 0, head = 0, feature = 1;
};

/// Two tensors of one shape. Strides may be 0; those of `to` only where a launcher says so.
struct StridedPair {
  static constexpr int maxRank = 8;
  int rank = 0;
  int64_t size[maxRank] = {}, to[maxRank] = {}, from[maxRank] = {};

  int64_t elements() const {
    int64_t n = 1;
    for (int d = 0; d < rank; ++d)
      n *= size[d];
    return n;
  }
  void append(int64_t n, int64_t toStride, int64_t fromStride) {
    size[rank] = n;
    to[rank] = toStride;
    from[rank++] = fromStride;
  }
  void exchange(int a, int b) {
    std::swap(size[a], size[b]);
    std::swap(to[a], to[b]);
    std::swap(from[a], from[b]);
  }
  /// Returns the same elements with dimensions of size 1 dropped, ordered by the strides of `to`
  /// (those of `from` where equal), and merged where both allow it. At least one dimension remains.
  StridedPair simplified() const {
    StridedPair p;
    for (int d = 0; d < rank; ++d)
      if (size[d] != 1)
        p.append(size[d], to[d], from[d]);
    for (int i = 1; i < p.rank; ++i)
      for (int d = i; d > 0 && before(p, d, d - 1); --d)
        p.exchange(d - 1, d);
    StridedPair merged;
    for (int d = 0; d < p.rank; ++d) {
      const int last = merged.rank - 1;
      if (last >= 0 && merged.to[last] == p.to[d] * p.size[d] &&
          merged.from[last] == p.from[d] * p.size[d]) {
        merged.size[last] *= p.size[d];
        merged.to[last] = p.to[d];
        merged.from[last] = p.from[d];
      } else {
        merged.append(p.size[d], p.to[d], p.from[d]);
      }
    }
    if (merged.rank == 0)
      merged.append(1, 1, 1);
    return merged;
  }

private:
  static bool before(const StridedPair &p, int a, int b) {
    const int64_t toA = std::abs(p.to[a]), toB = std::abs(p.to[b]);
    return toA != toB ? toA > toB : std::abs(p.from[a]) > std::abs(p.from[b]);
  }
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_STRIDES_H
