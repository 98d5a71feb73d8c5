//===- AttentionForward.cu - A block 64 queries of a head and some columns of its values ------===//
//
// The running maximum and sum of Milakov and Gimelshein, "Online normalizer calculation for
// softmax" (2018), by tiles as in Dao et al., "FlashAttention" (2022).
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/cuda/kernels/attention/AttentionMma.h"

namespace omnibal::rt::cuda {
namespace {

/// The largest, and the sum, over the 16 threads of a row.
__device__ __forceinline__ float rowMax(float x) {
#pragma unroll
  for (int bits = 8; bits > 0; bits /= 2)
    x = fmaxf(x, __shfl_xor_sync(allLanes, x, bits));
  return x;
}
__device__ __forceinline__ float rowSum(float x) {
#pragma unroll
  for (int bits = 8; bits > 0; bits /= 2)
    x += __shfl_xor_sync(allLanes, x, bits);
  return x;
}

template <typename T, int columns>
__global__ void __launch_bounds__(attentionThreads, 2)
    attentionForward(AttentionShape s, AttentionData d, bool wide) {
  __shared__ AttentionTiles<columns> tiles;
  const int tokens = static_cast<int>(s.tokens), thread = threadIdx.x;
  const int allKeys = static_cast<int>(keyCount(s));
  // The last queries see most keys under a causal mask: they start first.
  const int ownRow = static_cast<int>(gridDim.x - 1 - blockIdx.x) * tileRows;
  const int64_t head = blockIdx.y, keyHead = head / (s.heads / s.keyHeads);
  const int64_t firstColumn = int64_t(blockIdx.z) * columns;
  const HeadRows<T> q(d.q, s.q, head), k(d.k, s.k, keyHead), v(d.v, s.v, keyHead);
  const int down = thread / 16 * 4, across = thread % 16 * 4;
  if (thread < tileRows) {
    const int row = ownRow + thread;
    describeQuery(s, d.types, tiles.queries, thread, row,
                  row < tokens ? segmentOf(s, d, row) : Segment{0, 0});
  }
  __syncthreads();
  const Segment keys = keysOf(tiles.queries);

  float sums[4][columns / 16] = {};
  float top[4], total[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    top[i] = -INFINITY;
    total[i] = 0;
  }
  for (int key = keys.begin; key < keys.end; key += tileRows) {
    const bool prefix = findPrefixKeys(tiles, s, d, key, tokens);
    if (!prefix && onlyPast(s.mask) && key > ownRow + tileRows - 1)
      continue; // all in the future
    float scores[4][4];
    dotTile(tiles, q, ownRow, tokens, k, key, allKeys, s.size, wide, scores);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float largest = top[i];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const bool visible =
            sees(tiles.queries, down + i, key + across + j, prefix && tiles.prefixKey[across + j]);
        scores[i][j] = visible ? scoreOf(s, scores[i][j]) : -INFINITY;
        largest = fmaxf(largest, scores[i][j]);
      }
      largest = rowMax(largest);
      const float base = largest == -INFINITY ? 0.f : largest;
      const float keep = exp2f(top[i] - base);
      float sum = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j)
        sum += scores[i][j] = exp2f(scores[i][j] - base);
      total[i] = total[i] * keep + rowSum(sum);
      top[i] = largest;
#pragma unroll
      for (int c = 0; c < columns / 16; ++c)
        sums[i][c] *= keep;
    }
    storeWeights(tiles, scores);
    accumulateTile(tiles, v, key, allKeys, firstColumn, s.valueSize, wide, sums);
  }

  float factor[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float kept = addSink(s, d, head, top[i], total[i]);
    factor[i] = total[i] == 0 ? 0.f : kept / total[i];
    const int row = ownRow + down + i;
    if (blockIdx.z == 0 && thread % 16 == 0 && row < tokens)
      d.lse[row * s.lseToken + head * s.lseHead] =
          total[i] == 0 ? -INFINITY : (top[i] + log2f(total[i])) * ln2;
  }
  writeTile<T, columns>(d.out, s.out, head, ownRow, tokens, firstColumn, s.valueSize, factor, sums);
}

template <typename T, int columns>
cudaError_t run(const AttentionShape &s, const AttentionData &d, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(ceilDiv(s.tokens, tileRows)),
                  static_cast<unsigned>(s.heads),
                  static_cast<unsigned>(ceilDiv(s.valueSize, columns)));
  OMNIBAL_LAUNCH((attentionForward<T, columns>), grid, dim3(attentionThreads), stream, s, d,
                 readsInPacks(s, d, false));
  return cudaGetLastError();
}

template <typename T>
cudaError_t chooseColumns(const AttentionShape &s, const AttentionData &d, cudaStream_t stream) {
  if (s.valueSize <= 32)
    return run<T, 32>(s, d, stream);
  if (s.valueSize <= 64)
    return run<T, 64>(s, d, stream);
  return run<T, 128>(s, d, stream);
}

} // namespace

cudaError_t launchAttention(const AttentionShape &s, const AttentionData &d, cudaStream_t stream) {
  if (s.tokens == 0 || s.heads == 0)
    return cudaSuccess;
  if (const cudaError_t error = checkAttention(s))
    return error;
  if (onTensorCores(s, d, false))
    if (const cudaError_t error = launchTensorAttention(s, d, stream);
        error != cudaErrorInvalidConfiguration)
      return error;
  (void)cudaGetLastError(); // too little shared memory there
  return s.type == Element::F32 ? chooseColumns<float>(s, d, stream)
                                : chooseColumns<bf16>(s, d, stream);
}

} // namespace omnibal::rt::cuda
