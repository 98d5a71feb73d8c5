//===- AttentionBackward.cu - Gradients of queries, of keys, of values -----------------------===//
//
// Three kernels that recompute the probabilities from the saved log-sum-exp (Dao et al.,
// "FlashAttention", 2022, algorithm 4): no sum is shared between blocks, so nothing is added
// atomically. delta = out . dout of each query comes first.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/cuda/kernels/attention/AttentionMma.h"
#include <type_traits>

namespace omnibal::rt::cuda {
namespace {

/// A warp a query of a head: its delta; one of them finds the token's segment.
template <typename T>
__global__ void __launch_bounds__(attentionThreads)
    attentionDelta(AttentionShape s, AttentionData d, AttentionWorkspace w) {
  const int lane = threadIdx.x % 32;
  const int64_t warps = int64_t(gridDim.x) * attentionThreads / 32;
  for (int64_t i = (int64_t(blockIdx.x) * attentionThreads + threadIdx.x) / 32;
       i < s.tokens * s.heads; i += warps) {
    const int64_t token = i / s.heads, head = i % s.heads;
    const T *out = static_cast<const T *>(d.out) + token * s.out.token + head * s.out.head;
    const T *dout = static_cast<const T *>(d.dout) + token * s.dout.token + head * s.dout.head;
    float sum = 0;
    for (int64_t f = lane; f < s.valueSize; f += 32)
      sum = fmaf(toFloat(out[f * s.out.feature]), toFloat(dout[f * s.dout.feature]), sum);
    sum = warpSum(sum);
    if (lane == 0)
      w.delta[i] = sum;
    if (lane == 0 && head == 0)
      w.segments[token] = segmentOf(s, d, static_cast<int>(token));
  }
}

/// Mask, log-sum-exp and delta of 64 queries, by the first 64 threads.
__device__ __forceinline__ void loadQueries(const AttentionShape &s, const AttentionData &d,
                                            const AttentionWorkspace &w, QueryTile &tile,
                                            int firstRow, int64_t head) {
  if (threadIdx.x >= tileRows)
    return;
  const int slot = threadIdx.x, row = firstRow + slot;
  const bool inside = row < s.tokens;
  describeQuery(s, d.types, tile, slot, row, inside ? w.segments[row] : Segment{0, 0});
  tile.lse[slot] = inside ? d.lse[row * s.lseToken + head * s.lseHead] : 0.f;
  tile.delta[slot] = inside ? w.delta[row * s.heads + head] : 0.f;
}

template <typename T, int columns>
__global__ void __launch_bounds__(attentionThreads, 2)
    queryGradient(AttentionShape s, AttentionData d, AttentionWorkspace w, bool wide) {
  __shared__ AttentionTiles<columns> tiles;
  const int tokens = static_cast<int>(s.tokens), thread = threadIdx.x;
  const int allKeys = static_cast<int>(keyCount(s));
  const int ownRow = static_cast<int>(gridDim.x - 1 - blockIdx.x) * tileRows;
  const int64_t head = blockIdx.y, keyHead = head / (s.heads / s.keyHeads);
  const int64_t firstColumn = int64_t(blockIdx.z) * columns;
  const HeadRows<T> q(d.q, s.q, head), k(d.k, s.k, keyHead), v(d.v, s.v, keyHead);
  const HeadRows<T> dout(d.dout, s.dout, head);
  const int down = thread / 16 * 4, across = thread % 16 * 4;
  loadQueries(s, d, w, tiles.queries, ownRow, head);
  __syncthreads();
  const Segment keys = keysOf(tiles.queries);

  float sums[4][columns / 16] = {};
  for (int key = keys.begin; key < keys.end; key += tileRows) {
    const bool prefix = findPrefixKeys(tiles, s, d, key, tokens);
    if (!prefix && onlyPast(s.mask) && key > ownRow + tileRows - 1)
      continue; // all in the future
    float scores[4][4], slopes[4][4];
    dotTile(tiles, q, ownRow, tokens, k, key, allKeys, s.size, wide, scores);
    dotTile(tiles, dout, ownRow, tokens, v, key, allKeys, s.valueSize, wide, slopes);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float lse = tiles.queries.lse[down + i] * log2e, delta = tiles.queries.delta[down + i];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const bool visible =
            sees(tiles.queries, down + i, key + across + j, prefix && tiles.prefixKey[across + j]);
        const float score = scoreOf(s, scores[i][j]);
        const float p = visible ? exp2f(score - lse) : 0.f;
        slopes[i][j] = visible ? p * (slopes[i][j] - delta) * slopeOfCap(s, score) : 0.f;
      }
    }
    storeWeights(tiles, slopes);
    accumulateTile(tiles, k, key, allKeys, firstColumn, s.size, wide, sums);
  }
  const float factor[4] = {s.scale, s.scale, s.scale, s.scale};
  writeTile<T, columns>(d.dq, s.dq, head, ownRow, tokens, firstColumn, s.size, factor, sums);
}

/// The gradient of the values (ofValues) or of the keys: a block owns 64 keys of a key head and
/// walks over the queries of all heads of the group.
template <bool ofValues, typename T, int columns>
__global__ void __launch_bounds__(attentionThreads, 2)
    keyGradient(AttentionShape s, AttentionData d, AttentionWorkspace w, bool wide) {
  __shared__ AttentionTiles<columns> tiles;
  const int tokens = static_cast<int>(s.tokens), thread = threadIdx.x;
  const int allKeys = static_cast<int>(keyCount(s));
  const bool listed = s.mask == AttentionMask::Listed; // which queries see a key, these say
  const int ownRow = static_cast<int>(blockIdx.x) * tileRows;
  const int64_t keyHead = blockIdx.y, group = s.heads / s.keyHeads;
  const int64_t firstColumn = int64_t(blockIdx.z) * columns;
  const HeadRows<T> k(d.k, s.k, keyHead), v(d.v, s.v, keyHead);
  const int down = thread / 16 * 4, across = thread % 16 * 4;

  // The queries of the samples of these keys, as far as the mask lets them see one of the keys.
  bool mine = false;
  if (thread < tileRows) {
    const int key = ownRow + thread;
    const Segment segment = listed         ? Segment{0, tokens}
                            : key < tokens ? w.segments[key]
                                           : Segment{0, 0};
    int first = segment.begin, last = segment.end;
    if (s.mask == AttentionMask::Blocks && segment.begin < segment.end) {
      const int64_t past = s.window > 0 ? key + s.window : last; // behind the last that looks back
      first = blockOf(s, d.types, key, segment).begin;
      last = static_cast<int>(past < last ? past : last);
    }
    if (s.mask == AttentionMask::Chunked && segment.begin < segment.end) {
      const int64_t end = segment.begin + ((key - segment.begin) / s.window + 1) * s.window;
      last = static_cast<int>(end < last ? end : last);
    }
    tiles.queries.low[thread] = first;
    tiles.queries.high[thread] = last;
    tiles.queries.prefixBegin[thread] = tiles.queries.prefixEnd[thread] = 0;
    mine = s.mask == AttentionMask::Prefix && key < tokens && d.types[key] == 0;
    tiles.prefixKey[thread] = mine;
  }
  const bool prefix = __syncthreads_or(mine);
  const Segment queries = keysOf(tiles.queries);
  int begin = queries.begin, end = queries.end;
  if (onlyPast(s.mask) && !prefix && begin < ownRow)
    begin = ownRow;
  if (s.mask == AttentionMask::Sliding && end - ownRow > tileRows - 1 + s.window)
    end = ownRow + tileRows - 1 + static_cast<int>(s.window);

  float sums[4][columns / 16] = {};
  for (int64_t head = keyHead * group; head < (keyHead + 1) * group; ++head) {
    const HeadRows<T> q(d.q, s.q, head), dout(d.dout, s.dout, head);
    for (int query = begin; query < end; query += tileRows) {
      __syncthreads(); // the last tile's queries are done with
      loadQueries(s, d, w, tiles.queries, query, head);
      if (listed) {
        __syncthreads();
        const Segment keys = keysOf(tiles.queries);
        if (keys.begin >= ownRow + tileRows || keys.end <= ownRow)
          continue; // the same for all threads
      }
      float scores[4][4];
      [[maybe_unused]] float slopes[4][4];
      dotTile(tiles, k, ownRow, allKeys, q, query, tokens, s.size, wide, scores);
      if constexpr (!ofValues)
        dotTile(tiles, v, ownRow, allKeys, dout, query, tokens, s.valueSize, wide, slopes);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float lse = tiles.queries.lse[across + j] * log2e;
        [[maybe_unused]] const float delta = tiles.queries.delta[across + j];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const bool visible =
              sees(tiles.queries, across + j, ownRow + down + i, tiles.prefixKey[down + i]);
          const float score = scoreOf(s, scores[i][j]);
          const float p = visible ? exp2f(score - lse) : 0.f;
          if constexpr (ofValues)
            scores[i][j] = p;
          else
            scores[i][j] = visible ? p * (slopes[i][j] - delta) * slopeOfCap(s, score) : 0.f;
        }
      }
      storeWeights(tiles, scores);
      accumulateTile(tiles, ofValues ? dout : q, query, tokens, firstColumn,
                     ofValues ? s.valueSize : s.size, wide, sums);
    }
  }
  const float all = ofValues ? 1.f : s.scale;
  const float factor[4] = {all, all, all, all};
  writeTile<T, columns>(ofValues ? d.dv : d.dk, ofValues ? s.dv : s.dk, keyHead, ownRow, allKeys,
                        firstColumn, ofValues ? s.valueSize : s.size, factor, sums);
}

/// Calls launch(compile-time columns, blocks along z) for a result of `size` features.
template <typename Launch> void chooseColumns(int64_t size, Launch launch) {
  if (size <= 32)
    launch(std::integral_constant<int, 32>(), 1u);
  else if (size <= 64)
    launch(std::integral_constant<int, 64>(), 1u);
  else
    launch(std::integral_constant<int, 128>(), static_cast<unsigned>(ceilDiv(size, 128)));
}

template <typename T>
cudaError_t run(const AttentionShape &s, const AttentionData &d, cudaStream_t stream) {
  const AttentionWorkspace w{
      static_cast<Segment *>(d.workspace),
      reinterpret_cast<float *>(static_cast<Segment *>(d.workspace) + s.tokens)};
  if (s.tokens > 0)
    OMNIBAL_LAUNCH((attentionDelta<T>),
                   dim3(gridFor(ceilDiv(s.tokens * s.heads, attentionThreads / 32))),
                   dim3(attentionThreads), stream, s, d, w);
  if (onTensorCores(s, d, true))
    if (const cudaError_t error = launchTensorGradients(s, d, w, stream);
        error != cudaErrorInvalidConfiguration)
      return error;
  (void)cudaGetLastError(); // too little shared memory there
  const unsigned tiles = static_cast<unsigned>(ceilDiv(s.tokens, tileRows));
  const unsigned keyTiles = static_cast<unsigned>(ceilDiv(keyCount(s), tileRows));
  const unsigned keyHeads = static_cast<unsigned>(s.keyHeads);
  const dim3 block(attentionThreads);
  const bool wide = readsInPacks(s, d, true);
  chooseColumns(s.size, [&](auto columns, unsigned parts) {
    constexpr int n = decltype(columns)::value;
    if (tiles > 0)
      OMNIBAL_LAUNCH((queryGradient<T, n>), dim3(tiles, static_cast<unsigned>(s.heads), parts),
                     block, stream, s, d, w, wide);
    if (keyTiles > 0)
      OMNIBAL_LAUNCH((keyGradient<false, T, n>), dim3(keyTiles, keyHeads, parts), block, stream, s,
                     d, w, wide);
  });
  chooseColumns(s.valueSize, [&](auto columns, unsigned parts) {
    constexpr int n = decltype(columns)::value;
    if (keyTiles > 0)
      OMNIBAL_LAUNCH((keyGradient<true, T, n>), dim3(keyTiles, keyHeads, parts), block, stream, s,
                     d, w, wide);
  });
  return cudaGetLastError();
}

} // namespace

cudaError_t launchAttentionBackward(const AttentionShape &s, const AttentionData &d,
                                    cudaStream_t stream) {
  if ((s.tokens == 0 && keyCount(s) == 0) || s.heads == 0)
    return cudaSuccess;
  if (const cudaError_t error = checkAttention(s))
    return error;
  return s.type == Element::F32 ? run<float>(s, d, stream) : run<bf16>(s, d, stream);
}

} // namespace omnibal::rt::cuda
