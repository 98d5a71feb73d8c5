#include "runtime/checkpoint/TensorStaging.h"
#include "runtime/checkpoint/TensorBytes.h"
#include <cstring>
#include <new>

namespace omnibal::rt {
namespace {

/// What a task copies.
constexpr int64_t blockBytes = int64_t{4} << 20;

int64_t bytesOfTensor(const NamedTensor &tensor) { return elementsOf(tensor) * tensor.width(); }

struct Block {
  std::byte *to;
  const std::byte *from;
  int64_t bytes;
};

} // namespace

int64_t TensorStaging::bytesOf(const std::vector<NamedTensor> &tensors) {
  int64_t bytes = 0;
  for (const NamedTensor &tensor : tensors)
    bytes += bytesOfTensor(tensor);
  return bytes;
}

Result<std::vector<NamedTensor>> TensorStaging::copy(const std::vector<NamedTensor> &tensors) {
  auto copies = backend.isSynchronous() ? copyOnHost(tensors) : copyFromDevice(tensors);
  if (!copies)
    release();
  return copies;
}

Result<std::vector<NamedTensor>> TensorStaging::copyOnHost(std::vector<NamedTensor> tensors) {
  const int64_t bytes = bytesOf(tensors);
  if (bytes > bufferBytes) {
    buffer.reset();
    bufferBytes = 0;
    buffer.reset(new (std::nothrow) std::byte[static_cast<size_t>(bytes)]);
    if (!buffer)
      return Status(Code::OutOfMemory, "no memory for a copy of " + std::to_string(bytes) +
                                           " bytes of what a checkpoint holds");
    bufferBytes = bytes;
  }
  std::vector<Block> blocks;
  std::byte *to = buffer.get();
  for (NamedTensor &tensor : tensors) {
    const int64_t size = bytesOfTensor(tensor);
    auto from = reinterpret_cast<const std::byte *>(tensor.data);
    for (int64_t done = 0; done < size; done += blockBytes)
      blocks.push_back({to + done, from + done, std::min(blockBytes, size - done)});
    tensor.data = reinterpret_cast<float *>(to);
    tensor.memory = nullptr;
    to += size;
  }
  pool.parallelFor(static_cast<int64_t>(blocks.size()), [&](int64_t task, int) {
    const Block &block = blocks[static_cast<size_t>(task)];
    std::memcpy(block.to, block.from, static_cast<size_t>(block.bytes));
  });
  return tensors;
}

Result<std::vector<NamedTensor>> TensorStaging::copyFromDevice(std::vector<NamedTensor> tensors) {
  for (NamedTensor &tensor : tensors) {
    OMNIBAL_ASSIGN_OR_RETURN(HostCopy copy, backend.startRead(tensor.data, bytesOfTensor(tensor)));
    taken.push_back(copy);
    tensor.data = reinterpret_cast<float *>(const_cast<std::byte *>(copy.data)); // only read
    tensor.memory = nullptr;
  }
  if (!taken.empty())
    OMNIBAL_RETURN_IF_ERROR(backend.reach(taken.back().ready));
  return tensors;
}

void TensorStaging::release() {
  if (!taken.empty())
    (void)backend.reach(taken.back().ready); // copies under way write there
  for (const HostCopy &copy : taken)
    backend.release(copy);
  taken.clear();
}

} // namespace omnibal::rt
