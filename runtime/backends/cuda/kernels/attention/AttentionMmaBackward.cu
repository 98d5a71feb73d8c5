//===- AttentionMmaBackward.cu - Gradients of queries; of keys and values ---------------------===//
//
// A block of 4 warps owns 64 or 128 rows and recomputes the probabilities from the log-sum-exp. Two
// kernels, so that each sum belongs to one block: five products more than the least would add
// atomically. The next tile is copied while one is computed, and a tile is computed in parts, so
// that registers hold few scores and many sums.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/cuda/kernels/attention/AttentionMma.h"

namespace omnibal::rt::cuda {
namespace {

constexpr int threads = 128;
/// The groups of rows per warp: each load of another row serves 32 rows, where registers allow.
template <int features> constexpr int groupsOf = features <= 64 ? 2 : 1;
template <int features> constexpr int ownRows = threads / 32 * groupsOf<features> * groupRows;
/// The other rows whose scores are in registers at once.
template <int features> constexpr int partRows = features <= 64 ? 32 : otherRows;

/// Two own tiles, and two others twice.
template <int features>
constexpr int sharedBytes = 2 * ownRows<features> * rowBytes<features> + 4 * tileBytes<features>;

template <int features>
__global__ void __launch_bounds__(threads, features <= 64    ? 3
                                           : features <= 128 ? 2
                                                             : 1)
    tensorQueryGradient(AttentionShape s, AttentionData d, AttentionWorkspace w) {
  constexpr int groups = groupsOf<features>, own = ownRows<features>, part = partRows<features>;
  constexpr int tile = tileBytes<features>, ownTile = own * rowBytes<features>;
  __shared__ VisibleRows<own> rows;
  unsigned char *memory = dynamicMemory();
  const int tokens = static_cast<int>(s.tokens), thread = threadIdx.x;
  const int warpRow = thread / 32 * groups * groupRows, lane = thread % 32;
  const int ownRow = static_cast<int>(gridDim.x - 1 - blockIdx.x) * own;
  const int64_t head = blockIdx.y, keyHead = head / (s.heads / s.keyHeads);
  const HeadRows<bf16> q(d.q, s.q, head), k(d.k, s.k, keyHead), v(d.v, s.v, keyHead);
  const HeadRows<bf16> dout(d.dout, s.dout, head);
  if (thread < own) {
    const int row = ownRow + thread;
    rows.fill(thread, visibleKeys(s, row, row < tokens ? w.segments[row] : Segment{0, 0}));
  }
  copyRows<features, own, threads>(memory, q, ownRow, tokens, s.size);
  copyRows<features, own, threads>(memory + ownTile, dout, ownRow, tokens, s.valueSize);
  __syncthreads();
  const Segment range = rows.all();
  GroupRange mine = rows.groups[warpRow / groupRows];
#pragma unroll
  for (int g = 1; g < groups; ++g)
    mine = mine.with(rows.groups[warpRow / groupRows + g]);
  float lse[groups][2], delta[groups][2];
#pragma unroll
  for (int g = 0; g < groups; ++g)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = ownRow + warpRow + g * groupRows + lane / 4 + i * 8;
      lse[g][i] = row < tokens ? d.lse[row * s.lseToken + head * s.lseHead] * log2e : 0.f;
      delta[g][i] = row < tokens ? w.delta[row * s.heads + head] : 0.f;
    }
  auto copyTile = [&](int key, int stage) {
    unsigned char *to = memory + 2 * ownTile + stage * 2 * tile;
    copyRows<features, otherRows, threads>(to, k, key, range.end, s.size);
    copyRows<features, otherRows, threads>(to + tile, v, key, range.end, s.valueSize);
  };
  if (range.begin < range.end)
    copyTile(range.begin, 0);
  closeCopies();

  const unsigned char *ownQ = memory + warpRow * rowBytes<features>, *ownDout = ownQ + ownTile;
  const float scale = s.scale * log2e;
  const int column = lane % 4 * 2;
  Sums<groups, features> sums = {};
  int stage = 0;
  for (int key = range.begin; key < range.end; key += otherRows, stage ^= 1) {
    if (key + otherRows < range.end)
      copyTile(key + otherRows, stage ^ 1);
    closeCopies();
    waitForCopies<1>();
    __syncthreads(); // this tile is there
    const unsigned char *tileK = memory + 2 * ownTile + stage * 2 * tile, *tileV = tileK + tile;
#pragma unroll 1
    for (int from = 0; from < otherRows; from += part) {
      const int first = key + from, end = first + part;
      if (mine.begin >= end || mine.end <= first)
        continue;
      const bool whole = mine.allBegin <= first && mine.allEnd >= end;
      const unsigned char *partK = tileK + from * rowBytes<features>,
                          *partV = tileV + from * rowBytes<features>;
      Scores<groups, part / 8> scores, slopes;
      dotTiles<features>(scores, ownQ, partK);
      dotTiles<features>(slopes, ownDout, partV);
#pragma unroll
      for (int g = 0; g < groups; ++g)
#pragma unroll
        for (int j = 0; j < part / 8; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            slopes[g][j][e] = quickExp2(scores[g][j][e] * scale - lse[g][e / 2]) *
                              (slopes[g][j][e] - delta[g][e / 2]);
      if (!whole) {
#pragma unroll
        for (int g = 0; g < groups; ++g)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const Segment seen = rows.keys[warpRow + g * groupRows + lane / 4 + i * 8];
#pragma unroll
            for (int j = 0; j < part / 8; ++j)
#pragma unroll
              for (int e = 0; e < 2; ++e) {
                const int at = first + j * 8 + column + e;
                float &slope = slopes[g][j][i * 2 + e];
                slope = at >= seen.begin && at < seen.end ? slope : 0.f;
              }
          }
      }
      accumulateTiles<features>(sums, slopes, partK);
    }
    __syncthreads(); // this tile is used
  }
  waitForCopies<0>();
  const float factor[2] = {s.scale, s.scale};
#pragma unroll
  for (int g = 0; g < groups; ++g)
    writeRows<features>(d.dq, s.dq, head, ownRow + warpRow + g * groupRows, tokens, s.size, factor,
                        sums[g]);
}

/// What is known of the queries in a tile.
struct QuerySide {
  VisibleRows<otherRows> rows;
  float lse[otherRows], delta[otherRows];
};

/// The same of one query, on its way.
struct QueryOnItsWay {
  Segment segment{0, 0};
  float lse = 0, delta = 0;
};

/// A block owns 64 or 128 keys of a key head and walks over the queries of all heads of the group.
/// The gradients of keys and of values come together, or from a launch each where registers are
/// short.
template <int features, bool withKeys, bool withValues>
__global__ void __launch_bounds__(threads, features <= 128 ? 2 : 1)
    tensorKeyGradient(AttentionShape s, AttentionData d, AttentionWorkspace w) {
  constexpr int groups = groupsOf<features>, own = ownRows<features>, part = partRows<features>;
  constexpr int tile = tileBytes<features>, ownTile = own * rowBytes<features>;
  __shared__ VisibleRows<own> rows;
  __shared__ QuerySide sides[2];
  unsigned char *memory = dynamicMemory();
  const int tokens = static_cast<int>(s.tokens), thread = threadIdx.x;
  const int warpRow = thread / 32 * groups * groupRows, lane = thread % 32;
  const int ownRow = static_cast<int>(blockIdx.x) * own;
  const int64_t keyHead = blockIdx.y, group = s.heads / s.keyHeads;
  const HeadRows<bf16> k(d.k, s.k, keyHead), v(d.v, s.v, keyHead);
  if (thread < own) {
    const int key = ownRow + thread;
    const Segment segment = key < tokens ? w.segments[key] : Segment{0, 0};
    rows.fill(thread, segment.begin <= key && key < segment.end ? segment : Segment{0, 0});
  }
  copyRows<features, own, threads>(memory, k, ownRow, tokens, s.size);
  copyRows<features, own, threads>(memory + ownTile, v, ownRow, tokens, s.valueSize);
  __syncthreads();
  // The queries of the samples of these keys, as far as the mask lets them see one of the keys.
  Segment range = rows.all();
  if (s.mask != AttentionMask::Full && range.begin < ownRow)
    range.begin = ownRow;
  if (s.mask == AttentionMask::Sliding && range.end - ownRow > own - 1 + s.window)
    range.end = ownRow + own - 1 + static_cast<int>(s.window);
  const int tiles =
      range.begin < range.end ? (range.end - range.begin + otherRows - 1) / otherRows : 0;
  const int steps = static_cast<int>(group) * tiles;

  auto copyTile = [&](int step, int stage) {
    const int64_t head = keyHead * group + step / tiles;
    const int query = range.begin + step % tiles * otherRows;
    const HeadRows<bf16> q(d.q, s.q, head), dout(d.dout, s.dout, head);
    unsigned char *to = memory + 2 * ownTile + stage * 2 * tile;
    copyRows<features, otherRows, threads>(to, q, query, range.end, s.size);
    copyRows<features, otherRows, threads>(to + tile, dout, query, range.end, s.valueSize);
    QueryOnItsWay mine;
    const int row = query + thread;
    if (thread < otherRows && row < range.end) {
      mine.segment = w.segments[row];
      mine.lse = d.lse[row * s.lseToken + head * s.lseHead];
      mine.delta = w.delta[row * s.heads + head];
    }
    return mine;
  };
  auto keepSide = [&](int step, int stage, const QueryOnItsWay &mine) {
    if (thread >= otherRows)
      return;
    QuerySide &side = sides[stage];
    const int row = range.begin + step % tiles * otherRows + thread;
    side.rows.fill(thread, visibleKeys(s, row, mine.segment));
    side.lse[thread] = mine.lse * log2e;
    side.delta[thread] = mine.delta;
  };
  if (steps > 0)
    keepSide(0, 0, copyTile(0, 0));
  closeCopies();

  const unsigned char *ownK = memory + warpRow * rowBytes<features>, *ownV = ownK + ownTile;
  const float scale = s.scale * log2e;
  const int column = lane % 4 * 2, warpKey = ownRow + warpRow;
  [[maybe_unused]] Sums<groups, features> ofKeys = {}, ofValues = {};
  for (int step = 0, stage = 0; step < steps; ++step, stage ^= 1) {
    const bool more = step + 1 < steps;
    QueryOnItsWay next;
    if (more)
      next = copyTile(step + 1, stage ^ 1);
    closeCopies();
    waitForCopies<1>();
    __syncthreads(); // this tile is there
    const QuerySide &side = sides[stage];
#pragma unroll 1
    for (int from = 0; from < otherRows; from += part) {
      GroupRange seen = side.rows.groups[from / groupRows];
#pragma unroll
      for (int g = 1; g < part / groupRows; ++g)
        seen = seen.with(side.rows.groups[from / groupRows + g]);
      if (seen.begin >= warpKey + groups * groupRows || seen.end <= warpKey)
        continue;
      const bool whole = seen.allBegin <= warpKey && seen.allEnd >= warpKey + groups * groupRows;
      const unsigned char *partQ =
                              memory + 2 * ownTile + stage * 2 * tile + from * rowBytes<features>,
                          *partDout = partQ + tile;
      Scores<groups, part / 8> scores;
      dotTiles<features>(scores, ownK, partQ);
#pragma unroll
      for (int j = 0; j < part / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float lse = side.lse[from + j * 8 + column + e % 2];
#pragma unroll
          for (int g = 0; g < groups; ++g)
            scores[g][j][e] = quickExp2(scores[g][j][e] * scale - lse);
        }
      if (!whole) {
#pragma unroll
        for (int j = 0; j < part / 8; ++j)
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const Segment keys = side.rows.keys[from + j * 8 + column + e];
#pragma unroll
            for (int g = 0; g < groups; ++g)
#pragma unroll
              for (int i = 0; i < 2; ++i) {
                const int key = warpKey + g * groupRows + lane / 4 + i * 8;
                float &p = scores[g][j][i * 2 + e];
                p = key >= keys.begin && key < keys.end ? p : 0.f;
              }
          }
      }
      if constexpr (withValues)
        accumulateTiles<features>(ofValues, scores, partDout);
      if constexpr (withKeys) {
        Scores<groups, part / 8> slopes;
        dotTiles<features>(slopes, ownV, partDout);
#pragma unroll
        for (int j = 0; j < part / 8; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const float delta = side.delta[from + j * 8 + column + e % 2];
#pragma unroll
            for (int g = 0; g < groups; ++g) {
              const float p = scores[g][j][e];
              // Where nothing is seen the probability is 0, whatever the row holds.
              slopes[g][j][e] = p == 0.f ? 0.f : p * (slopes[g][j][e] - delta);
            }
          }
        accumulateTiles<features>(ofKeys, slopes, partQ);
      }
    }
    if (more)
      keepSide(step + 1, stage ^ 1, next);
    __syncthreads(); // this tile is used
  }
  waitForCopies<0>();
  [[maybe_unused]] const float scaled[2] = {s.scale, s.scale}, plain[2] = {1.f, 1.f};
#pragma unroll
  for (int g = 0; g < groups; ++g) {
    const int first = warpKey + g * groupRows;
    if constexpr (withKeys)
      writeRows<features>(d.dk, s.dk, keyHead, first, tokens, s.size, scaled, ofKeys[g]);
    if constexpr (withValues)
      writeRows<features>(d.dv, s.dv, keyHead, first, tokens, s.valueSize, plain, ofValues[g]);
  }
}

/// One of the kernels above.
template <int features, typename Gradient>
cudaError_t launch(Gradient kernel, int64_t heads, const AttentionShape &s, const AttentionData &d,
                   const AttentionWorkspace &w, cudaStream_t stream) {
  if (!OMNIBAL_ALLOW_SHARED(kernel, sharedBytes<features>))
    return cudaErrorInvalidConfiguration;
  const dim3 grid(static_cast<unsigned>(ceilDiv(s.tokens, ownRows<features>)),
                  static_cast<unsigned>(heads));
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
