#include "runtime/backends/host/HostArena.h"
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace omnibal::rt {
namespace {

constexpr int64_t guardBytes = 4096, hugePage = 2 << 20;
constexpr int guardPattern = 0xA5, poisonPattern = 0xFF; // 0xFFFFFFFF is a NaN and -1

class HostArena final : public Arena {
public:
  HostArena(std::byte *block, int64_t size, bool guarded)
      : block(block), base(block + (guarded ? guardBytes : 0)), size(size), guarded(guarded) {}
  ~HostArena() override { std::free(block); }

  std::byte *data() override { return base; }
  int64_t bytes() const override { return size; }
  Status checkGuards() override {
    if (!guarded)
      return Status::ok();
    auto intact = [](const std::byte *bytes) {
      for (int64_t i = 0; i < guardBytes; ++i)
        if (bytes[i] != std::byte{guardPattern})
          return false;
      return true;
    };
    if (!intact(block))
      return {Code::Internal, "bytes before the arena were overwritten"};
    if (!intact(base + size))
      return {Code::Internal, "bytes after the arena were overwritten"};
    return Status::ok();
  }

private:
  std::byte *block, *base;
  int64_t size;
  bool guarded;
};

} // namespace

Result<std::unique_ptr<Arena>> allocateHostArena(int64_t bytes, bool guarded) {
  int64_t margin = guarded ? guardBytes : 0;
  // Large arenas start at a huge page: fewer address translations in the kernels.
  size_t alignment = bytes >= 2 * hugePage ? hugePage : 4096;
  size_t total = std::max<int64_t>(bytes, 1) + 2 * margin;
  void *memory = nullptr;
  if (posix_memalign(&memory, alignment, total) != 0)
    return Status(Code::OutOfMemory, "cannot allocate the planned " + std::to_string(bytes) +
                                         " bytes; use more stages, recomputation (--remat full), "
                                         "or smaller caps");
  if (alignment == hugePage)
    madvise(memory, total, MADV_HUGEPAGE);
  auto *block = static_cast<std::byte *>(memory);
  if (guarded) {
    std::memset(block, guardPattern, guardBytes);
    std::memset(block + margin, poisonPattern, bytes);
    std::memset(block + margin + bytes, guardPattern, guardBytes);
  }
  return std::unique_ptr<Arena>(std::make_unique<HostArena>(block, bytes, guarded));
}

} // namespace omnibal::rt
