//===- Recurrent.cu - A block a segment and head, 8 columns of its state at a time ------------===//
//
// Thread t has column t % 8 and every 32nd row from t / 8 on; it alone reads and writes them, so
// only sums over rows need the other threads. The backward needs the state before every token: it
// keeps one in 64 in the workspace, and makes those between again, one in 8 and then all of 8.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/cuda/kernels/Device.h"
#include "runtime/backends/cuda/kernels/Recurrent.h"
#include "runtime/backends/cuda/kernels/TensorCore.h"

namespace omnibal::rt::cuda {
namespace {

constexpr int threads = 256, columns = 8, rowsAtOnce = threads / columns;
constexpr int period = 64, shortPeriod = 8;
constexpr int64_t mostSegments = 32; ///< that blocks have at once

struct Segment {
  int64_t begin, end;
};

/// Segment number i; none: empty.
__device__ __forceinline__ Segment segmentAt(const GatedDeltaShape &s, const int32_t *borders,
                                             int64_t i) {
  if (s.segmentRows > 0)
    return {i * s.segmentRows, (i + 1) * s.segmentRows};
  return {borders[i], borders[i + 1]};
}
__host__ __device__ inline int64_t segmentCount(const GatedDeltaShape &s) {
  return s.segmentRows > 0 ? s.tokens / s.segmentRows : s.borderCount > 0 ? s.borderCount - 1 : 0;
}

/// The sum over the 8 lanes of a row.
__device__ __forceinline__ float rowSum(float x) {
#pragma unroll
  for (int bits = 4; bits > 0; bits /= 2)
    x += __shfl_xor_sync(allLanes, x, bits);
  return x;
}

/// The rule for one head, one segment and the columns from `column` on.
template <typename T> struct Rule {
  const GatedDeltaShape &s;
  const GatedDeltaData &d;
  int64_t head, column;
  float (*parts)[columns]; ///< of each warp, twice
  int turn = 0;

  __device__ Rule(const GatedDeltaShape &s, const GatedDeltaData &d, int64_t head,
                  float (*parts)[columns])
      : s(s), d(d), head(head), column(0), parts(parts) {}

  __device__ __forceinline__ int own() const { return threadIdx.x % columns; }
  __device__ __forceinline__ int64_t firstRow() const { return threadIdx.x / columns; }
  /// Rows for all threads of a warp, as many for each; some lie past the end.
  __device__ __forceinline__ int64_t rowsEnd() const {
    return (s.size + rowsAtOnce - 1) / rowsAtOnce * rowsAtOnce;
  }
  __device__ __forceinline__ bool inside() const { return column + own() < s.valueSize; }

  __device__ __forceinline__ static const T *at(const void *base, const HeadStrides &h, int64_t t,
                                                int64_t head) {
    return static_cast<const T *>(base) + t * h.token + head * h.head;
  }
  __device__ __forceinline__ float number(const void *base, const HeadStrides &h, int64_t t) const {
    return toFloat(*at(base, h, t, head));
  }
  /// The thread's column of a token's values.
  __device__ __forceinline__ float value(const void *base, const HeadStrides &h, int64_t t) const {
    return inside() ? toFloat(at(base, h, t, head)[column + own()]) : 0.f;
  }

  /// The sum over all rows of the thread's column. All threads of the block call it.
  __device__ __forceinline__ float columnSum(float x) {
    x += __shfl_xor_sync(allLanes, x, 8);
    x += __shfl_xor_sync(allLanes, x, 16);
    float(*now)[columns] = parts + turn * (threads / 32);
    turn = 1 - turn; // the last sum's readers may be late
    if (threadIdx.x % 32 < columns)
      now[threadIdx.x / 32][threadIdx.x % 32] = x;
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < threads / 32; ++warp)
      sum += now[warp][own()];
    return sum;
  }

  /// Decays the state and returns value - key^T state.
  __device__ __forceinline__ float decay(float *state, int64_t t) {
    const float factor = expf(number(d.decay, s.decay, t));
    const T *k = at(d.k, s.k, t, head);
    float sum = 0;
    for (int64_t i = firstRow(); i < s.size; i += rowsAtOnce) {
      const float x = state[i * columns + own()] * factor;
      state[i * columns + own()] = x;
      sum = fmaf(toFloat(k[i]), x, sum);
    }
    return value(d.v, s.v, t) - columnSum(sum);
  }
  /// The state after token t, from that before it.
  __device__ __forceinline__ void step(float *state, int64_t t) {
    const float update = number(d.beta, s.beta, t) * decay(state, t);
    const T *k = at(d.k, s.k, t, head);
    for (int64_t i = firstRow(); i < s.size; i += rowsAtOnce)
      state[i * columns + own()] = fmaf(toFloat(k[i]), update, state[i * columns + own()]);
  }
  __device__ __forceinline__ void copy(float *to, const float *from) const {
    for (int64_t i = firstRow(); i < s.size; i += rowsAtOnce)
      to[i * columns + own()] = from ? from[i * columns + own()] : 0.f;
  }
};

/// Rows [from, to) of a result with features become 0.
template <typename T>
__device__ __forceinline__ void clearRows(void *base, const HeadStrides &h, int64_t head,
                                          int64_t size, int64_t from, int64_t to) {
  T *rows = static_cast<T *>(base) + head * h.head;
  for (int64_t i = threadIdx.x; i < (to - from) * size; i += threads)
    rows[(from + i / size) * h.token + i % size] = fromFloat<T>(0.f);
}

/// Returns where the last segment ends.
__device__ __forceinline__ int64_t lastBorder(const GatedDeltaShape &s, const int32_t *borders) {
  return s.segmentRows > 0 ? s.tokens : s.borderCount > 0 ? borders[s.borderCount - 1] : 0;
}

template <typename T>
__global__ void __launch_bounds__(threads) forward(GatedDeltaShape s, GatedDeltaData d) {
  __shared__ float parts[2 * threads / 32][columns];
  float *state = reinterpret_cast<float *>(dynamicMemory());
  Rule<T> rule(s, d, blockIdx.y, parts);
  rule.column = int64_t(blockIdx.z) * columns;
  for (int64_t i = blockIdx.x; i < segmentCount(s); i += gridDim.x) {
    const Segment segment = segmentAt(s, d.borders, i);
    rule.copy(state, nullptr);
    for (int64_t t = segment.begin; t < segment.end; ++t) {
      const float update = rule.number(d.beta, s.beta, t) * rule.decay(state, t);
      const T *k = rule.at(d.k, s.k, t, rule.head), *q = rule.at(d.q, s.q, t, rule.head);
      float sum = 0;
      for (int64_t row = rule.firstRow(); row < s.size; row += rowsAtOnce) {
        float &x = state[row * columns + rule.own()];
        x = fmaf(toFloat(k[row]), update, x);
        sum = fmaf(toFloat(q[row]), x, sum);
      }
      sum = rule.columnSum(sum);
      if (threadIdx.x < columns && rule.inside())
        static_cast<T *>(d.out)[t * s.out.token + rule.head * s.out.head + rule.column +
                                rule.own()] = fromFloat<T>(s.scale * sum);
    }
  }
  if (blockIdx.x == 0 && blockIdx.z == 0)
    clearRows<T>(d.out, s.out, rule.head, s.valueSize, lastBorder(s, d.borders), s.tokens);
}

/// Sums of one token and head in the workspace: dq, dk, ddecay, dbeta.
struct Totals {
  float *dq, *dk, *ddecay, *dbeta;
  __device__ Totals(const GatedDeltaShape &s, float *base, int64_t t, int64_t head) {
    dq = base + (t * s.heads + head) * (2 * s.size + 2);
    dk = dq + s.size;
    ddecay = dk + s.size;
    dbeta = ddecay + 1;
  }
};
__device__ __forceinline__ void give(float *to, float value, bool first) {
  *to = first ? value : *to + value;
}

/// The chain rule through the step of token t. `state` is the one before it; `grad`, that of the
/// state after it, becomes that of the state before.
template <typename T>
__device__ __forceinline__ void stepBack(Rule<T> &rule, float *state, float *grad, float *totals,
                                         int64_t t) {
  const GatedDeltaShape &s = rule.s;
  const GatedDeltaData &d = rule.d;
  const int own = rule.own();
  const bool first = rule.column == 0;
  const Totals sums(s, totals, t, rule.head);
  const T *q = rule.at(d.q, s.q, t, rule.head), *k = rule.at(d.k, s.k, t, rule.head);
  const float beta = rule.number(d.beta, s.beta, t);
  const float rest = rule.decay(state, t), update = beta * rest;
  const float dout = s.scale * rule.value(d.dout, s.dout, t);
  float dupdate = 0;
  for (int64_t i = rule.firstRow(); i < rule.rowsEnd(); i += rowsAtOnce) {
    const bool inside = i < s.size;
    const float key = inside ? toFloat(k[i]) : 0.f;
    const float after = inside ? fmaf(key, update, state[i * columns + own]) : 0.f;
    const float dq = rowSum(dout * after);
    if (!inside)
      continue;
    if (own == 0)
      give(sums.dq + i, dq, first);
    const float x = fmaf(toFloat(q[i]), dout, grad[i * columns + own]);
    grad[i * columns + own] = x;
    dupdate = fmaf(x, key, dupdate);
  }
  dupdate = rule.columnSum(dupdate);
  const float dbeta = rowSum(dupdate * rest), dvalue = beta * dupdate;
  if (threadIdx.x == 0)
    give(sums.dbeta, dbeta, first);
  if (threadIdx.x < columns && rule.inside())
    static_cast<T *>(d.dv)[t * s.dv.token + rule.head * s.dv.head + rule.column + own] =
        fromFloat<T>(dvalue);
  const float factor = expf(rule.number(d.decay, s.decay, t));
  float ddecay = 0;
  for (int64_t i = rule.firstRow(); i < rule.rowsEnd(); i += rowsAtOnce) {
    const bool inside = i < s.size;
    const float decayed = inside ? state[i * columns + own] : 0.f;
    const float x = inside ? grad[i * columns + own] : 0.f;
    const float dk = rowSum(x * update - decayed * dvalue);
    if (!inside)
      continue;
    if (own == 0)
      give(sums.dk + i, dk, first);
    const float before = fmaf(-toFloat(k[i]), dvalue, x);
    ddecay = fmaf(before, decayed, ddecay);
    grad[i * columns + own] = before * factor;
  }
  ddecay = rowSum(rule.columnSum(ddecay));
  if (threadIdx.x == 0)
    give(sums.ddecay, ddecay, first);
}

/// Tokens [begin, end) of at most one period, last first. `kept`: the states before every 8th of
/// them, the first one's being there; `all`: room for 8 states.
template <typename T>
__device__ __forceinline__ void walkBack(Rule<T> &rule, float *kept, float *all, float *grad,
                                         float *totals, int64_t begin, int64_t end) {
  const int64_t state = rule.s.size * columns;
  const int64_t groups = (end - begin + shortPeriod - 1) / shortPeriod;
  for (int64_t g = 1; g < groups; ++g) {
    rule.copy(kept + g * state, kept + (g - 1) * state);
    for (int i = 0; i < shortPeriod; ++i)
      rule.step(kept + g * state, begin + (g - 1) * shortPeriod + i);
  }
  for (int64_t g = groups - 1; g >= 0; --g) {
    const int64_t first = begin + g * shortPeriod;
    const int64_t count = end - first < shortPeriod ? end - first : shortPeriod;
    rule.copy(all, kept + g * state);
    for (int64_t i = 1; i < count; ++i) {
      rule.copy(all + i * state, all + (i - 1) * state);
      rule.step(all + i * state, first + i - 1);
    }
    for (int64_t i = count - 1; i >= 0; --i)
      stepBack(rule, all + i * state, grad, totals, first + i);
  }
}

/// Sums go to the results, in their storage.
template <typename T>
__device__ __forceinline__ void writeTotals(const GatedDeltaShape &s, const GatedDeltaData &d,
                                            float *totals, int64_t head, Segment segment) {
  __syncthreads(); // all are added
  auto write = [](void *base, const HeadStrides &h, int64_t t, int64_t head, int64_t i, float x) {
    static_cast<T *>(base)[t * h.token + head * h.head + i] = fromFloat<T>(x);
  };
  for (int64_t t = segment.begin; t < segment.end; ++t) {
    const Totals sums(s, totals, t, head);
    for (int64_t i = threadIdx.x; i < s.size; i += threads) {
      write(d.dq, s.dq, t, head, i, sums.dq[i]);
      write(d.dk, s.dk, t, head, i, sums.dk[i]);
    }
    if (threadIdx.x == 0) {
      write(d.ddecay, s.ddecay, t, head, 0, *sums.ddecay);
      write(d.dbeta, s.dbeta, t, head, 0, *sums.dbeta);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(threads) backward(GatedDeltaShape s, GatedDeltaData d) {
  __shared__ float parts[2 * threads / 32][columns];
  const int64_t state = s.size * columns, head = blockIdx.y;
  float *grad = reinterpret_cast<float *>(dynamicMemory()), *now = grad + state;
  float *kept = now + state, *all = kept + (period / shortPeriod) * state;
  float *totals = static_cast<float *>(d.workspace);
  float *begins = totals + s.tokens * s.heads * (2 * s.size + 2);
  Rule<T> rule(s, d, head, parts);
  for (int64_t i = blockIdx.x; i < segmentCount(s); i += gridDim.x) {
    const Segment segment = segmentAt(s, d.borders, i);
    if (segment.begin >= segment.end)
      continue;
    for (rule.column = 0; rule.column < s.valueSize; rule.column += columns) {
      // The state before token `period` * n of the row, but for the segment's first.
      auto beginAt = [&](int64_t t) { return begins + ((t / period - 1) * s.heads + head) * state; };
      rule.copy(now, nullptr);
      rule.copy(grad, nullptr);
      for (int64_t t = segment.begin; t < segment.end; ++t) {
        if (t % period == 0 && t > segment.begin)
          rule.copy(beginAt(t), now);
        rule.step(now, t);
      }
      for (int64_t end = segment.end; end > segment.begin;) {
        int64_t begin = (end - 1) / period * period;
        begin = begin > segment.begin ? begin : segment.begin;
        rule.copy(kept, begin > segment.begin ? beginAt(begin) : nullptr);
        walkBack(rule, kept, all, grad, totals, begin, end);
        end = begin;
      }
    }
    writeTotals<T>(s, d, totals, head, segment);
  }
  if (blockIdx.x != 0)
    return;
  const int64_t end = lastBorder(s, d.borders);
  clearRows<T>(d.dq, s.dq, head, s.size, end, s.tokens);
  clearRows<T>(d.dk, s.dk, head, s.size, end, s.tokens);
  clearRows<T>(d.dv, s.dv, head, s.valueSize, end, s.tokens);
  clearRows<T>(d.ddecay, s.ddecay, head, 1, end, s.tokens);
  clearRows<T>(d.dbeta, s.dbeta, head, 1, end, s.tokens);
}

unsigned segmentBlocks(const GatedDeltaShape &s) {
  const int64_t count = segmentCount(s);
  return static_cast<unsigned>(count < 1 ? 1 : count < mostSegments ? count : mostSegments);
}

template <typename T>
cudaError_t runForward(const GatedDeltaShape &s, const GatedDeltaData &d, cudaStream_t stream) {
  const int64_t bytes = 4 * s.size * columns;
  if (!OMNIBAL_ALLOW_SHARED(forward<T>, static_cast<int>(bytes)))
    return cudaErrorInvalidConfiguration;
  const dim3 grid(segmentBlocks(s), static_cast<unsigned>(s.heads),
                  static_cast<unsigned>(ceilDiv(s.valueSize, columns)));
  OMNIBAL_LAUNCH_SHARED(forward<T>, grid, dim3(threads), static_cast<int>(bytes), stream, s, d);
  return cudaGetLastError();
}

template <typename T>
cudaError_t runBackward(const GatedDeltaShape &s, const GatedDeltaData &d, cudaStream_t stream) {
  const int64_t bytes = 4 * s.size * columns * (2 + period / shortPeriod + shortPeriod);
  if (!OMNIBAL_ALLOW_SHARED(backward<T>, static_cast<int>(bytes)))
    return cudaErrorInvalidConfiguration;
  const dim3 grid(segmentBlocks(s), static_cast<unsigned>(s.heads));
  OMNIBAL_LAUNCH_SHARED(backward<T>, grid, dim3(threads), static_cast<int>(bytes), stream, s, d);
  return cudaGetLastError();
}

bool isEmpty(const GatedDeltaShape &s) { return s.tokens == 0 || s.heads == 0 || s.valueSize == 0; }

} // namespace

cudaError_t launchGatedDelta(const GatedDeltaShape &s, const GatedDeltaData &d,
                             cudaStream_t stream) {
  if (isEmpty(s))
    return cudaSuccess;
  return s.type == Element::F32 ? runForward<float>(s, d, stream) : runForward<bf16>(s, d, stream);
}

cudaError_t launchGatedDeltaBackward(const GatedDeltaShape &s, const GatedDeltaData &d,
                                     cudaStream_t stream) {
  if (isEmpty(s))
    return cudaSuccess;
  return s.type == Element::F32 ? runBackward<float>(s, d, stream)
                                : runBackward<bf16>(s, d, stream);
}

} // namespace omnibal::rt::cuda
