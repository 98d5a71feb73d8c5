//===- AttentionTile.h - The two tile products that all attention kernels are made of ---------===//
//
// A block of 256 threads owns 64 rows (queries, or keys in the gradients of keys and values) and
// walks over tiles of 64 other rows. dotTile makes the 64 x 64 products of their features, 4 x 4 a
// thread; accumulateTile adds weights x other rows to the block's result, 4 rows x `columns` / 16 a
// thread. Thread t has rows t / 16 * 4 + (0..3).
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_ATTENTION_ATTENTIONTILE_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_ATTENTION_ATTENTIONTILE_H

#include "runtime/backends/cuda/kernels/Device.h"
#include "runtime/backends/cuda/kernels/attention/Attention.h"
#include <cmath>

namespace omnibal::rt::cuda {

constexpr int attentionThreads = 256;
constexpr int tileRows = 64;
constexpr int tileLine = tileRows + 4; // a pack more: fewer bank conflicts
constexpr int tileDepth = 16;          // features or rows that are in shared memory at once
constexpr float log2e = 1.4426950408889634f;
constexpr float ln2 = 0.6931471805599453f;

/// Rows of k and v: the tokens but with listed keys.
__host__ __device__ inline int64_t keyCount(const AttentionShape &shape) {
  return shape.mask == AttentionMask::Listed ? shape.keys : shape.tokens;
}

/// One head of a tensor [tokens, heads, features].
template <typename T> struct HeadRows {
  const T *data;
  int64_t token, feature;
  __device__ HeadRows(const void *base, const HeadStrides &s, int64_t head)
      : data(static_cast<const T *>(base) + head * s.head), token(s.token), feature(s.feature) {}
};

struct QueryTile {
  int low[tileRows], high[tileRows];              ///< keys that a query sees
  int prefixBegin[tileRows], prefixEnd[tileRows]; ///< and those of type 0 here
  float lse[tileRows], delta[tileRows];
};

template <int columns> struct AttentionTiles {
  alignas(16) float own[tileDepth][tileLine], other[tileDepth][tileLine];
  alignas(16) float weights[tileRows][tileLine]; ///< [other][own]
  alignas(16) float values[tileDepth][columns];
  QueryTile queries;
  int prefixKey[tileRows]; ///< whether the tile's key is of type 0
};

/// features [first, first + 16) of 64 rows from `row` on, transposed; zeros beyond the ends.
template <typename T>
__device__ __forceinline__ void loadTransposed(float (&to)[tileDepth][tileLine],
                                               const HeadRows<T> &from, int row, int rows,
                                               int64_t first, int64_t size, bool wide) {
  if (wide) {
    const int r = threadIdx.x / 4, f = threadIdx.x % 4 * 4;
    Pack<T, 4> pack;
    const bool inside = row + r < rows && first + f < size;
    if (inside)
      pack = loadPack<4>(from.data + (row + r) * from.token + first + f);
#pragma unroll
    for (int e = 0; e < 4; ++e)
      to[f + e][r] = inside ? toFloat(pack.at[e]) : 0.f;
    return;
  }
#pragma unroll 1 // the registers are needed elsewhere
  for (int i = 0; i < tileRows * tileDepth / attentionThreads; ++i) {
    const int place = threadIdx.x + i * attentionThreads;
    const int r = place / tileDepth, f = place % tileDepth;
    const bool inside = row + r < rows && first + f < size;
    to[f][r] =
        inside ? toFloat(from.data[(row + r) * from.token + (first + f) * from.feature]) : 0.f;
  }
}

/// products[i][j] = own row (t / 16 * 4 + i) . other row (t % 16 * 4 + j).
template <typename T, int columns>
__device__ __forceinline__ void dotTile(AttentionTiles<columns> &tiles, const HeadRows<T> &own,
                                        int ownRow, int ownRows, const HeadRows<T> &other,
                                        int otherRow, int otherRows, int64_t size, bool wide,
                                        float (&products)[4][4]) {
  const int down = threadIdx.x / 16 * 4, across = threadIdx.x % 16 * 4;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
      products[i][j] = 0;
  for (int64_t first = 0; first < size; first += tileDepth) {
    __syncthreads(); // what was there before is read
    loadTransposed(tiles.own, own, ownRow, ownRows, first, size, wide);
    loadTransposed(tiles.other, other, otherRow, otherRows, first, size, wide);
    __syncthreads();
#pragma unroll
    for (int f = 0; f < tileDepth; ++f) {
      const auto a = loadPack<4>(&tiles.own[f][down]), b = loadPack<4>(&tiles.other[f][across]);
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          products[i][j] = fmaf(a.at[i], b.at[j], products[i][j]);
    }
  }
}

/// Whether a mask shows no key after its query, but for those of a prefix.
__device__ __forceinline__ bool onlyPast(AttentionMask mask) {
  return mask != AttentionMask::Full && mask != AttentionMask::Blocks &&
         mask != AttentionMask::Listed;
}

/// Adds the head's sink to a row's running maximum (of powers of 2) and sum; returns the factor of
/// what was summed before.
__device__ __forceinline__ float addSink(const AttentionShape &s, const AttentionData &d,
                                         int64_t head, float &top, float &total) {
  if (!d.sinks || total == 0)
    return 1;
  const float sink = d.sinks[head * s.sinkHead] * log2e, largest = fmaxf(top, sink);
  const float kept = exp2f(top - largest);
  total = total * kept + exp2f(sink - largest);
  top = largest;
  return kept;
}

/// Columns of a thread come in packs of this many, `columns` / width of them 16 threads apart.
template <int columns> constexpr int packOfColumns = columns >= 64 ? 4 : columns / 16;

/// The column of a thread's number i.
template <int columns> __device__ __forceinline__ int columnOf(int i) {
  constexpr int pack = packOfColumns<columns>;
  return i / pack * pack * 16 + threadIdx.x % 16 * pack + i % pack;
}

/// Whether a tile of keys has some that every later query of their segment sees (the mask's
/// prefix); which, it notes in tiles.prefixKey. All threads of the block call it.
template <int columns>
__device__ __forceinline__ bool findPrefixKeys(AttentionTiles<columns> &tiles,
                                               const AttentionShape &s, const AttentionData &d,
                                               int key, int tokens) {
  if (s.mask != AttentionMask::Prefix)
    return false;
  const int thread = threadIdx.x;
  bool mine = false;
  if (thread < tileRows) {
    mine = key + thread < tokens && d.types[key + thread] == 0;
    tiles.prefixKey[thread] = mine;
  }
  return __syncthreads_or(mine);
}

template <int columns>
__device__ __forceinline__ void storeWeights(AttentionTiles<columns> &tiles,
                                             const float (&weights)[4][4]) {
  const int down = threadIdx.x / 16 * 4, across = threadIdx.x % 16 * 4;
#pragma unroll
  for (int j = 0; j < 4; ++j)
    storePack<4>(&tiles.weights[across + j][down],
                 Pack<float, 4>{{weights[0][j], weights[1][j], weights[2][j], weights[3][j]}});
}

/// sums[i][c] += sum over other rows of weights[row][own row i] * features[firstColumn + column c].
template <typename T, int columns>
__device__ __forceinline__ void
accumulateTile(AttentionTiles<columns> &tiles, const HeadRows<T> &other, int otherRow, int rows,
               int64_t firstColumn, int64_t size, bool wide, float (&sums)[4][columns / 16]) {
  constexpr int pack = packOfColumns<columns>;
  const int down = threadIdx.x / 16 * 4, across = threadIdx.x % 16 * pack;
#pragma unroll 1
  for (int first = 0; first < tileRows; first += tileDepth) {
    __syncthreads(); // the weights are written, the last values read
    if (wide) {
#pragma unroll 1
      for (int place = threadIdx.x; place < tileDepth * columns / 4; place += attentionThreads) {
        const int r = place / (columns / 4), c = place % (columns / 4) * 4;
        const int row = otherRow + first + r;
        Pack<float, 4> values{{0.f, 0.f, 0.f, 0.f}};
        if (row < rows && firstColumn + c < size) {
          const auto loaded = loadPack<4>(other.data + row * other.token + firstColumn + c);
#pragma unroll
          for (int e = 0; e < 4; ++e)
            values.at[e] = toFloat(loaded.at[e]);
        }
        storePack<4>(&tiles.values[r][c], values);
      }
    } else {
#pragma unroll 1
      for (int place = threadIdx.x; place < tileDepth * columns; place += attentionThreads) {
        const int r = place / columns, c = place % columns, row = otherRow + first + r;
        tiles.values[r][c] =
            row < rows && firstColumn + c < size
                ? toFloat(other.data[row * other.token + (firstColumn + c) * other.feature])
                : 0.f;
      }
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < tileDepth; ++r) {
      const auto weight = loadPack<4>(&tiles.weights[first + r][down]);
#pragma unroll
      for (int c = 0; c < columns / 16; c += pack) {
        const auto value = loadPack<pack>(&tiles.values[r][c * 16 + across]);
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int e = 0; e < pack; ++e)
            sums[i][c + e] = fmaf(weight.at[i], value.at[e], sums[i][c + e]);
      }
    }
  }
}

/// Rows `ownRow` + t / 16 * 4 + i of a head of the result, times factor[i].
template <typename T, int columns>
__device__ __forceinline__ void
writeTile(void *base, const HeadStrides &s, int64_t head, int ownRow, int rows, int64_t firstColumn,
          int64_t size, const float (&factor)[4], const float (&sums)[4][columns / 16]) {
  T *to = static_cast<T *>(base) + head * s.head;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = ownRow + threadIdx.x / 16 * 4 + i;
#pragma unroll
    for (int c = 0; c < columns / 16; ++c) {
      const int64_t column = firstColumn + columnOf<columns>(c);
      if (row < rows && column < size)
        to[row * s.token + column * s.feature] = fromFloat<T>(sums[i][c] * factor[i]);
    }
  }
}

/// Tokens of a sample; with listed keys those that a token sees.
struct Segment {
  int begin, end;
};

__device__ __forceinline__ Segment segmentOf(const AttentionShape &s, const AttentionData &d,
                                             int row) {
  const int tokens = static_cast<int>(s.tokens);
  const int32_t *borders = d.borders;
  if (s.mask == AttentionMask::Listed) { // as much of it as exists
    const int64_t begin = d.begins[row] * s.keyRows, end = d.ends[row] * s.keyRows;
    return {static_cast<int>(begin > 0 ? begin : 0), static_cast<int>(end < s.keys ? end : s.keys)};
  }
  if (s.segmentRows > 0) {
    const int64_t begin = row / s.segmentRows * s.segmentRows, end = begin + s.segmentRows;
    return {static_cast<int>(begin), end < tokens ? static_cast<int>(end) : tokens};
  }
  int64_t low = 0, high = s.borderCount; // the first border after the row
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (borders[middle] > row)
      high = middle;
    else
      low = middle + 1;
  }
  if (low == 0 || low == s.borderCount)
    return {0, 0};
  return {borders[low - 1], borders[low] < tokens ? borders[low] : tokens};
}

/// The tokens around `row` that are of one block with it; the row alone if it is in none.
__device__ __forceinline__ Segment blockOf(const AttentionShape &s, const int32_t *types, int row,
                                           Segment segment) {
  auto inBlock = [&](int token) {
    return types[token] >= s.firstType && types[token] <= s.lastType;
  };
  Segment block{row, row + 1};
  if (!inBlock(row))
    return block;
  while (block.begin > segment.begin && inBlock(block.begin - 1))
    --block.begin;
  while (block.end < segment.end && inBlock(block.end))
    ++block.end;
  return block;
}

/// The first key that a window lets `row` see.
__device__ __forceinline__ int windowBegin(const AttentionShape &s, int row, int begin) {
  return row - begin >= s.window ? row + 1 - static_cast<int>(s.window) : begin;
}

/// The score of a query and a key by their product, times log2 e.
__device__ __forceinline__ float scoreOf(const AttentionShape &s, float product) {
  if (s.softcap > 0)
    return s.softcap * tanhf(product * s.scale / s.softcap) * log2e;
  return product * (s.scale * log2e);
}

/// What capping multiplies the gradient of such a score by.
__device__ __forceinline__ float slopeOfCap(const AttentionShape &s, float score) {
  const float part = s.softcap > 0 ? score * ln2 / s.softcap : 0.f;
  return 1 - part * part;
}

/// What query `row` sees, into place `slot`. Rows past the end see nothing.
__device__ __forceinline__ void describeQuery(const AttentionShape &s, const int32_t *types,
                                              QueryTile &tile, int slot, int row, Segment segment) {
  int low = segment.begin, high = segment.end;
  Segment prefix{0, 0};
  if (s.mask == AttentionMask::Listed) {
    tile.low[slot] = low;
    tile.high[slot] = high;
    tile.prefixBegin[slot] = tile.prefixEnd[slot] = 0;
    return;
  }
  if (s.mask != AttentionMask::Full && high > row + 1)
    high = row + 1;
  const bool inside = segment.begin <= row && row < segment.end;
  const bool mayHaveWindow = s.mask == AttentionMask::Blocks || s.mask == AttentionMask::Prefix;
  if (s.mask == AttentionMask::Sliding || (mayHaveWindow && s.window > 0))
    low = windowBegin(s, row, low);
  if (s.mask == AttentionMask::Chunked && inside)
    low = row - static_cast<int>((row - low) % s.window);
  if (s.mask == AttentionMask::Prefix && inside && types[row] >= 0 && types[row] <= s.lastType)
    prefix = segment;
  if (s.mask == AttentionMask::Blocks && inside)
    high = blockOf(s, types, row, segment).end;
  if (!inside)
    low = high = 0;
  tile.low[slot] = low;
  tile.high[slot] = high;
  tile.prefixBegin[slot] = prefix.begin;
  tile.prefixEnd[slot] = prefix.end;
}

__device__ __forceinline__ bool sees(const QueryTile &tile, int slot, int key, bool prefixKey) {
  return (key >= tile.low[slot] && key < tile.high[slot]) ||
         (prefixKey && key >= tile.prefixBegin[slot] && key < tile.prefixEnd[slot]);
}

/// The keys that any of the tile's queries may see.
__device__ __forceinline__ Segment keysOf(const QueryTile &tile) {
  Segment all{0x7fffffff, 0};
  auto add = [&](int begin, int end) {
    if (end <= begin)
      return;
    all.begin = begin < all.begin ? begin : all.begin;
    all.end = end > all.end ? end : all.end;
  };
  for (int i = 0; i < tileRows; ++i) {
    add(tile.low[i], tile.high[i]);
    add(tile.prefixBegin[i], tile.prefixEnd[i]);
  }
  return all;
}

/// Whether all operands may be read in packs of four.
inline bool readsInPacks(const AttentionShape &s, const AttentionData &d, bool backward) {
  const int64_t bytes = 4 * bytesOf(s.type);
  auto fits = [&](const void *data, const HeadStrides &h) {
    return h.feature == 1 && h.token % 4 == 0 && h.head % 4 == 0 && isAligned(data, bytes);
  };
  return s.size % 4 == 0 && s.valueSize % 4 == 0 && fits(d.q, s.q) && fits(d.k, s.k) &&
         fits(d.v, s.v) && (!backward || (fits(d.dout, s.dout) && fits(d.out, s.out)));
}

inline cudaError_t checkAttention(const AttentionShape &s) {
  const bool fits = s.tokens >= 0 && s.tokens < 0x7fffff00 && s.heads >= 0 && s.heads <= 65535 &&
                    s.keyHeads > 0 && s.heads % s.keyHeads == 0 && s.size > 0 && s.valueSize > 0;
  const bool typed = s.type == Element::F32 || s.type == Element::BF16;
  const bool windowed =
      (s.mask != AttentionMask::Sliding && s.mask != AttentionMask::Chunked) || s.window > 0;
  const bool listed =
      s.mask != AttentionMask::Listed || (s.keys >= 0 && s.keys < 0x7fffff00 && s.keyRows > 0);
  return fits && typed && windowed && listed ? cudaSuccess : cudaErrorInvalidValue;
}

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_ATTENTION_ATTENTIONTILE_H
