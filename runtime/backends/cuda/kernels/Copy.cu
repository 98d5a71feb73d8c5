//===- Copy.cu - Copies by lines, and through shared memory where both sides lie crosswise ----===//
#include "runtime/backends/cuda/kernels/Copy.h"
#include "runtime/backends/cuda/kernels/Device.h"

namespace omnibal::rt::cuda {
namespace {

constexpr int threads = 256;
constexpr int packsEach = 4; // of a thread along its line

template <typename T> struct Memory {
  using Type = T;
  const T *data;
  template <int n> __device__ Pack<T, n> load(int64_t offset) const {
    return loadPack<n>(data + offset);
  }
  __device__ T at(int64_t offset) const { return data[offset]; }
};

template <typename T> struct Constant {
  using Type = T;
  T value;
  template <int n> __device__ Pack<T, n> load(int64_t) const {
    Pack<T, n> pack;
#pragma unroll
    for (int i = 0; i < n; ++i)
      pack.at[i] = value;
    return pack;
  }
  __device__ T at(int64_t) const { return value; }
};

template <bool accumulate, typename To, typename From>
__device__ __forceinline__ To combine(const To *old, From value) {
  if constexpr (accumulate) {
    using Sum = typename Arithmetic<To>::Type;
    return Convert<To, Sum>::of(
        static_cast<Sum>(Convert<Sum, To>::of(*old) + Convert<Sum, From>::of(value)));
  } else {
    return Convert<To, From>::of(value);
  }
}

/// Returns where line `line` of the outer dimensions begins.
__device__ __forceinline__ void lineOffsets(const StridedPair &p, int64_t line, int64_t &to,
                                            int64_t &from) {
  to = from = 0;
  for (int d = p.rank - 2; d > 0; --d) {
    int64_t index;
    if (line <= 0x7fffffff && p.size[d] <= 0x7fffffff) { // a short division is much faster
      index = static_cast<uint32_t>(line) % static_cast<uint32_t>(p.size[d]);
      line = static_cast<uint32_t>(line) / static_cast<uint32_t>(p.size[d]);
    } else {
      index = line % p.size[d];
      line /= p.size[d];
    }
    to += index * p.to[d];
    from += index * p.from[d];
  }
  if (p.rank > 1) {
    to += line * p.to[0];
    from += line * p.from[0];
  }
}

/// A block is blockDim.y lines wide; a thread moves packs of `n` elements along its line.
template <int n, bool accumulate, typename To, typename Source>
__global__ void __launch_bounds__(threads)
    copyLines(StridedPair p, int64_t lines, int64_t pieces, To *to, Source source) {
  const int inner = p.rank - 1;
  const int64_t length = p.size[inner], toStep = p.to[inner], fromStep = p.from[inner];
  const int64_t groups = (lines + blockDim.y - 1) / blockDim.y;
  for (int64_t work = blockIdx.x; work < groups * pieces; work += gridDim.x) {
    const int64_t line = work / pieces * blockDim.y + threadIdx.y;
    if (line >= lines)
      continue;
    int64_t toOffset, fromOffset;
    lineOffsets(p, line, toOffset, fromOffset);
    const int64_t first = (work % pieces * packsEach * blockDim.x + threadIdx.x) * n;
#pragma unroll
    for (int i = 0; i < packsEach; ++i) {
      const int64_t at = first + int64_t(i) * blockDim.x * n;
      if (at >= length)
        break;
      To *place = to + toOffset + at * toStep;
      if (n > 1 && at + n <= length) {
        const auto values = source.template load<n>(fromOffset + at);
        Pack<To, n> result;
        if constexpr (accumulate)
          result = loadPack<n>(place);
#pragma unroll
        for (int e = 0; e < n; ++e)
          result.at[e] = combine<accumulate>(&result.at[e], values.at[e]);
        storePack<n>(place, result);
      } else {
        for (int e = 0; e < n && at + e < length; ++e)
          place[e * toStep] =
              combine<accumulate>(&place[e * toStep], source.at(fromOffset + (at + e) * fromStep));
      }
    }
  }
}

/// Columns are dense in `to`, rows in `from`.
struct Matrix {
  int64_t rows, cols, toRow, fromCol;
};

/// Tiles of 32 x 32 turn in shared memory, so that both sides move whole lines. The matrices are
/// the lines of `outer`, whose last dimension is not used.
template <bool accumulate, typename To, typename From>
__global__ void __launch_bounds__(threads)
    copyTransposed(StridedPair outer, int64_t matrices, Matrix m, To *to, const From *from) {
  __shared__ From tile[32][33];
  const int64_t down = (m.rows + 31) / 32, across = (m.cols + 31) / 32;
  for (int64_t work = blockIdx.x; work < matrices * down * across; work += gridDim.x) {
    int64_t toOffset, fromOffset;
    lineOffsets(outer, work / (down * across), toOffset, fromOffset);
    const int64_t row = work / across % down * 32, col = work % across * 32;
    __syncthreads(); // the last tile is written out
    for (int c = threadIdx.y; c < 32; c += blockDim.y)
      if (row + threadIdx.x < m.rows && col + c < m.cols)
        tile[c][threadIdx.x] = from[fromOffset + row + threadIdx.x + (col + c) * m.fromCol];
    __syncthreads();
    for (int r = threadIdx.y; r < 32; r += blockDim.y)
      if (row + r < m.rows && col + threadIdx.x < m.cols) {
        To &place = to[toOffset + (row + r) * m.toRow + col + threadIdx.x];
        place = combine<accumulate>(&place, tile[threadIdx.x][r]);
      }
  }
}

/// Whether every line of one side may be moved in packs of `bytes`.
bool packs(const void *data, const int64_t *strides, int rank, int64_t elementBytes,
           int64_t bytes) {
  if (strides[rank - 1] != 1 || !isAligned(data, bytes))
    return false;
  for (int d = 0; d < rank - 1; ++d)
    if (strides[d] * elementBytes % bytes != 0)
      return false;
  return true;
}

template <int n, bool accumulate, typename To, typename Source>
cudaError_t lines(const StridedPair &p, To *to, Source source, cudaStream_t stream) {
  const int64_t count = p.elements() / p.size[p.rank - 1];
  const int64_t packCount = ceilDiv(p.size[p.rank - 1], n);
  unsigned across = 1;
  while (across < threads && across < packCount)
    across *= 2;
  const int64_t pieces = ceilDiv(packCount, int64_t(across) * packsEach);
  const dim3 block(across, threads / across);
  OMNIBAL_LAUNCH((copyLines<n, accumulate, To, Source>),
                 dim3(gridFor(ceilDiv(count, block.y) * pieces)), block, stream, p, count, pieces,
                 to, source);
  return cudaGetLastError();
}

template <bool accumulate, typename To, typename From>
cudaError_t copy(const StridedPair &strides, void *toVoid, const void *fromVoid,
                 cudaStream_t stream) {
  StridedPair p = strides.simplified();
  auto *to = static_cast<To *>(toVoid);
  auto *from = static_cast<const From *>(fromVoid);
  constexpr int n = 16 / (sizeof(To) > sizeof(From) ? sizeof(To) : sizeof(From));
  if (packs(to, p.to, p.rank, sizeof(To), n * sizeof(To)) &&
      packs(from, p.from, p.rank, sizeof(From), n * sizeof(From)))
    return lines<n, accumulate>(p, to, Memory<From>{from}, stream);
  const int inner = p.rank - 1;
  int dense = -1;
  for (int d = 0; d < inner; ++d)
    if (p.from[d] == 1 && p.size[d] >= 8)
      dense = d;
  if (dense < 0 || p.to[inner] != 1 || p.from[inner] == 1 || p.size[inner] < 8)
    return lines<1, accumulate>(p, to, Memory<From>{from}, stream);
  for (int d = dense; d < inner - 1; ++d)
    p.exchange(d, d + 1);
  const Matrix m{p.size[inner - 1], p.size[inner], p.to[inner - 1], p.from[inner]};
  const int64_t matrices = p.elements() / (m.rows * m.cols);
  const int64_t tiles = matrices * ceilDiv(m.rows, 32) * ceilDiv(m.cols, 32);
  --p.rank;
  OMNIBAL_LAUNCH((copyTransposed<accumulate, To, From>), dim3(gridFor(tiles)), dim3(32, 8), stream,
                 p, matrices, m, to, from);
  return cudaGetLastError();
}

template <typename To, typename From>
cudaError_t copyOrAdd(const CopyShape &s, void *to, const void *from, cudaStream_t stream) {
  return s.accumulate ? copy<true, To, From>(s.strides, to, from, stream)
                      : copy<false, To, From>(s.strides, to, from, stream);
}

template <typename T>
cudaError_t fill(const StridedPair &strides, void *toVoid, T value, cudaStream_t stream) {
  StridedPair p = strides;
  for (int d = 0; d < p.rank; ++d)
    p.from[d] = p.to[d];
  p = p.simplified();
  auto *to = static_cast<T *>(toVoid);
  constexpr int n = 16 / sizeof(T);
  if (packs(to, p.to, p.rank, sizeof(T), 16))
    return lines<n, false>(p, to, Constant<T>{value}, stream);
  return lines<1, false>(p, to, Constant<T>{value}, stream);
}

} // namespace

cudaError_t launchCopy(const CopyShape &s, void *to, const void *from, cudaStream_t stream) {
  const bool floats = (s.to == Element::F32 || s.to == Element::BF16) &&
                      (s.from == Element::F32 || s.from == Element::BF16);
  if (s.to != s.from && !floats)
    return cudaErrorInvalidValue;
  if (s.accumulate && s.to == Element::Bool)
    return cudaErrorInvalidValue;
  if (s.strides.elements() == 0)
    return cudaSuccess;
  switch (s.to) {
  case Element::F32:
    return s.from == Element::F32 ? copyOrAdd<float, float>(s, to, from, stream)
                                  : copyOrAdd<float, bf16>(s, to, from, stream);
  case Element::BF16:
    return s.from == Element::F32 ? copyOrAdd<bf16, float>(s, to, from, stream)
                                  : copyOrAdd<bf16, bf16>(s, to, from, stream);
  case Element::F64:
    return copyOrAdd<double, double>(s, to, from, stream);
  case Element::I32:
    return copyOrAdd<int32_t, int32_t>(s, to, from, stream);
  case Element::I64:
    return copyOrAdd<int64_t, int64_t>(s, to, from, stream);
  case Element::Bool:
    return copy<false, uint8_t, uint8_t>(s.strides, to, from, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t launchFill(const FillShape &s, void *to, cudaStream_t stream) {
  if (s.strides.elements() == 0)
    return cudaSuccess;
  switch (s.type) {
  case Element::F32:
    return fill(s.strides, to, static_cast<float>(s.value), stream);
  case Element::BF16:
    return fill(s.strides, to, __float2bfloat16_rn(static_cast<float>(s.value)), stream);
  case Element::F64:
    return fill(s.strides, to, s.value, stream);
  case Element::I32:
    return fill(s.strides, to, static_cast<int32_t>(s.value), stream);
  case Element::I64:
    return fill(s.strides, to, static_cast<int64_t>(s.value), stream);
  case Element::Bool:
    return fill(s.strides, to, static_cast<uint8_t>(s.value != 0), stream);
  }
  return cudaErrorInvalidValue;
}

} // namespace omnibal::rt::cuda
