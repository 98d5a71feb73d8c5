//===- CodedUpdate.cu - AdamW whose moments are codes: a warp a block of codes ----------------===//
//
// As on the host (vector/Update.cpp): a block is decoded, updated in float32 and encoded again by
// its new scale.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/cuda/kernels/UpdateRules.h"
#include "runtime/device/CodedMoments.h"

namespace omnibal::rt::cuda {
namespace {

constexpr int threads = 256, warps = threads / 32;
constexpr int codes = static_cast<int>(codedBlock), each = codes / 32; ///< of a lane
static_assert(updateBlockSize % codedBlock == 0, "a block of values has whole blocks of codes");

struct Maps {
  float values[codes], borders[codes]; ///< the last border is none
};

__device__ __forceinline__ float warpMax(float x) {
#pragma unroll
  for (int bits = 16; bits > 0; bits /= 2)
    x = fmaxf(x, __shfl_xor_sync(allLanes, x, bits));
  return x;
}

/// The nearest code, the lower of two that are as near.
__device__ __forceinline__ int codeOf(const Maps &map, float value, float scale) {
  const float part = scale > 0 ? value / scale : 0;
  int place = 0;
#pragma unroll
  for (int step = codes / 2; step > 0; step /= 2)
    place += part > map.borders[place + step - 1] ? step : 0;
  return place;
}

/// The values [at, at + left) of a block of codes; `left` is at most `codes`.
__device__ void updateCodes(const UpdateTensor &t, int64_t at, int left, const UpdateFactors &f,
                            float stepSize, float shrink, const Maps &first, const Maps &second) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  float *param = t.param + at, *grad = t.grad + at;
  float *scale1 = t.moment1 + at / codedBlock, *scale2 = t.moment2 + at / codedBlock;
  uint8_t *code1 = reinterpret_cast<uint8_t *>(t.moment1) + t.codes + at;
  uint8_t *code2 = reinterpret_cast<uint8_t *>(t.moment2) + t.codes + at;
  const float old1 = *scale1, old2 = *scale2;
  float m[each], v[each], largest1 = 0, largest2 = 0;
#pragma unroll
  for (int j = 0; j < each; ++j) {
    const int i = lane + 32 * j;
    m[j] = v[j] = 0;
    if (i < left) {
      m[j] = first.values[code1[i]] * old1;
      v[j] = second.values[code2[i]] * old2;
      float p = param[i];
      AdamW::step(f, stepSize, shrink, p, grad[i] * f.gradientScale, m[j], v[j]);
      param[i] = p;
      if (f.zeroGradients)
        grad[i] = 0;
      if (t.copy)
        static_cast<bf16 *>(t.copy)[at + i] = fromFloat<bf16>(p);
    }
    largest1 = fmaxf(largest1, fabsf(m[j]));
    largest2 = fmaxf(largest2, fabsf(v[j]));
  }
  // All lanes have read the old scales before one of them writes.
  const float new1 = warpMax(largest1), new2 = warpMax(largest2);
  if (lane == 0) {
    *scale1 = new1;
    *scale2 = new2;
  }
#pragma unroll
  for (int j = 0; j < each; ++j)
    if (const int i = lane + 32 * j; i < left) {
      const int code = codeOf(second, v[j], new2);
      code1[i] = static_cast<uint8_t>(codeOf(first, m[j], new1));
      // As zero, it would make of a first moment that is not zero a step without bounds.
      code2[i] = static_cast<uint8_t>(v[j] > 0 && code == 0 ? 1 : code);
    }
}

__global__ void __launch_bounds__(threads)
    updateCoded(UpdateList list, UpdateFactors f, Rates rates, const float *maps,
                const float *deviceScale) {
  __shared__ Maps tables[2];
  static_assert(sizeof tables == 2 * codedMapFloats * sizeof(float));
  for (int i = static_cast<int>(threadIdx.x); i < 2 * codedMapFloats; i += threads)
    (&tables[0].values[0])[i] = maps[i];
  __syncthreads();
  const UpdateBlock block = list.blocks[blockIdx.x];
  const UpdateTensor &t = list.tensors[block.tensor];
  if (!takeScale(f, deviceScale))
    return;
  const float stepSize = rates.stepSize[t.rate], shrink = rates.shrink[t.rate];
  for (int at = static_cast<int>(threadIdx.x / 32) * codes; at < block.size; at += warps * codes)
    updateCodes(t, block.begin + at, block.size - at < codes ? block.size - at : codes, f, stepSize,
                shrink, tables[0], tables[1]);
}

} // namespace

cudaError_t launchCodedUpdate(const UpdateShape &shape, const float *maps, const float *deviceScale,
                              cudaStream_t stream) {
  if (shape.list.count == 0)
    return cudaSuccess;
  if (shape.options.rates.size() > mostUpdateRates)
    return cudaErrorInvalidValue;
  const UpdateFactors f = factorsOf(shape.options);
  const Rates rates = ratesOf(shape.options, f);
  OMNIBAL_LAUNCH(updateCoded, dim3(static_cast<unsigned>(shape.list.count)), dim3(threads), stream,
                 shape.list, f, rates, maps, deviceScale);
  return cudaGetLastError();
}

} // namespace omnibal::rt::cuda
