//===- AttentionMmaForward.cu - A block 128 queries of a head (64 of 256 features) -----------===//
//
// The values of a tile are copied while its scores are computed, the next tile's keys while the
// values are added.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/cuda/kernels/attention/AttentionMma.h"

namespace omnibal::rt::cuda {
namespace {

constexpr int threads = 128;
/// The groups of rows per warp: what it reads of keys and values serves 32 queries, where registers
/// allow.
template <int features> constexpr int groupsOf = features <= 128 ? 2 : 1;
template <int features> constexpr int rowsOf = threads / 32 * groupsOf<features> * groupRows;

template <int features>
constexpr int sharedBytes = rowsOf<features> * rowBytes<features> + 2 * tileBytes<features>;

/// The largest of, and the sum over, the 4 lanes of a row.
__device__ __forceinline__ float quadMax(float x) {
  x = fmaxf(x, __shfl_xor_sync(allLanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(allLanes, x, 2));
}
__device__ __forceinline__ float quadSum(float x) {
  x += __shfl_xor_sync(allLanes, x, 1);
  return x + __shfl_xor_sync(allLanes, x, 2);
}

/// Scores of a tile to probabilities under a running maximum; `sums` is scaled along.
template <int features>
__device__ __forceinline__ void normalize(float (&scores)[otherTiles][4], float scale, bool whole,
                                          const Segment *rows, int key, float (&top)[2],
                                          float (&total)[2], float (&sums)[features / 8][4]) {
  const int column = threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const Segment seen = rows[i * 8];
    float largest = top[i];
#pragma unroll
    for (int j = 0; j < otherTiles; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float &score = scores[j][i * 2 + e];
        const int at = key + j * 8 + column + e;
        score = whole || (at >= seen.begin && at < seen.end) ? score * scale : -INFINITY;
        largest = fmaxf(largest, score);
      }
    largest = quadMax(largest);
    const float base = largest == -INFINITY ? 0.f : largest;
    const float keep = quickExp2(top[i] - base);
    float sum = 0;
#pragma unroll
    for (int j = 0; j < otherTiles; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float &score = scores[j][i * 2 + e];
        sum += score = quickExp2(score - base);
      }
    total[i] = total[i] * keep + quadSum(sum);
    top[i] = largest;
#pragma unroll
    for (int n = 0; n < features / 8; ++n) {
      sums[n][i * 2] *= keep;
      sums[n][i * 2 + 1] *= keep;
    }
  }
}

template <int features>
__global__ void __launch_bounds__(threads, 2) tensorForward(AttentionShape s, AttentionData d) {
  constexpr int groups = groupsOf<features>, ownRows = rowsOf<features>;
  __shared__ VisibleRows<ownRows> rows;
  unsigned char *own = dynamicMemory();
  unsigned char *keys = own + ownRows * rowBytes<features>, *values = keys + tileBytes<features>;
  const int tokens = static_cast<int>(s.tokens), thread = threadIdx.x;
  const int lane = thread % 32, warpRow = thread / 32 * groups * groupRows;
  // The last queries see most keys under a causal mask: they start first.
  const int ownRow = static_cast<int>(gridDim.x - 1 - blockIdx.x) * ownRows;
  const int64_t head = blockIdx.y, keyHead = head / (s.heads / s.keyHeads);
  const HeadRows<bf16> q(d.q, s.q, head), k(d.k, s.k, keyHead), v(d.v, s.v, keyHead);
  if (thread < ownRows) {
    const int row = ownRow + thread;
    const Segment segment = row < tokens ? segmentOf(s, d, row) : Segment{0, 0};
    rows.fill(thread, visibleKeys(s, row, segment));
  }
  copyRows<features, ownRows, threads>(own, q, ownRow, tokens, s.size);
  __syncthreads();
  const Segment range = rows.all();
  GroupRange mine = rows.groups[warpRow / groupRows];
  for (int g = 1; g < groups; ++g)
    mine = mine.with(rows.groups[warpRow / groupRows + g]);
  if (range.begin < range.end)
    copyRows<features, otherRows, threads>(keys, k, range.begin, range.end, s.size);
  closeCopies();

  const float scale = s.scale * log2e;
  Sums<groups, features> sums = {};
  float top[groups][2], total[groups][2];
#pragma unroll
  for (int g = 0; g < groups; ++g)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      top[g][i] = -INFINITY;
      total[g][i] = 0;
    }
  for (int key = range.begin; key < range.end; key += otherRows) {
    waitForCopies<0>();
    __syncthreads(); // keys are there, the last values are used
    copyRows<features, otherRows, threads>(values, v, key, range.end, s.valueSize);
    closeCopies();
    const bool active = mine.begin < key + otherRows && mine.end > key;
    Scores<groups> scores;
    if (active)
      dotTiles<features>(scores, own + warpRow * rowBytes<features>, keys);
    waitForCopies<0>();
    __syncthreads(); // values are there, the keys are used
    if (key + otherRows < range.end)
      copyRows<features, otherRows, threads>(keys, k, key + otherRows, range.end, s.size);
    closeCopies();
    if (!active)
      continue;
    const bool whole = mine.allBegin <= key && mine.allEnd >= key + otherRows;
#pragma unroll
    for (int g = 0; g < groups; ++g)
      normalize<features>(scores[g], scale, whole, &rows.keys[warpRow + g * groupRows + lane / 4],
                          key, top[g], total[g], sums[g]);
    accumulateTiles<features>(sums, scores, values);
  }
  waitForCopies<0>(); // where no key is seen the queries are still on their way

#pragma unroll
  for (int g = 0; g < groups; ++g) {
    const int first = ownRow + warpRow + g * groupRows;
    float factor[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float kept = addSink(s, d, head, top[g][i], total[g][i]);
      factor[i] = total[g][i] == 0 ? 0.f : kept / total[g][i];
      const int row = first + lane / 4 + i * 8;
      if (lane % 4 == 0 && row < tokens)
        d.lse[row * s.lseToken + head * s.lseHead] =
            total[g][i] == 0 ? -INFINITY : (top[g][i] + log2f(total[g][i])) * ln2;
    }
    writeRows<features>(d.out, s.out, head, first, tokens, s.valueSize, factor, sums[g]);
  }
}

template <int features>
cudaError_t run(const AttentionShape &s, const AttentionData &d, cudaStream_t stream) {
  if (!OMNIBAL_ALLOW_SHARED(tensorForward<features>, sharedBytes<features>))
    return cudaErrorInvalidConfiguration;
  const dim3 grid(static_cast<unsigned>(ceilDiv(s.tokens, rowsOf<features>)),
                  static_cast<unsigned>(s.heads));
  OMNIBAL_LAUNCH_SHARED(tensorForward<features>, grid, dim3(threads), sharedBytes<features>, stream,
                        s, d);
  return cudaGetLastError();
}

} // namespace

cudaError_t launchTensorAttention(const AttentionShape &s, const AttentionData &d,
                                  cudaStream_t stream) {
  const int64_t size = s.size > s.valueSize ? s.size : s.valueSize;
  return size <= 64    ? run<64>(s, d, stream)
         : size <= 128 ? run<128>(s, d, stream)
                       : run<256>(s, d, stream);
}

} // namespace omnibal::rt::cuda
