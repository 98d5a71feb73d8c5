//===- Update.cu - A CUDA block a block of values --------------------------------------------===//
#include "runtime/backends/cuda/kernels/Device.h"
#include "runtime/backends/cuda/kernels/UpdateRules.h"

namespace omnibal::rt::cuda {
namespace {

constexpr int threads = 256;

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

template <typename Rule>
__global__ void __launch_bounds__(threads)
    update(UpdateList list, UpdateFactors f, Rates rates, const float *deviceScale) {
  constexpr bool hasSecond = Rule::moments > 1;
  const UpdateBlock block = list.blocks[blockIdx.x];
  const UpdateTensor &t = list.tensors[block.tensor];
  if (!takeScale(f, deviceScale))
    return;
  const float stepSize = rates.stepSize[t.rate], shrink = rates.shrink[t.rate];
  float *param = t.param + block.begin, *grad = t.grad + block.begin;
  float *moment1 = t.moment1 + block.begin;
  float *moment2 = hasSecond ? t.moment2 + block.begin : nullptr;
  bf16 *copy = t.copy ? static_cast<bf16 *>(t.copy) + block.begin : nullptr;
  const bool wide = aligned16(param) && aligned16(grad) && aligned16(moment1) &&
                    aligned16(moment2) && reinterpret_cast<uintptr_t>(copy) % 8 == 0;
  forValues(
      block.size, wide,
      [&](int i) {
        auto p = loadPack<4>(param + i), m = loadPack<4>(moment1 + i);
        Pack<float, 4> v = {{0.f, 0.f, 0.f, 0.f}};
        if constexpr (hasSecond)
          v = loadPack<4>(moment2 + i);
        const auto g = loadPack<4>(grad + i);
#pragma unroll
        for (int e = 0; e < 4; ++e)
          Rule::step(f, stepSize, shrink, p.at[e], g.at[e] * f.gradientScale, m.at[e], v.at[e]);
        storePack<4>(param + i, p);
        storePack<4>(moment1 + i, m);
        if constexpr (hasSecond)
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
        float none = 0;
        float &second = hasSecond ? moment2[i] : none;
        Rule::step(f, stepSize, shrink, param[i], grad[i] * f.gradientScale, moment1[i], second);
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

__global__ void __launch_bounds__(threads)
    average(UpdateList list, float keep, float take, const float *deviceScale) {
  if (deviceScale && *deviceScale != *deviceScale)
    return;
  const UpdateBlock block = list.blocks[blockIdx.x];
  const UpdateTensor &t = list.tensors[block.tensor];
  const float *value = t.param + block.begin;
  float *mean = t.moment1 + block.begin;
  forValues(
      block.size, aligned16(value) && aligned16(mean),
      [&](int i) {
        const auto p = loadPack<4>(value + i);
        auto m = loadPack<4>(mean + i);
#pragma unroll
        for (int e = 0; e < 4; ++e)
          m.at[e] = keep * m.at[e] + take * p.at[e];
        storePack<4>(mean + i, m);
      },
      [&](int i) { mean[i] = keep * mean[i] + take * value[i]; });
}

__global__ void __launch_bounds__(threads) exchange(UpdateList list) {
  const UpdateBlock block = list.blocks[blockIdx.x];
  const UpdateTensor &t = list.tensors[block.tensor];
  float *value = t.param + block.begin, *mean = t.moment1 + block.begin;
  forValues(
      block.size, aligned16(value) && aligned16(mean),
      [&](int i) {
        const auto p = loadPack<4>(value + i), m = loadPack<4>(mean + i);
        storePack<4>(value + i, m);
        storePack<4>(mean + i, p);
      },
      [&](int i) {
        const float p = value[i];
        value[i] = mean[i];
        mean[i] = p;
      });
}

} // namespace

cudaError_t launchUpdate(const UpdateShape &shape, const float *deviceScale, cudaStream_t stream) {
  const UpdateOptions &s = shape.options;
  if (shape.list.count == 0)
    return cudaSuccess;
  if (s.rates.size() > mostUpdateRates)
    return cudaErrorInvalidValue;
  const UpdateFactors f = factorsOf(s);
  const Rates rates = ratesOf(s, f);
  const dim3 blocks(static_cast<unsigned>(shape.list.count));
  switch (s.kind) {
  case OptimizerKind::AdamW:
    OMNIBAL_LAUNCH(update<AdamW>, blocks, dim3(threads), stream, shape.list, f, rates, deviceScale);
    break;
  case OptimizerKind::Lion:
    OMNIBAL_LAUNCH(update<Lion>, blocks, dim3(threads), stream, shape.list, f, rates, deviceScale);
    break;
  case OptimizerKind::Sgd:
    OMNIBAL_LAUNCH(update<Sgd>, blocks, dim3(threads), stream, shape.list, f, rates, deviceScale);
    break;
  case OptimizerKind::Muon:
  case OptimizerKind::AdamW8bit:
  case OptimizerKind::Adafactor:
    return cudaErrorInvalidValue;
  }
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

cudaError_t launchAverage(const UpdateList &list, double decay, const float *deviceScale,
                          cudaStream_t stream) {
  if (list.count == 0)
    return cudaSuccess;
  OMNIBAL_LAUNCH(average, dim3(static_cast<unsigned>(list.count)), dim3(threads), stream, list,
                 static_cast<float>(decay), static_cast<float>(1 - decay), deviceScale);
  return cudaGetLastError();
}

cudaError_t launchExchange(const UpdateList &list, cudaStream_t stream) {
  if (list.count == 0)
    return cudaSuccess;
  OMNIBAL_LAUNCH(exchange, dim3(static_cast<unsigned>(list.count)), dim3(threads), stream, list);
  return cudaGetLastError();
}

} // namespace omnibal::rt::cuda
