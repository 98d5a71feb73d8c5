//===- AttentionMma.h - Attention's tile products on the tensor cores ------------------------===//
//
// These kernels take bfloat16, up to 256 features, the masks full, causal and sliding, and scores
// that are not capped. A warp owns one or two groups of 16 rows (queries, or keys in their
// gradients) and walks over tiles of 64 other rows in shared memory. Scores are float32;
// probabilities and their gradients are rounded to bfloat16 as factors of the second product.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_ATTENTION_ATTENTIONMMA_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_ATTENTION_ATTENTIONMMA_H

#include "runtime/backends/cuda/kernels/TensorCore.h"
#include "runtime/backends/cuda/kernels/attention/AttentionTile.h"

namespace omnibal::rt::cuda {

constexpr int groupRows = 16; ///< of a group
constexpr int otherRows = 64; ///< of a tile
constexpr int otherTiles = otherRows / 8;

/// A row in shared memory: a pack more than its features, so that eight of them lie in all banks.
template <int features> constexpr int rowBytes = features * 2 + 16;
template <int features> constexpr int tileBytes = otherRows * rowBytes<features>;

/// Begins to copy rows [row, row + rows) of a head; zeros from row `end` and feature `size` on.
template <int features, int rows, int threads>
__device__ __forceinline__ void copyRows(unsigned char *to, const HeadRows<bf16> &from, int row,
                                         int end, int64_t size) {
  constexpr int packs = features / 8, step = threads / packs; // rows from one copy to the next
  static_assert(threads % packs == 0 && rows % step == 0);
  const int r = threadIdx.x / packs, f = threadIdx.x % packs * 8;
  const bf16 *source = from.data + (row + r) * from.token + f;
  to += r * rowBytes<features> + f * 2;
#pragma unroll
  for (int i = 0; i < rows; i += step) {
    const bool inside = row + r + i < end && f < size;
    copyAsync(to + i * rowBytes<features>, inside ? source : from.data, inside);
    source += step * from.token;
  }
}

/// Products of `groups` times 16 rows of a warp with `tiles` times 8 other rows: one load serves
/// all groups.
template <int groups, int tiles = otherTiles> using Scores = float[groups][tiles][4];
template <int groups, int features> using Sums = float[groups][features / 8][4];

/// products = own rows . other rows; both in shared memory.
template <int features, int groups, int tiles>
__device__ __forceinline__ void dotTiles(Scores<groups, tiles> &products, const unsigned char *own,
                                         const unsigned char *other) {
  const int lane = threadIdx.x % 32;
  own += lane % 16 * rowBytes<features> + lane / 16 * 16;
  other += (lane % 8 + lane / 16 * 8) * rowBytes<features> + lane / 8 % 2 * 16;
#pragma unroll
  for (int g = 0; g < groups; ++g)
#pragma unroll
    for (int j = 0; j < tiles; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        products[g][j][e] = 0;
#pragma unroll
  for (int step = 0; step < features / 16; ++step) {
    uint32_t factors[groups][4];
#pragma unroll
    for (int g = 0; g < groups; ++g)
      loadMatrices<false>(factors[g], own + g * groupRows * rowBytes<features> + step * 32);
#pragma unroll
    for (int j = 0; j < tiles; j += 2) {
      uint32_t b[4];
      loadMatrices<false>(b, other + j * 8 * rowBytes<features> + step * 32);
#pragma unroll
      for (int g = 0; g < groups; ++g) {
        multiplyAdd(products[g][j], factors[g], b[0], b[1]);
        multiplyAdd(products[g][j + 1], factors[g], b[2], b[3]);
      }
    }
  }
}

/// sums += weights x the other rows' features.
template <int features, int groups, int tiles>
__device__ __forceinline__ void accumulateTiles(Sums<groups, features> &sums,
                                                const Scores<groups, tiles> &weights,
                                                const unsigned char *other) {
  const int lane = threadIdx.x % 32;
  other += lane % 16 * rowBytes<features> + lane / 16 * 16;
#pragma unroll
  for (int step = 0; step < tiles / 2; ++step) {
    uint32_t factors[groups][4];
#pragma unroll
    for (int g = 0; g < groups; ++g)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        factors[g][e] = packPair(weights[g][2 * step + e / 2][e % 2 * 2],
                                 weights[g][2 * step + e / 2][e % 2 * 2 + 1]);
#pragma unroll
    for (int n = 0; n < features / 8; n += 2) {
      uint32_t b[4];
      loadMatrices<true>(b, other + step * 16 * rowBytes<features> + n * 16);
#pragma unroll
      for (int g = 0; g < groups; ++g) {
        multiplyAdd(sums[g][n], factors[g], b[0], b[1]);
        multiplyAdd(sums[g][n + 1], factors[g], b[2], b[3]);
      }
    }
  }
}

/// Rows `firstRow` + lane / 4 (+ 8) of a head of the result, times factor[0 (1)].
template <int features>
__device__ __forceinline__ void
writeRows(void *base, const HeadStrides &s, int64_t head, int firstRow, int rows, int64_t size,
          const float (&factor)[2], const float (&sums)[features / 8][4]) {
  const int lane = threadIdx.x % 32;
  bf16 *to = static_cast<bf16 *>(base) + head * s.head;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = firstRow + lane / 4 + i * 8;
    if (row >= rows)
      continue;
#pragma unroll
    for (int n = 0; n < features / 8; ++n) {
      const int column = n * 8 + lane % 4 * 2;
      if (column < size)
        *reinterpret_cast<uint32_t *>(to + row * s.token + column) =
            packPair(sums[n][i * 2] * factor[i], sums[n][i * 2 + 1] * factor[i]);
    }
  }
}

/// The keys that a query sees, as the masks have them that the tensor cores' kernels take.
__device__ __forceinline__ Segment visibleKeys(const AttentionShape &s, int row, Segment segment) {
  if (segment.end <= row || row < segment.begin)
    return {0, 0};
  Segment keys = segment;
  if (s.mask != AttentionMask::Full && keys.end > row + 1)
    keys.end = row + 1;
  if (s.mask == AttentionMask::Sliding && row - keys.begin >= s.window)
    keys.begin = row + 1 - static_cast<int>(s.window);
  return keys;
}

/// Keys of a group's rows: those that any of them sees, and those that all see.
struct GroupRange {
  int begin, end, allBegin, allEnd;
  __device__ __forceinline__ GroupRange with(const GroupRange &o) const {
    return {o.begin < begin ? o.begin : begin, o.end > end ? o.end : end,
            o.allBegin > allBegin ? o.allBegin : allBegin, o.allEnd < allEnd ? o.allEnd : allEnd};
  }
};

/// What each row of a block sees, and the ranges of its groups; filled by the first `rows` threads.
template <int rows> struct VisibleRows {
  Segment keys[rows];
  GroupRange groups[rows / groupRows];

  __device__ __forceinline__ void fill(int slot, Segment mine) {
    keys[slot] = mine;
    const bool sees = mine.begin < mine.end;
    int begin = sees ? mine.begin : 0x7fffffff, end = mine.end;
    int allBegin = mine.begin, allEnd = mine.end;
#pragma unroll
    for (int bits = groupRows / 2; bits > 0; bits /= 2) {
      const int b = __shfl_xor_sync(allLanes, begin, bits),
                e = __shfl_xor_sync(allLanes, end, bits);
      const int ab = __shfl_xor_sync(allLanes, allBegin, bits);
      const int ae = __shfl_xor_sync(allLanes, allEnd, bits);
      begin = b < begin ? b : begin;
      end = e > end ? e : end;
      allBegin = ab > allBegin ? ab : allBegin;
      allEnd = ae < allEnd ? ae : allEnd;
    }
    if (slot % groupRows == 0)
      groups[slot / groupRows] = {begin, end, allBegin, allEnd};
  }
  __device__ __forceinline__ Segment all() const {
    Segment range{0x7fffffff, 0};
    for (const GroupRange &w : groups) {
      range.begin = w.begin < range.begin ? w.begin : range.begin;
      range.end = w.end > range.end ? w.end : range.end;
    }
    return range;
  }
};

/// Returns whether the tensor cores' kernels take the problem.
inline bool onTensorCores(const AttentionShape &s, const AttentionData &d, bool backward) {
  auto fits = [](const void *data, const HeadStrides &h) {
    return h.feature == 1 && h.token % 8 == 0 && h.head % 8 == 0 && isAligned(data, 16);
  };
  const bool common = s.type == Element::BF16 && s.softcap == 0 &&
                      (s.mask == AttentionMask::Full || s.mask == AttentionMask::Causal ||
                       s.mask == AttentionMask::Sliding) &&
                      s.size % 8 == 0 && s.valueSize % 8 == 0 && s.size <= 256 &&
                      s.valueSize <= 256 && fits(d.q, s.q) && fits(d.k, s.k) && fits(d.v, s.v) &&
                      fits(d.out, s.out);
  return common && (!backward || (fits(d.dout, s.dout) && fits(d.dq, s.dq) && fits(d.dk, s.dk) &&
                                  fits(d.dv, s.dv)));
}

/// The token's segment and out . dout of each query of a head, which the gradients begin from.
struct AttentionWorkspace {
  Segment *segments; ///< of each token
  float *delta;      ///< [tokens, heads]
};

/// Returns cudaErrorInvalidConfiguration if the device's blocks have too little shared memory.
cudaError_t launchTensorAttention(const AttentionShape &shape, const AttentionData &data,
                                  cudaStream_t stream);
cudaError_t launchTensorGradients(const AttentionShape &shape, const AttentionData &data,
                                  const AttentionWorkspace &workspace, cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_ATTENTION_ATTENTIONMMA_H
