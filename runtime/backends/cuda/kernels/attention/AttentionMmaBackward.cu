//===- AttentionMmaBackward.cu - Gradients of queries; of keys and values ---------------------===//
//
// A block of 4 warps owns 64 rows and recomputes the probabilities from the log-sum-exp. Two
// kernels, so that each sum belongs to one block: five products more than the least would add
// atomically. The next tile is copied while one is computed.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/cuda/kernels/attention/AttentionMma.h"

namespace omnibal::rt::cuda {
namespace {

constexpr int threads = 128;
constexpr int ownRows = threads / 32 * groupRows;
static_assert(ownRows == otherRows);

/// Two own tiles, and two others twice.
template <int features> constexpr int sharedBytes = 6 * tileBytes<features>;

template <int features>
__global__ void __launch_bounds__(threads, features <= 64    ? 3
                                           : features <= 128 ? 2
                                                             : 1)
    tensorQueryGradient(AttentionShape s, AttentionData d, AttentionWorkspace w) {
  __shared__ VisibleRows<ownRows> rows;
  constexpr int tile = tileBytes<features>;
  unsigned char *memory = dynamicMemory();
  const int tokens = static_cast<int>(s.tokens), thread = threadIdx.x;
  const int warp = thread / 32, lane = thread % 32;
  const int ownRow = static_cast<int>(gridDim.x - 1 - blockIdx.x) * ownRows;
  const int64_t head = blockIdx.y, keyHead = head / (s.heads / s.keyHeads);
  const HeadRows<bf16> q(d.q, s.q, head), k(d.k, s.k, keyHead), v(d.v, s.v, keyHead);
  const HeadRows<bf16> dout(d.dout, s.dout, head);
  if (thread < ownRows) {
    const int row = ownRow + thread;
    rows.fill(thread, visibleKeys(s, row, row < tokens ? w.segments[row] : Segment{0, 0}));
  }
  copyRows<features, ownRows, threads>(memory, q, ownRow, tokens, s.size);
  copyRows<features, ownRows, threads>(memory + tile, dout, ownRow, tokens, s.valueSize);
  __syncthreads();
  const Segment range = rows.all();
  const GroupRange mine = rows.groups[warp];
  const int slot = warp * groupRows + lane / 4;
  const Segment seen[2] = {rows.keys[slot], rows.keys[slot + 8]};
  float lse[2], delta[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = ownRow + slot + i * 8;
    lse[i] = row < tokens ? d.lse[row * s.lseToken + head * s.lseHead] * log2e : 0.f;
    delta[i] = row < tokens ? w.delta[row * s.heads + head] : 0.f;
  }
  auto copyTile = [&](int key, int stage) {
    unsigned char *to = memory + (2 + stage * 2) * tile;
    copyRows<features, otherRows, threads>(to, k, key, range.end, s.size);
    copyRows<features, otherRows, threads>(to + tile, v, key, range.end, s.valueSize);
  };
  if (range.begin < range.end)
    copyTile(range.begin, 0);
  closeCopies();

  const unsigned char *ownQ = memory + warp * groupRows * rowBytes<features>,
                      *ownDout = ownQ + tile;
  const float scale = s.scale * log2e;
  const int column = lane % 4 * 2;
  Sums<1, features> sums = {};
  int stage = 0;
  for (int key = range.begin; key < range.end; key += otherRows, stage ^= 1) {
    if (key + otherRows < range.end)
      copyTile(key + otherRows, stage ^ 1);
    closeCopies();
    waitForCopies<1>();
    __syncthreads(); // this tile is there
    const unsigned char *tileK = memory + (2 + stage * 2) * tile, *tileV = tileK + tile;
    if (mine.begin < key + otherRows && mine.end > key) {
      const bool whole = mine.allBegin <= key && mine.allEnd >= key + otherRows;
      Scores<1> scores, slopes;
      dotTiles<features, 1>(scores, ownQ, tileK);
      dotTiles<features, 1>(slopes, ownDout, tileV);
#pragma unroll
      for (int j = 0; j < otherTiles; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int i = e / 2, at = key + j * 8 + column + e % 2;
          const bool visible = whole || (at >= seen[i].begin && at < seen[i].end);
          const float p = quickExp2(scores[0][j][e] * scale - lse[i]);
          slopes[0][j][e] = visible ? p * (slopes[0][j][e] - delta[i]) : 0.f;
        }
      accumulateTiles<features, 1>(sums, slopes, tileK);
    }
    __syncthreads(); // this tile is used
  }
  waitForCopies<0>();
  const float factor[2] = {s.scale, s.scale};
  writeRows<features>(d.dq, s.dq, head, ownRow + warp * groupRows, tokens, s.size, factor, sums[0]);
}

/// What is known of the queries in a tile.
struct QuerySide {
  Segment keys[otherRows];
  float lse[otherRows], delta[otherRows];
};

/// A block owns 64 keys of a key head and walks over the queries of all heads of the group. The
/// gradients of keys and of values come together, or from a launch each where registers are short.
template <int features, bool withKeys, bool withValues>
__global__ void __launch_bounds__(threads, features <= 128 ? 2 : 1)
    tensorKeyGradient(AttentionShape s, AttentionData d, AttentionWorkspace w) {
  __shared__ VisibleRows<ownRows> rows;
  __shared__ QuerySide sides[2];
  constexpr int tile = tileBytes<features>;
  unsigned char *memory = dynamicMemory();
  const int tokens = static_cast<int>(s.tokens), thread = threadIdx.x;
  const int warp = thread / 32, lane = thread % 32;
  const int ownRow = static_cast<int>(blockIdx.x) * ownRows;
  const int64_t keyHead = blockIdx.y, group = s.heads / s.keyHeads;
  const HeadRows<bf16> k(d.k, s.k, keyHead), v(d.v, s.v, keyHead);
  if (thread < ownRows) {
    const int key = ownRow + thread;
    const Segment segment = key < tokens ? w.segments[key] : Segment{0, 0};
    rows.fill(thread, segment.begin <= key && key < segment.end ? segment : Segment{0, 0});
  }
  copyRows<features, ownRows, threads>(memory, k, ownRow, tokens, s.size);
  copyRows<features, ownRows, threads>(memory + tile, v, ownRow, tokens, s.valueSize);
  __syncthreads();
  // The queries of the samples of these keys, as far as the mask lets them see one of the keys.
  Segment range = rows.all();
  if (s.mask != AttentionMask::Full && range.begin < ownRow)
    range.begin = ownRow;
  if (s.mask == AttentionMask::Sliding && range.end - ownRow > ownRows - 1 + s.window)
    range.end = ownRow + ownRows - 1 + static_cast<int>(s.window);
  const int tiles =
      range.begin < range.end ? (range.end - range.begin + otherRows - 1) / otherRows : 0;
  const int steps = static_cast<int>(group) * tiles;

  auto copyTile = [&](int step, int stage) {
    const int64_t head = keyHead * group + step / tiles;
    const int query = range.begin + step % tiles * otherRows;
    const HeadRows<bf16> q(d.q, s.q, head), dout(d.dout, s.dout, head);
    unsigned char *to = memory + (2 + stage * 2) * tile;
    copyRows<features, otherRows, threads>(to, q, query, range.end, s.size);
    copyRows<features, otherRows, threads>(to + tile, dout, query, range.end, s.valueSize);
    if (thread < otherRows) {
      const int row = query + thread;
      const bool inside = row < range.end;
      QuerySide &side = sides[stage];
      side.keys[thread] = inside ? visibleKeys(s, row, w.segments[row]) : Segment{0, 0};
      side.lse[thread] = inside ? d.lse[row * s.lseToken + head * s.lseHead] * log2e : 0.f;
      side.delta[thread] = inside ? w.delta[row * s.heads + head] : 0.f;
    }
  };
  if (steps > 0)
    copyTile(0, 0);
  closeCopies();

  const unsigned char *ownK = memory + warp * groupRows * rowBytes<features>, *ownV = ownK + tile;
  const float scale = s.scale * log2e;
  const int column = lane % 4 * 2, firstKey = ownRow + warp * groupRows + lane / 4;
  [[maybe_unused]] Sums<1, features> ofKeys = {}, ofValues = {};
  for (int step = 0, stage = 0; step < steps; ++step, stage ^= 1) {
    if (step + 1 < steps)
      copyTile(step + 1, stage ^ 1);
    closeCopies();
    waitForCopies<1>();
    __syncthreads(); // this tile is there
    const unsigned char *tileQ = memory + (2 + stage * 2) * tile, *tileDout = tileQ + tile;
    const QuerySide &side = sides[stage];
    Scores<1> scores;
    dotTiles<features, 1>(scores, ownK, tileQ);
#pragma unroll
    for (int j = 0; j < otherTiles; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int query = j * 8 + column + e % 2, key = firstKey + e / 2 * 8;
        const Segment seen = side.keys[query];
        const float p = quickExp2(scores[0][j][e] * scale - side.lse[query]);
        scores[0][j][e] = key >= seen.begin && key < seen.end ? p : 0.f;
      }
    if constexpr (withValues)
      accumulateTiles<features, 1>(ofValues, scores, tileDout);
    if constexpr (withKeys) {
      Scores<1> slopes;
      dotTiles<features, 1>(slopes, ownV, tileDout);
#pragma unroll
      for (int j = 0; j < otherTiles; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float p = scores[0][j][e], delta = side.delta[j * 8 + column + e % 2];
          // Where nothing is seen the probability is 0, whatever the row holds.
          slopes[0][j][e] = p == 0.f ? 0.f : p * (slopes[0][j][e] - delta);
        }
      accumulateTiles<features, 1>(ofKeys, slopes, tileQ);
    }
    __syncthreads(); // this tile is used
  }
  waitForCopies<0>();
  const int first = ownRow + warp * groupRows;
  [[maybe_unused]] const float scaled[2] = {s.scale, s.scale}, plain[2] = {1.f, 1.f};
  if constexpr (withKeys)
    writeRows<features>(d.dk, s.dk, keyHead, first, tokens, s.size, scaled, ofKeys[0]);
  if constexpr (withValues)
    writeRows<features>(d.dv, s.dv, keyHead, first, tokens, s.valueSize, plain, ofValues[0]);
}

/// One of the kernels above.
template <int features, typename Gradient>
cudaError_t launch(Gradient kernel, int64_t heads, const AttentionShape &s, const AttentionData &d,
                   const AttentionWorkspace &w, cudaStream_t stream) {
  if (!OMNIBAL_ALLOW_SHARED(kernel, sharedBytes<features>))
    return cudaErrorInvalidConfiguration;
  const dim3 grid(static_cast<unsigned>(ceilDiv(s.tokens, ownRows)), static_cast<unsigned>(heads));
  OMNIBAL_LAUNCH_SHARED(kernel, grid, dim3(threads), sharedBytes<features>, stream, s, d, w);
  return cudaGetLastError();
}

template <int features>
cudaError_t run(const AttentionShape &s, const AttentionData &d, const AttentionWorkspace &w,
                cudaStream_t stream) {
  if (cudaError_t error = launch<features>(tensorQueryGradient<features>, s.heads, s, d, w, stream))
    return error;
  if constexpr (features <= 128)
    return launch<features>(tensorKeyGradient<features, true, true>, s.keyHeads, s, d, w, stream);
  else if (cudaError_t error = launch<features>(tensorKeyGradient<features, true, false>,
                                                s.keyHeads, s, d, w, stream))
    return error;
  else
    return launch<features>(tensorKeyGradient<features, false, true>, s.keyHeads, s, d, w, stream);
}

} // namespace

cudaError_t launchTensorGradients(const AttentionShape &s, const AttentionData &d,
                                  const AttentionWorkspace &w, cudaStream_t stream) {
  const int64_t size = s.size > s.valueSize ? s.size : s.valueSize;
  return size <= 64    ? run<64>(s, d, w, stream)
         : size <= 128 ? run<128>(s, d, w, stream)
                       : run<256>(s, d, w, stream);
}

} // namespace omnibal::rt::cuda
