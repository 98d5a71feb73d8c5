//===- Dequantize.cu - Eight numbers of a quantized matrix a thread ---------------------------===//
//
// Eight codes are one word of NF4 or two of int8, so a thread loads whole words, whatever the
// number of scales before them, and writes 16 or 32 bytes.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/cuda/kernels/Device.h"
#include "runtime/backends/cuda/kernels/matrix/Dequantize.h"

namespace omnibal::rt::cuda {
namespace {

constexpr int threads = 256, each = 8;

/// A matrix: its scales and, behind them, its codes.
struct Source {
  DequantizeShape shape;
  const float *scales;
  const uint32_t *codes;

  __device__ int64_t elements() const { return shape.rows * shape.cols; }
};

/// Of the numbers [first, first + each), which lie in one block or at its end. The levels are in
/// shared memory, where each thread of a warp may read another.
struct LevelCodes {
  static __device__ void prepare(const Source &from, float *table) {
    if (threadIdx.x < 16)
      table[threadIdx.x] = from.shape.levels[threadIdx.x];
    __syncthreads();
  }
  static __device__ void read(const Source &from, int64_t first, const float *table,
                              float (&numbers)[each]) {
    const uint32_t word = from.codes[first / each];
    const float scale = from.scales[first / from.shape.block];
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const unsigned byte = word >> (8 * (i / 2)) & 255;
      numbers[i] = table[i % 2 == 0 ? byte >> 4 : byte & 15] * scale;
    }
  }
};

struct Int8Codes {
  static __device__ void prepare(const Source &, float *) {}
  static __device__ void read(const Source &from, int64_t first, const float *,
                              float (&numbers)[each]) {
    const int64_t cols = from.shape.cols, elements = from.elements();
    const bool both = first + each / 2 < elements;
    const uint32_t words[2] = {from.codes[first / 4], both ? from.codes[first / 4 + 1] : 0};
    int64_t row = first / cols, left = cols - first % cols;
    float scale = from.scales[row];
#pragma unroll
    for (int i = 0; i < each; ++i, --left) {
      if (left == 0 && first + i < elements) {
        left = cols;
        scale = from.scales[++row];
      }
      const auto code = static_cast<int8_t>(words[i / 4] >> (8 * (i % 4)) & 255);
      numbers[i] = static_cast<float>(code) * scale;
    }
  }
};

template <typename Codes, typename T>
__global__ void __launch_bounds__(threads) dequantizeMatrix(Source from, T *to) {
  __shared__ float table[16];
  Codes::prepare(from, table);
  const int64_t elements = from.elements(), step = int64_t(gridDim.x) * threads * each;
  for (int64_t first = (int64_t(blockIdx.x) * threads + threadIdx.x) * each; first < elements;
       first += step) {
    float numbers[each];
    Codes::read(from, first, table, numbers);
    if (first + each <= elements) {
      constexpr int packed = 16 / sizeof(T);
#pragma unroll
      for (int i = 0; i < each; i += packed) {
        Pack<T, packed> pack;
#pragma unroll
        for (int j = 0; j < packed; ++j)
          pack.at[j] = fromFloat<T>(numbers[i + j]);
        storePack(to + first + i, pack);
      }
    } else {
#pragma unroll
      for (int i = 0; i < each; ++i)
        if (first + i < elements)
          to[first + i] = fromFloat<T>(numbers[i]);
    }
  }
}

template <typename Codes> cudaError_t launch(const Source &from, void *to, cudaStream_t stream) {
  const int64_t elements = from.shape.rows * from.shape.cols;
  const dim3 grid(gridFor(ceilDiv(elements, int64_t(threads) * each)));
  if (from.shape.type == Element::BF16) {
    auto *target = static_cast<bf16 *>(to);
    OMNIBAL_LAUNCH((dequantizeMatrix<Codes, bf16>), grid, dim3(threads), stream, from, target);
  } else {
    auto *target = static_cast<float *>(to);
    OMNIBAL_LAUNCH((dequantizeMatrix<Codes, float>), grid, dim3(threads), stream, from, target);
  }
  return cudaGetLastError();
}

} // namespace

cudaError_t launchDequantize(const DequantizeShape &shape, const int32_t *words, void *to,
                             cudaStream_t stream) {
  if (shape.rows == 0 || shape.cols == 0)
    return cudaSuccess;
  const Source from{shape, reinterpret_cast<const float *>(words),
                    reinterpret_cast<const uint32_t *>(words + shape.scales)};
  return shape.block > 0 ? launch<LevelCodes>(from, to, stream)
                         : launch<Int8Codes>(from, to, stream);
}

} // namespace omnibal::rt::cuda
