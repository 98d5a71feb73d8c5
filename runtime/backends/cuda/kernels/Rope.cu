//===- Rope.cu - A thread some pairs of a few heads of a token -------------------------------===//
#include "runtime/backends/cuda/kernels/Device.h"
#include "runtime/backends/cuda/kernels/Rope.h"

namespace omnibal::rt::cuda {
namespace {

constexpr int threads = 256;
constexpr int groupHeads = 8; ///< of a thread
constexpr int atOnce = 4;     ///< heads whose loads are in flight together

/// Values (a, b) of a pair whose table entries are (ca, sa) and (cb, sb).
__device__ __forceinline__ void turn(bool inverse, float a, float b, float ca, float sa, float cb,
                                     float sb, float &toA, float &toB) {
  toA = a * ca + (inverse ? b * sb : -(b * sa));
  toB = b * cb + (inverse ? -(a * sa) : a * sb);
}

/// Neighbors of a table; n > 1: a multiple of 4, at an address of 16 bytes.
template <int n> struct Factors {
  float at[n];
  __device__ __forceinline__ explicit Factors(const float *from) {
    constexpr int width = n < 4 ? n : 4;
#pragma unroll
    for (int i = 0; i < n; i += width) {
      const auto pack = loadPack<width>(from + i);
#pragma unroll
      for (int e = 0; e < width; ++e)
        at[i + e] = pack.at[e];
    }
  }
};

/// n > 1: halves, dense and aligned, tables too; n pairs a step. A thread reads the factors of a
/// step once, for all heads of a group of a token, and has the loads of several heads in flight.
template <int n, typename T>
__global__ void __launch_bounds__(threads)
    rope(RopeShape s, int64_t groups, const T *x, const int32_t *positions, const float *cosine,
         const float *sine, T *out) {
  const int64_t half = s.turned / 2, steps = half / n, rows = s.tokens * groups;
  for (int64_t row = int64_t(blockIdx.x) * blockDim.y + threadIdx.y; row < rows;
       row += int64_t(gridDim.x) * blockDim.y) {
    const int64_t t = row / groups, first = row % groups * groupHeads;
    const int heads = static_cast<int>(s.heads - first < groupHeads ? s.heads - first : groupHeads);
    const float *c = cosine + positions[t] * s.cosineRow;
    const float *sn = sine + positions[t] * s.sineRow;
    const T *from = x + t * s.x.token + first * s.x.head;
    T *to = out + t * s.out.token + first * s.out.head;
    for (int64_t step = threadIdx.x; step < steps; step += blockDim.x) {
      const int64_t i = step * n;
      const int64_t p = s.interleaved ? 2 * i : i, q = s.interleaved ? 2 * i + 1 : i + half;
      const Factors<n> ca(c + p), sa(sn + p), cb(c + q), sb(sn + q);
      for (int h = 0; h < heads; h += atOnce) {
        Pack<T, n> a[atOnce], b[atOnce];
#pragma unroll
        for (int j = 0; j < atOnce; ++j)
          if (h + j < heads) {
            a[j] = loadPack<n>(from + (h + j) * s.x.head + p * s.x.feature);
            b[j] = loadPack<n>(from + (h + j) * s.x.head + q * s.x.feature);
          }
#pragma unroll
        for (int j = 0; j < atOnce; ++j)
          if (h + j < heads) {
#pragma unroll
            for (int e = 0; e < n; ++e) {
              float low, high;
              turn(s.inverse, toFloat(a[j].at[e]), toFloat(b[j].at[e]), ca.at[e], sa.at[e],
                   cb.at[e], sb.at[e], low, high);
              a[j].at[e] = fromFloat<T>(low);
              b[j].at[e] = fromFloat<T>(high);
            }
            storePack<n>(to + (h + j) * s.out.head + p * s.out.feature, a[j]);
            storePack<n>(to + (h + j) * s.out.head + q * s.out.feature, b[j]);
          }
      }
    }
    if (from != to || s.x.feature != s.out.feature)
      for (int h = 0; h < heads; ++h)
        for (int64_t i = s.turned + threadIdx.x; i < s.size; i += blockDim.x)
          to[h * s.out.head + i * s.out.feature] = from[h * s.x.head + i * s.x.feature];
  }
}

template <typename T> bool packable(const void *data, const HeadStrides &s, int64_t n) {
  return s.feature == 1 && s.token % n == 0 && s.head % n == 0 && isAligned(data, n * sizeof(T));
}

template <typename T>
cudaError_t run(const RopeShape &s, const void *x, const int32_t *positions, const float *cosine,
                const float *sine, void *out, cudaStream_t stream) {
  constexpr int n = 16 / sizeof(T);
  const bool tables =
      isAligned(cosine, 16) && isAligned(sine, 16) && s.cosineRow % 4 == 0 && s.sineRow % 4 == 0;
  const bool wide = !s.interleaved && s.turned / 2 % n == 0 && tables && packable<T>(x, s.x, n) &&
                    packable<T>(out, s.out, n);
  const int64_t pairs = s.turned / 2 / (wide ? n : 1);
  unsigned across = 1;
  while (across < threads && across < pairs)
    across *= 2;
  const unsigned down = threads / across;
  const int64_t groups = ceilDiv(s.heads, groupHeads);
  const dim3 grid(gridFor(ceilDiv(s.tokens * groups, down))), block(across, down);
  auto *from = static_cast<const T *>(x);
  auto *to = static_cast<T *>(out);
  if (wide)
    OMNIBAL_LAUNCH((rope<n, T>), grid, block, stream, s, groups, from, positions, cosine, sine, to);
  else
    OMNIBAL_LAUNCH((rope<1, T>), grid, block, stream, s, groups, from, positions, cosine, sine, to);
  return cudaGetLastError();
}

} // namespace

cudaError_t launchRope(const RopeShape &s, const void *x, const int32_t *positions,
                       const float *cosine, const float *sine, void *out, cudaStream_t stream) {
  if (s.turned % 2 != 0 || s.turned > s.size)
    return cudaErrorInvalidValue;
  if (s.tokens == 0 || s.heads == 0 || s.size == 0)
    return cudaSuccess;
  switch (s.type) {
  case Element::F32:
    return run<float>(s, x, positions, cosine, sine, out, stream);
  case Element::BF16:
    return run<bf16>(s, x, positions, cosine, sine, out, stream);
  default:
    return cudaErrorInvalidValue;
  }
}

} // namespace omnibal::rt::cuda
