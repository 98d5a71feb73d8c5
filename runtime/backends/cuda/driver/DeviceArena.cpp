#include "runtime/backends/cuda/driver/DeviceArena.h"
#include <algorithm>
#include <array>

namespace omnibal::rt::cuda {
namespace {

constexpr int64_t guardBytes = 4096;
constexpr int guardPattern = 0xA5, poisonPattern = 0xFF; // 0xFFFFFFFF is a NaN and -1

class DeviceArena final : public Arena {
public:
  DeviceArena(std::unique_ptr<DeviceBuffer> block, int64_t size, bool guarded, Staging &staging)
      : block(std::move(block)), base(this->block->data() + (guarded ? guardBytes : 0)), size(size),
        guarded(guarded), staging(staging) {}

  std::byte *data() override { return base; }
  int64_t bytes() const override { return size; }
  Status checkGuards() override {
    if (!guarded)
      return Status::ok();
    for (bool after : {false, true}) {
      std::array<std::byte, guardBytes> bytes;
      OMNIBAL_RETURN_IF_ERROR(
          staging.download(bytes.data(), after ? base + size : block->data(), guardBytes));
      if (std::any_of(bytes.begin(), bytes.end(),
                      [](std::byte b) { return b != std::byte{guardPattern}; }))
        return {Code::Internal, std::string("bytes ") + (after ? "after" : "before") +
                                    " the arena were overwritten"};
    }
    return Status::ok();
  }

private:
  std::unique_ptr<DeviceBuffer> block;
  std::byte *base;
  int64_t size;
  bool guarded;
  Staging &staging;
};

/// -1: not known.
int64_t freeBytes() {
  size_t free = 0, total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? static_cast<int64_t>(free) : -1;
}

std::string freeMemory() {
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess)
    return "";
  return " (" + std::to_string(free) + " of the device's " + std::to_string(total) +
         " bytes are free)";
}

} // namespace

constexpr const char *remedy = "; use more stages, recomputation (--remat full), or smaller caps";

Result<std::unique_ptr<Arena>> allocateDeviceArena(int64_t bytes, bool guarded, cudaStream_t stream,
                                                   Staging &staging, const WorkspaceLedger &own) {
  const int64_t margin = guarded ? guardBytes : 0;
  auto block = DeviceBuffer::allocate(bytes + 2 * margin, stream);
  if (!block && block.status().code() == Code::OutOfMemory)
    return Status(Code::OutOfMemory, "cannot allocate the planned " + std::to_string(bytes) +
                                         " bytes of device memory" + freeMemory() + remedy);
  if (!block)
    return std::move(block).status();
  if (const int64_t free = freeBytes(), more = own.outstanding(); free >= 0 && free < more)
    return Status(Code::OutOfMemory, "beside the planned " + std::to_string(bytes) +
                                         " bytes of device memory the backend needs " +
                                         std::to_string(more) + freeMemory() + remedy);
  if (guarded) {
    std::byte *start = (*block)->data();
    auto fill = [&](std::byte *at, int pattern, int64_t count) {
      return check(cudaMemsetAsync(at, pattern, count, stream), "filling memory");
    };
    OMNIBAL_RETURN_IF_ERROR(fill(start, guardPattern, guardBytes));
    if (bytes > 0)
      OMNIBAL_RETURN_IF_ERROR(fill(start + margin, poisonPattern, bytes));
    OMNIBAL_RETURN_IF_ERROR(fill(start + margin + bytes, guardPattern, guardBytes));
  }
  return std::unique_ptr<Arena>(
      std::make_unique<DeviceArena>(*std::move(block), bytes, guarded, staging));
}

} // namespace omnibal::rt::cuda
