//===- TensorBytes.h - A tensor in the source checkpoint's orientation -------------------===//
#ifndef RUNTIME_CHECKPOINT_TENSORBYTES_H
#define RUNTIME_CHECKPOINT_TENSORBYTES_H

#include "runtime/checkpoint/NamedTensor.h"
#include <algorithm>
#include <cstddef>

namespace omnibal::rt {

inline int64_t elementsOf(const NamedTensor &tensor) {
  int64_t n = 1;
  for (int64_t dim : tensor.shape)
    n *= dim;
  return n;
}

/// Calls use(tensor) with the tensor in host memory.
template <typename Use> Status withHostCopy(const NamedTensor &tensor, Use use) {
  if (!tensor.memory)
    return use(tensor);
  int64_t bytes = elementsOf(tensor) * int64_t{sizeof(float)};
  return tensor.memory->read(tensor.data, bytes, [&](const std::byte *data) {
    NamedTensor here = tensor;
    here.memory = nullptr;
    here.data = reinterpret_cast<float *>(const_cast<std::byte *>(data)); // only read
    return use(here);
  });
}

/// Calls fill(tensor), which writes all of it, with the tensor in host memory.
template <typename Fill> Status throughHostCopy(const NamedTensor &tensor, Fill fill) {
  if (!tensor.memory)
    return fill(tensor);
  int64_t bytes = elementsOf(tensor) * int64_t{sizeof(float)};
  return tensor.memory->write(tensor.data, bytes, [&](std::byte *data) {
    NamedTensor here = tensor;
    here.memory = nullptr;
    here.data = reinterpret_cast<float *>(data);
    return fill(here);
  });
}

template <typename Sink> Status streamHostTensor(const NamedTensor &tensor, Sink sink) {
  if (!tensor.transposed || tensor.shape.size() != 2)
    return sink(tensor.data, static_cast<size_t>(elementsOf(tensor)) * sizeof(float));
  int64_t rows = tensor.shape[0], columns = tensor.shape[1];
  // Some rows at a time, so that each memory line of the transposed source is used fully.
  const int64_t band = 16;
  std::vector<float> block(static_cast<size_t>(band * columns));
  for (int64_t first = 0; first < rows; first += band) {
    int64_t count = std::min(band, rows - first);
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t r = 0; r < count; ++r)
        block[size_t(r * columns + c)] = tensor.data[c * rows + first + r];
    OMNIBAL_RETURN_IF_ERROR(
        sink(block.data(), static_cast<size_t>(count * columns) * sizeof(float)));
  }
  return Status::ok();
}

/// Passes the tensor's bytes, dense in the source's orientation, to `sink(data, bytes)` in pieces.
template <typename Sink> Status streamTensor(const NamedTensor &anywhere, Sink sink) {
  return withHostCopy(anywhere,
                      [&](const NamedTensor &tensor) { return streamHostTensor(tensor, sink); });
}

/// Fills the tensor in memory from dense data in the source's orientation.
inline void unstreamTensor(const NamedTensor &tensor, const float *dense) {
  if (!tensor.transposed || tensor.shape.size() != 2) {
    std::copy_n(dense, elementsOf(tensor), tensor.data);
    return;
  }
  int64_t rows = tensor.shape[0], columns = tensor.shape[1];
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      tensor.data[c * rows + r] = dense[r * columns + c];
}

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_TENSORBYTES_H
