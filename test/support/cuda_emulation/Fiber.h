//===- Fiber.h - A call stack that can be left and entered again -----------------------------===//
#ifndef TEST_SUPPORT_CUDA_EMULATION_FIBER_H
#define TEST_SUPPORT_CUDA_EMULATION_FIBER_H

#include <cstddef>
#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace omnibal::emulation {

/// enter() runs the function that start() was given until it calls leave(); the next enter()
/// continues there. The function must not return; start() may abandon it.
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

private:
  static void begin(Fiber *self);
  void arrive();

  static constexpr size_t stackBytes = 128 * 1024;
  char *stack = nullptr;
  Function function = nullptr;
  void *argument = nullptr;
#ifdef __x86_64__
  void *own = nullptr, *caller = nullptr; ///< stack pointers while not running
#else
  ucontext_t own = {}, caller = {};
#endif
  // What AddressSanitizer wants to know of a switch of stacks.
  [[maybe_unused]] void *ownShadow = nullptr, *callerShadow = nullptr;
  [[maybe_unused]] const void *callerStack = nullptr;
  [[maybe_unused]] size_t callerBytes = 0;
};

} // namespace omnibal::emulation
#endif // TEST_SUPPORT_CUDA_EMULATION_FIBER_H
