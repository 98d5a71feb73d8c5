//===- Arena.h - The one allocation of a rank --------------------------------------------===//
#ifndef RUNTIME_EXECUTOR_ARENA_H
#define RUNTIME_EXECUTOR_ARENA_H

#include "runtime/core/Status.h"
#include <cstddef>
#include <cstdint>
#include <string>

namespace omnibal::rt {

/// Exactly the planned bytes. Guarded (tests, OMNIBAL_GUARD=1): known bytes before and after, and
/// contents that no kernel takes for numbers (NaN, -1), so that reading what nobody wrote shows.
class Arena {
public:
  static Result<Arena> allocate(int64_t bytes, bool guarded);
  Arena(Arena &&other) noexcept;
  Arena(const Arena &) = delete;
  ~Arena();

  std::byte *data() { return base; }
  int64_t bytes() const { return size; }
  /// Internal if a guard byte was overwritten; always fine without guards.
  Status checkGuards() const;

private:
  Arena() = default;
  std::byte *block = nullptr, *base = nullptr;
  int64_t size = 0;
  bool guarded = false;
};

} // namespace omnibal::rt
#endif // RUNTIME_EXECUTOR_ARENA_H
