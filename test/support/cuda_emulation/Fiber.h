//===- Fiber.h - A call stack that can be left and entered again -----------------------------===//
#ifndef TEST_SUPPORT_CUDA_EMULATION_FIBER_H
#define TEST_SUPPORT_CUDA_EMULATION_FIBER_H

#include <cstddef>
#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace omnibal::emulation {

/// enter() runs the function that start() was given until it calls leave(), or until one that it
/// went on to with change() does; the next enter() or change() to it continues there. The function
/// must not return; start() may abandon it.
class Fiber {
public:
  using Function = void (*)(void *);
  Fiber();
  ~Fiber();
  Fiber(const Fiber &) = delete;
  Fiber &operator=(const Fiber &) = delete;

  void start(Function function, void *argument);
  void enter();
  void leave();
  /// From this fiber, which runs, straight to another.
  void change(Fiber &next);

private:
  static void begin(Fiber *self);
  void arrive();

  static constexpr size_t stackBytes = 128 * 1024;
  char *stack = nullptr;
  size_t used = 0; ///< of the stack: their tops differ, or they would share cache lines' places
  Function function = nullptr;
  void *argument = nullptr;
#ifdef __x86_64__
  void *own = nullptr; ///< stack pointer while not running
#else
  ucontext_t own = {};
#endif
  [[maybe_unused]] void *ownShadow = nullptr; ///< of AddressSanitizer
};

} // namespace omnibal::emulation
#endif // TEST_SUPPORT_CUDA_EMULATION_FIBER_H
