#include "runtime/executor/Arena.h"
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <utility>

namespace omnibal::rt {
namespace {

constexpr int64_t guardBytes = 4096, hugePage = 2 << 20;
constexpr int guardPattern = 0xA5, poisonPattern = 0xFF; // 0xFFFFFFFF is a NaN and -1

} // namespace

Result<Arena> Arena::allocate(int64_t bytes, bool guarded) {
  Arena arena;
  arena.size = bytes;
  arena.guarded = guarded;
  int64_t margin = guarded ? guardBytes : 0;
  // Large arenas start at a huge page: fewer address translations in the kernels.
  size_t alignment = bytes >= 2 * hugePage ? hugePage : 4096;
  size_t total = std::max<int64_t>(bytes, 1) + 2 * margin;
  void *memory = nullptr;
  if (posix_memalign(&memory, alignment, total) != 0)
    return Status(Code::OutOfMemory, "cannot allocate the planned " + std::to_string(bytes) +
                                         " bytes; use more stages, recomputation (--remat full), "
                                         "or smaller caps");
  arena.block = static_cast<std::byte *>(memory);
  arena.base = arena.block + margin;
  if (alignment == hugePage)
    madvise(memory, total, MADV_HUGEPAGE);
  if (guarded) {
    std::memset(arena.block, guardPattern, guardBytes);
    std::memset(arena.base, poisonPattern, bytes);
    std::memset(arena.base + bytes, guardPattern, guardBytes);
  }
  return arena;
}

Arena::Arena(Arena &&other) noexcept
    : block(std::exchange(other.block, nullptr)), base(std::exchange(other.base, nullptr)),
      size(other.size), guarded(other.guarded) {}

Arena::~Arena() { std::free(block); }

Status Arena::checkGuards() const {
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

} // namespace omnibal::rt
