//===- Update.cu - A CUDA block a block of values --------------------------------------------===//
#include "runtime/backends/cuda/kernels/Device.h"
#include "runtime/backends/cuda/kernels/Update.h"
#include <cmath>

namespace omnibal::rt::cuda {
namespace {

constexpr int threads = 256;

struct Factors {
  float gradientScale, take1, keep2, take2, rootScale, epsilon;
  bool zeroGradients;
};

/// Of the groups of parameters: lr / bias correction 1, and 1 - lr * decay.
struct Rates {
  float stepSize[mostUpdateRates], shrink[mostUpdateRates];
};

__device__ __forceinline__ bool aligned16(const void *pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

/// Visits a block's values once each: forFour(first of four) where
/// `wide` allows it, forOne(index) elsewhere.
template <typename Wide, typename Single>
__device__ __forceinline__ void forValues(int size, bool wide, Wide forFour, Single forOne) {
  const int four = wide ? size / 4 * 4 : 0;
  for (int i = threadIdx.x * 4; i < four; i += threads * 4)
    forFour(i);
  for (int i = four + threadIdx.x; i < size; i += threads)
    forOne(i);
}

__device__ __forceinline__ void step(const Factors &f, float stepSize, float shrink, float &p,
                                     float g, float &m, float &v) {
  g *= f.gradientScale;
  m = m + f.take1 * (g - m);
  v = f.keep2 * v + f.take2 * g * g;
  p = p * shrink - stepSize * (m / (sqrtf(v) * f.rootScale + f.epsilon));
}

__global__ void __launch_bounds__(threads)
    adamW(UpdateList list, Factors f, Rates rates, const float *deviceScale) {
  const UpdateBlock block = list.blocks[blockIdx.x];
  const UpdateTensor &t = list.tensors[block.tensor];
  if (deviceScale) {
    const float scale = *deviceScale;
    if (scale != scale)
      return;
    f.gradientScale *= scale;
  }
  const float stepSize = rates.stepSize[t.rate], shrink = rates.shrink[t.rate];
  float *param = t.param + block.begin, *grad = t.grad + block.begin;
  float *moment1 = t.moment1 + block.begin, *moment2 = t.moment2 + block.begin;
  bf16 *copy = t.copy ? static_cast<bf16 *>(t.copy) + block.begin : nullptr;
  const bool wide = aligned16(param) && aligned16(grad) && aligned16(moment1) &&
                    aligned16(moment2) && reinterpret_cast<uintptr_t>(copy) % 8 == 0;
  forValues(
      block.size, wide,
      [&](int i) {
        auto p = loadPack<4>(param + i), m = loadPack<4>(moment1 + i);
        auto v = loadPack<4>(moment2 + i);
        const auto g = loadPack<4>(grad + i);
#pragma unroll
        for (int e = 0; e < 4; ++e)
          step(f, stepSize, shrink, p.at[e], g.at[e], m.at[e], v.at[e]);
        storePack<4>(param + i, p);
        storePack<4>(moment1 + i, m);
        storePack<4>(moment2 + i, v);
        if (f.zeroGradients)
          storePack<4>(grad + i, Pack<float, 4>{{0.f, 0.f, 0.f, 0.f}});
        if (copy) {
          Pack<bf16, 4> c;
#pragma unroll
          for (int e = 0; e < 4; ++e)
            c.at[e] = fromFloat<bf16>(p.at[e]);
          storePack<4>(copy + i, c);
        }
      },
      [&](int i) {
        step(f, stepSize, shrink, param[i], grad[i], moment1[i], moment2[i]);
        if (f.zeroGradients)
          grad[i] = 0;
        if (copy)
          copy[i] = fromFloat<bf16>(param[i]);
      });
}

__global__ void __launch_bounds__(threads) squares(UpdateList list, double *partial) {
  const UpdateBlock block = list.blocks[blockIdx.x];
  if (!list.tensors[block.tensor].grad)
    return; // another rank's
  const float *x = list.tensors[block.tensor].grad + block.begin;
  double sum = 0;
  auto add = [&](float value) { sum += static_cast<double>(value) * static_cast<double>(value); };
  forValues(
      block.size, aligned16(x),
      [&](int i) {
        const auto pack = loadPack<4>(x + i);
#pragma unroll
        for (int e = 0; e < 4; ++e)
          add(pack.at[e]);
      },
      [&](int i) { add(x[i]); });
  sum = blockSum<threads>(sum);
  if (threadIdx.x == 0)
    partial[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(threads)
    addUp(const double *partial, int64_t count, double *result) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += threads)
    sum += partial[i];
  sum = blockSum<threads>(sum);
  if (threadIdx.x == 0)
    *result = sum;
}

__global__ void __launch_bounds__(threads)
    scale(UpdateList list, float factor, const float *deviceFactor) {
  const UpdateBlock block = list.blocks[blockIdx.x];
  float *x = list.tensors[block.tensor].grad + block.begin;
  if (deviceFactor)
    factor *= *deviceFactor;
  forValues(
      block.size, aligned16(x),
      [&](int i) {
        auto pack = loadPack<4>(x + i);
#pragma unroll
        for (int e = 0; e < 4; ++e)
          pack.at[e] *= factor;
        storePack<4>(x + i, pack);
      },
      [&](int i) { x[i] *= factor; });
}

__global__ void __launch_bounds__(threads) zero(UpdateList list) {
  const UpdateBlock block = list.blocks[blockIdx.x];
  float *x = list.tensors[block.tensor].grad + block.begin;
  forValues(
      block.size, aligned16(x),
      [&](int i) { storePack<4>(x + i, Pack<float, 4>{{0.f, 0.f, 0.f, 0.f}}); },
      [&](int i) { x[i] = 0; });
}

__global__ void __launch_bounds__(threads) copyParameters(UpdateList list) {
  const UpdateBlock block = list.blocks[blockIdx.x];
  const UpdateTensor &t = list.tensors[block.tensor];
  const float *from = t.param + block.begin;
  bf16 *to = static_cast<bf16 *>(t.copy) + block.begin;
  forValues(
      block.size, aligned16(from) && reinterpret_cast<uintptr_t>(to) % 8 == 0,
      [&](int i) {
        const auto p = loadPack<4>(from + i);
        Pack<bf16, 4> c;
#pragma unroll
        for (int e = 0; e < 4; ++e)
          c.at[e] = fromFloat<bf16>(p.at[e]);
        storePack<4>(to + i, c);
      },
      [&](int i) { to[i] = fromFloat<bf16>(from[i]); });
}

} // namespace

cudaError_t launchAdamW(const AdamWShape &s, const float *deviceScale, cudaStream_t stream) {
  if (s.list.count == 0)
    return cudaSuccess;
  if (s.rates.size() > mostUpdateRates)
    return cudaErrorInvalidValue;
  const double step = static_cast<double>(s.step), correction = 1 - std::pow(s.beta1, step);
  Rates rates = {};
  for (size_t r = 0; r < s.rates.size(); ++r) {
    rates.stepSize[r] = static_cast<float>(s.rates[r].learningRate / correction);
    rates.shrink[r] = static_cast<float>(1 - s.rates[r].learningRate * s.rates[r].weightDecay);
  }
  Factors f;
  f.gradientScale = static_cast<float>(s.gradientScale);
  f.take1 = static_cast<float>(1 - s.beta1);
  f.keep2 = static_cast<float>(s.beta2);
  f.take2 = static_cast<float>(1 - s.beta2);
  f.rootScale = static_cast<float>(1 / std::sqrt(1 - std::pow(s.beta2, step)));
  f.epsilon = static_cast<float>(s.epsilon);
  f.zeroGradients = s.zeroGradients;
  OMNIBAL_LAUNCH(adamW, dim3(static_cast<unsigned>(s.list.count)), dim3(threads), stream, s.list, f,
                 rates, deviceScale);
  return cudaGetLastError();
}

cudaError_t launchSquaredNorm(const UpdateList &list, double *partial, double *result,
                              cudaStream_t stream) {
  if (list.count > 0)
    OMNIBAL_LAUNCH(squares, dim3(static_cast<unsigned>(list.count)), dim3(threads), stream, list,
                   partial);
  return launchAddUp(partial, list.count, result, stream);
}

cudaError_t launchAddUp(const double *partial, int64_t count, double *result, cudaStream_t stream) {
  OMNIBAL_LAUNCH(addUp, dim3(1), dim3(threads), stream, partial, count, result);
  return cudaGetLastError();
}

cudaError_t launchScale(const UpdateList &list, double factor, const float *deviceFactor,
                        cudaStream_t stream) {
  if (list.count == 0)
    return cudaSuccess;
  OMNIBAL_LAUNCH(scale, dim3(static_cast<unsigned>(list.count)), dim3(threads), stream, list,
                 static_cast<float>(factor), deviceFactor);
  return cudaGetLastError();
}

cudaError_t launchZero(const UpdateList &list, cudaStream_t stream) {
  if (list.count == 0)
    return cudaSuccess;
  OMNIBAL_LAUNCH(zero, dim3(static_cast<unsigned>(list.count)), dim3(threads), stream, list);
  return cudaGetLastError();
}

cudaError_t launchCopyParameters(const UpdateList &list, cudaStream_t stream) {
  if (list.count == 0)
    return cudaSuccess;
  OMNIBAL_LAUNCH(copyParameters, dim3(static_cast<unsigned>(list.count)), dim3(threads), stream,
                 list);
  return cudaGetLastError();
}

} // namespace omnibal::rt::cuda
