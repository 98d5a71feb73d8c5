//===- TensorBytes.h - A tensor in the source checkpoint's orientation -------------------===//
#ifndef RUNTIME_CHECKPOINT_TENSORBYTES_H
#define RUNTIME_CHECKPOINT_TENSORBYTES_H

#include "runtime/checkpoint/NamedTensor.h"
#include <algorithm>
#include <cstddef>
#include <vector>

namespace omnibal::rt {

inline int64_t elementsOf(const NamedTensor &tensor) {
  if (tensor.isPart())
    return tensor.count;
  int64_t n = 1;
  for (int64_t dim : tensor.held ? heldShape(tensor.shape, *tensor.held) : tensor.shape)
    n *= dim;
  return n;
}

/// What memory has of a tensor, as if that were all.
inline NamedTensor asWhole(NamedTensor tensor) {
  if (tensor.held)
    tensor.shape = heldShape(tensor.shape, *tensor.held);
  tensor.held.reset();
  return tensor;
}

/// Calls use(tensor) with the tensor in host memory.
template <typename Use> Status withHostCopy(const NamedTensor &tensor, Use use) {
  if (!tensor.memory)
    return use(tensor);
  int64_t bytes = elementsOf(tensor) * tensor.width();
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
  int64_t bytes = elementsOf(tensor) * tensor.width();
  return tensor.memory->write(tensor.data, bytes, [&](std::byte *data) {
    NamedTensor here = tensor;
    here.memory = nullptr;
    here.data = reinterpret_cast<float *>(data);
    return fill(here);
  });
}

template <typename Sink> Status streamHostTensor(const NamedTensor &tensor, Sink sink) {
  if (!tensor.transposed || tensor.shape.size() != 2)
    return sink(tensor.data, static_cast<size_t>(elementsOf(tensor) * tensor.width()));
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

/// What a part of a tensor that lies transposed has of a row of the source: these columns.
struct ColumnRun {
  int64_t begin = 0, end = 0;

  ColumnRun(const NamedTensor &part, int64_t row) {
    auto atLeast = [&](int64_t element) { // the first column whose place is not before it
      const int64_t rows = part.shape[0];
      return element <= row ? 0 : (element - row + rows - 1) / rows;
    };
    begin = atLeast(part.first);
    end = atLeast(part.first + part.count);
  }
};

/// Passes a part's elements to `sink(values, count, element)` in runs that follow each other in the
/// source's orientation, `element` the first one's place there.
template <typename Sink> Status streamHostPart(const NamedTensor &part, Sink sink) {
  if (!part.transposed || part.shape.size() != 2)
    return sink(part.data, part.count, part.first);
  const int64_t rows = part.shape[0], columns = part.shape[1];
  const int64_t band = 16; // as above
  std::vector<float> block;
  for (int64_t first = 0; first < rows; first += band) {
    const int64_t count = std::min(band, rows - first);
    block.assign(static_cast<size_t>(count * columns), 0);
    for (int64_t e = 0; e < part.count;) { // memory has column after column
      const int64_t column = (part.first + e) / rows, row = (part.first + e) % rows;
      const int64_t from = std::max(row, first), end = std::min(rows, row + part.count - e);
      for (int64_t r = from; r < std::min(end, first + count); ++r)
        block[size_t((r - first) * columns + column)] = part.data[e + r - row];
      e += end - row;
    }
    for (int64_t r = first; r < first + count; ++r)
      if (const ColumnRun run(part, r); run.begin < run.end)
        OMNIBAL_RETURN_IF_ERROR(sink(&block[size_t((r - first) * columns + run.begin)],
                                     run.end - run.begin, r * columns + run.begin));
  }
  return Status::ok();
}

/// The same of all that memory has, wherever it lies, as if there were no more.
template <typename Sink> Status streamOwnRuns(const NamedTensor &anywhere, Sink sink) {
  if (anywhere.isPart())
    return withHostCopy(anywhere,
                        [&](const NamedTensor &part) { return streamHostPart(part, sink); });
  int64_t element = 0;
  return streamTensor(anywhere, [&](const float *values, size_t bytes) {
    const auto count = static_cast<int64_t>(bytes / sizeof(float));
    Status status = sink(values, count, element);
    element += count;
    return status;
  });
}

/// The same at the places of the whole tensor.
template <typename Sink> Status streamRuns(const NamedTensor &anywhere, Sink sink) {
  if (!anywhere.held)
    return streamOwnRuns(anywhere, sink);
  const HeldRuns runs(anywhere.shape, *anywhere.held);
  return streamOwnRuns(asWhole(anywhere), [&](const float *values, int64_t count, int64_t element) {
    return runs.each(element, element + count, [&](int64_t local, int64_t whole, int64_t n) {
      return sink(values + local - element, n, whole);
    });
  });
}

/// Fills the tensor, or its part, in memory from dense data in the source's orientation.
inline void unstreamTensor(const NamedTensor &tensor, const float *dense) {
  if (tensor.held) {
    const NamedTensor own = asWhole(tensor);
    int64_t elements = 1;
    for (int64_t size : own.shape)
      elements *= size;
    std::vector<float> held(static_cast<size_t>(elements));
    (void)HeldRuns(tensor.shape, *tensor.held)
        .each(0, elements, [&](int64_t local, int64_t whole, int64_t count) {
          std::copy_n(dense + whole, count, held.data() + local);
          return Status::ok();
        });
    return unstreamTensor(own, held.data());
  }
  if (!tensor.transposed || tensor.shape.size() != 2) {
    std::copy_n(dense + tensor.first, elementsOf(tensor), tensor.data);
    return;
  }
  if (tensor.isPart()) {
    for (int64_t r = 0; r < tensor.shape[0]; ++r) {
      const ColumnRun run(tensor, r);
      for (int64_t c = run.begin; c < run.end; ++c)
        tensor.data[c * tensor.shape[0] + r - tensor.first] = dense[r * tensor.shape[1] + c];
    }
    return;
  }
  int64_t rows = tensor.shape[0], columns = tensor.shape[1];
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      tensor.data[c * rows + r] = dense[r * columns + c];
}

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_TENSORBYTES_H
