//===- FakeKernels.cpp - The kernels' launchers as plain loops on the fake device ------------===//
//
// Only what the tests of the backend's host code launch: elements of 4 bytes, and the host's
// arithmetic for the optimizer. What the kernels compute is tested in
// test/unit/runtime/backends/cuda/kernels.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/cuda/kernels/Copy.h"
#include "runtime/backends/cuda/kernels/Reduce.h"
#include "runtime/backends/cuda/kernels/StepSums.h"
#include "runtime/backends/cuda/kernels/Update.h"
#include "runtime/backends/host/Optimizer.h"
#include "runtime/comm/StepSums.h"
#include "test/support/fake_cuda/FakeCuda.h"
#include <cmath>
#include <numeric>

namespace omnibal::rt::cuda {
namespace {

template <typename T> T &element(void *address, int64_t index) {
  return *static_cast<T *>(fake::at(static_cast<T *>(address) + index, sizeof(T)));
}
template <typename T> T element(const void *address, int64_t index) {
  return *static_cast<const T *>(fake::at(static_cast<const T *>(address) + index, sizeof(T)));
}

/// body(offset in to, offset in from) for every element.
void walk(const StridedPair &p, const std::function<void(int64_t, int64_t)> &body) {
  for (int64_t i = 0; i < p.elements(); ++i) {
    int64_t rest = i, to = 0, from = 0;
    for (int d = p.rank - 1; d >= 0; --d) {
      to += rest % p.size[d] * p.to[d];
      from += rest % p.size[d] * p.from[d];
      rest /= p.size[d];
    }
    body(to, from);
  }
}

/// The list's tensors with their addresses where they really lie; as the device finds them.
std::vector<UpdateTensor> tensorsOf(const UpdateList &list) {
  std::vector<UpdateTensor> tensors;
  for (int64_t b = 0; b < list.count; ++b) {
    auto block = *static_cast<UpdateBlock *>(fake::at(list.blocks + b, sizeof(UpdateBlock)));
    if (block.begin > 0)
      continue;
    auto tensor =
        *static_cast<UpdateTensor *>(fake::at(list.tensors + block.tensor, sizeof(UpdateTensor)));
    for (float **data : {&tensor.param, &tensor.grad, &tensor.moment1, &tensor.moment2})
      if (*data)
        *data = static_cast<float *>(fake::at(*data, tensor.elements * int64_t{sizeof(float)}));
    if (tensor.copy)
      tensor.copy = fake::at(tensor.copy, tensor.elements * int64_t{sizeof(BFloat16)});
    tensors.push_back(tensor);
  }
  return tensors;
}

std::vector<UpdatedTensor> parametersOf(const UpdateList &list) {
  std::vector<UpdatedTensor> tensors;
  for (const UpdateTensor &t : tensorsOf(list))
    tensors.push_back({t.param, t.grad, t.moment1, t.moment2, t.elements, t.rate,
                       static_cast<BFloat16 *>(t.copy)});
  return tensors;
}

std::vector<AveragedTensor> averagesOf(const UpdateList &list) {
  std::vector<AveragedTensor> tensors;
  for (const UpdateTensor &t : tensorsOf(list))
    tensors.push_back({t.param, t.moment1, t.elements});
  return tensors;
}

std::vector<FloatRun> gradientsOf(const UpdateList &list) {
  std::vector<FloatRun> runs;
  for (const UpdateTensor &tensor : tensorsOf(list))
    runs.push_back({tensor.grad, tensor.elements, tensor.phase});
  return runs;
}

void enqueueUpdate(const UpdateList &list, const std::string &name, cudaStream_t stream,
                   const std::function<void(ThreadPool &)> &body) {
  fake::enqueue(stream, "launch " + name + " " + std::to_string(list.count), [body] {
    ThreadPool pool(1);
    body(pool);
  });
}

/// One element where bfloat16 takes part.
void convert(const CopyShape &shape, void *to, int64_t t, const void *from, int64_t f) {
  float value =
      shape.from == Element::BF16 ? element<BFloat16>(from, f).toFloat() : element<float>(from, f);
  if (shape.to == Element::F32) {
    element<float>(to, t) = shape.accumulate ? element<float>(to, t) + value : value;
    return;
  }
  auto &place = element<BFloat16>(to, t);
  place = BFloat16::fromFloat(shape.accumulate ? place.toFloat() + value : value);
}

} // namespace

cudaError_t launchCopy(const CopyShape &shape, void *to, const void *from, cudaStream_t stream) {
  bool converts = shape.to == Element::BF16 || shape.from == Element::BF16;
  if (!converts && (bytesOf(shape.to) != 4 || shape.to != shape.from))
    return cudaErrorInvalidValue;
  std::string name = shape.accumulate ? "launch add " : "launch copy ";
  fake::enqueue(stream,
                name + std::to_string(shape.strides.elements()) + " " + fake::nameOf(from) +
                    " to " + fake::nameOf(to),
                [=] {
                  walk(shape.strides, [&](int64_t t, int64_t f) {
                    if (converts)
                      convert(shape, to, t, from, f);
                    else if (!shape.accumulate)
                      element<int32_t>(to, t) = element<int32_t>(from, f);
                    else
                      element<float>(to, t) += element<float>(from, f);
                  });
                });
  return cudaSuccess;
}

cudaError_t launchFill(const FillShape &shape, void *to, cudaStream_t stream) {
  if (shape.type != Element::F32)
    return cudaErrorInvalidValue;
  fake::enqueue(stream,
                "launch fill " + std::to_string(shape.strides.elements()) + " " + fake::nameOf(to),
                [=] {
                  walk(shape.strides, [&](int64_t t, int64_t) {
                    element<float>(to, t) = static_cast<float>(shape.value);
                  });
                });
  return cudaSuccess;
}

cudaError_t launchReduce(const ReduceShape &shape, void *to, const void *from,
                         cudaStream_t stream) {
  if (shape.kind != ReduceKind::Sum || shape.to != Element::F32 || shape.from != Element::F32)
    return cudaErrorInvalidValue;
  fake::enqueue(stream, "launch sum " + std::to_string(shape.strides.elements()), [=] {
    if (!shape.accumulate)
      walk(shape.strides, [&](int64_t t, int64_t) { element<float>(to, t) = 0; });
    walk(shape.strides,
         [&](int64_t t, int64_t f) { element<float>(to, t) += element<float>(from, f); });
  });
  return cudaSuccess;
}

cudaError_t launchUpdate(const UpdateShape &shape, const float *scale, cudaStream_t stream) {
  enqueueUpdate(shape.list, "adamw", stream, [=](ThreadPool &pool) {
    const float factor = scale ? element<float>(scale, 0) : 1;
    if (std::isnan(factor))
      return;
    UpdateOptions options = shape.options;
    options.gradientScale *= factor;
    update(parametersOf(shape.list), options, pool);
  });
  return cudaSuccess;
}

cudaError_t launchCopyParameters(const UpdateList &list, cudaStream_t stream) {
  enqueueUpdate(list, "copy", stream,
                [=](ThreadPool &pool) { copyParameters(parametersOf(list), pool); });
  return cudaSuccess;
}

cudaError_t launchAverage(const UpdateList &list, double decay, const float *scale,
                          cudaStream_t stream) {
  enqueueUpdate(list, "average", stream, [=](ThreadPool &pool) {
    if (!scale || !std::isnan(element<float>(scale, 0)))
      average(averagesOf(list), decay, pool);
  });
  return cudaSuccess;
}

cudaError_t launchExchange(const UpdateList &list, cudaStream_t stream) {
  enqueueUpdate(list, "exchange", stream,
                [=](ThreadPool &pool) { exchange(averagesOf(list), pool); });
  return cudaSuccess;
}

cudaError_t launchAddLosses(const float *losses, int64_t count, double *sum, cudaStream_t stream) {
  fake::enqueue(stream, "launch losses " + std::to_string(count), [=] {
    double mine = 0;
    for (int64_t i = 0; i < count; ++i)
      mine += element<float>(losses, i);
    element<double>(sum, 0) += mine;
  });
  return cudaSuccess;
}

cudaError_t launchEncodeSums(double *losses, const double *squaredNorm, int rank, int ranks,
                             float *slots, cudaStream_t stream) {
  fake::enqueue(stream, "launch sums", [=] {
    for (int i = 0; i < ranks * slotFloats; ++i)
      element<float>(slots, i) = 0;
    auto *sums = static_cast<double *>(fake::at(losses, lossKinds * int64_t{sizeof(double)}));
    encodeSums(sumsOf(sums, squaredNorm ? element<double>(squaredNorm, 0) : 0),
               &element<float>(slots, rank * slotFloats));
    std::fill_n(sums, lossKinds, 0.0);
  });
  return cudaSuccess;
}

cudaError_t launchUpdateScale(const float *slots, int ranks, double labels, double clip,
                              float *scale, cudaStream_t stream) {
  fake::enqueue(stream, "launch scale of step", [=] {
    std::vector<float> values;
    for (int i = 0; i < ranks * slotFloats; ++i)
      values.push_back(element<float>(slots, i));
    if (!std::isnan(element<float>(scale, 0)))
      element<float>(scale, 0) = updateScale(totalOf(values.data(), ranks), labels, clip);
  });
  return cudaSuccess;
}

cudaError_t launchSquaredNorm(const UpdateList &list, double *partial, double *result,
                              cudaStream_t stream) {
  enqueueUpdate(list, "norm", stream, [=](ThreadPool &pool) {
    auto *sums = static_cast<double *>(fake::at(partial, list.count * int64_t{sizeof(double)}));
    const std::vector<FloatRun> runs = gradientsOf(list);
    const std::vector<double> found = squaresOfBlocks(runs, pool);
    size_t next = 0;
    for (const FloatRun &run : runs)
      for (int64_t block = 0; block < blocksOf(run.elements, run.phase); ++block, ++next)
        if (run.data)
          sums[next] = found[next];
    element<double>(result, 0) = std::accumulate(sums, sums + list.count, 0.0);
  });
  return cudaSuccess;
}

cudaError_t launchAddUp(const double *partial, int64_t count, double *result, cudaStream_t stream) {
  fake::enqueue(stream, "launch sum of norms", [=] {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i)
      sum += element<double>(partial, i);
    element<double>(result, 0) = sum;
  });
  return cudaSuccess;
}

cudaError_t launchScale(const UpdateList &list, double factor, const float *, cudaStream_t stream) {
  enqueueUpdate(list, "scale", stream,
                [=](ThreadPool &pool) { scale(gradientsOf(list), factor, pool); });
  return cudaSuccess;
}

cudaError_t launchZero(const UpdateList &list, cudaStream_t stream) {
  enqueueUpdate(list, "zero", stream, [=](ThreadPool &pool) { fillZero(gradientsOf(list), pool); });
  return cudaSuccess;
}

} // namespace omnibal::rt::cuda
