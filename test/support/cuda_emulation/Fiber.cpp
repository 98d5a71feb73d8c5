#include "test/support/cuda_emulation/Fiber.h"
#include <cstdint>
#include <cstdlib>
#include <sys/mman.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OMNIBAL_EMULATION_ASAN
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(OMNIBAL_EMULATION_ASAN)
#define OMNIBAL_EMULATION_ASAN
#endif

#ifdef OMNIBAL_EMULATION_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

#ifdef __x86_64__
// Saves what a called function must keep, changes the stack, restores.
extern "C" void omnibalSwitchStacks(void **from, void *to);
asm(R"(
.text
.type omnibalSwitchStacks, @function
omnibalSwitchStacks:
  endbr64
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  retq
.size omnibalSwitchStacks, . - omnibalSwitchStacks
.type omnibalFiberEntry, @function
omnibalFiberEntry:
  movq %rbx, %rdi
  callq *%r12
  ud2
.size omnibalFiberEntry, . - omnibalFiberEntry
)");
extern "C" void omnibalFiberEntry();
#endif

namespace omnibal::emulation {
namespace {

/// Where enter() was called; one thread of the system at a time runs fibers.
#ifdef __x86_64__
void *caller = nullptr;
#else
ucontext_t caller = {};
#endif
// What AddressSanitizer wants to know of a switch of stacks.
[[maybe_unused]] bool entered = false; ///< and not changed from another fiber
[[maybe_unused]] void *callerShadow = nullptr;
[[maybe_unused]] const void *callerStack = nullptr;
[[maybe_unused]] size_t callerBytes = 0;

} // namespace

Fiber::Fiber() {
  void *memory =
      mmap(nullptr, stackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    std::abort();
  stack = static_cast<char *>(memory);
  static size_t made = 0;
  used = stackBytes - 64 - made++ % 256 * 64;
}

Fiber::~Fiber() { munmap(stack, stackBytes); }

void Fiber::begin(Fiber *self) {
  self->arrive();
  self->function(self->argument);
}

/// The first thing after a switch to this fiber.
void Fiber::arrive() {
#ifdef OMNIBAL_EMULATION_ASAN
  if (entered)
    __sanitizer_finish_switch_fiber(ownShadow, &callerStack, &callerBytes);
  else
    __sanitizer_finish_switch_fiber(ownShadow, nullptr, nullptr);
#endif
}

void Fiber::start(Function theFunction, void *theArgument) {
  function = theFunction;
  argument = theArgument;
  ownShadow = nullptr;
#ifdef __x86_64__
  auto *top = reinterpret_cast<uint64_t *>(stack + used);
  // As omnibalSwitchStacks pops them: r15 r14 r13 r12 rbx rbp, then the return address.
  uint64_t *place = top - 7;
  place[0] = place[1] = place[2] = 0;
  place[3] = reinterpret_cast<uint64_t>(&Fiber::begin);
  place[4] = reinterpret_cast<uint64_t>(this);
  place[5] = 0;
  place[6] = reinterpret_cast<uint64_t>(&omnibalFiberEntry);
  // After the return the stack pointer is `top`: 16-byte aligned before the call.
  own = place;
#else
  getcontext(&own);
  own.uc_stack.ss_sp = stack;
  own.uc_stack.ss_size = used;
  own.uc_link = nullptr;
  auto entry = [](unsigned high, unsigned low) {
    begin(reinterpret_cast<Fiber *>(uintptr_t(high) << 32 | low));
  };
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&own, reinterpret_cast<void (*)()>(+static_cast<void (*)(unsigned, unsigned)>(entry)),
              2, static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
#endif
}

void Fiber::enter() {
#ifdef OMNIBAL_EMULATION_ASAN
  entered = true;
  __sanitizer_start_switch_fiber(&callerShadow, stack, stackBytes);
#endif
#ifdef __x86_64__
  omnibalSwitchStacks(&caller, own);
#else
  swapcontext(&caller, &own);
#endif
#ifdef OMNIBAL_EMULATION_ASAN
  __sanitizer_finish_switch_fiber(callerShadow, nullptr, nullptr);
#endif
}

void Fiber::leave() {
#ifdef OMNIBAL_EMULATION_ASAN
  __sanitizer_start_switch_fiber(&ownShadow, callerStack, callerBytes);
#endif
#ifdef __x86_64__
  omnibalSwitchStacks(&own, caller);
#else
  swapcontext(&own, &caller);
#endif
  arrive();
}

void Fiber::change(Fiber &next) {
#ifdef OMNIBAL_EMULATION_ASAN
  entered = false;
  __sanitizer_start_switch_fiber(&ownShadow, next.stack, stackBytes);
#endif
#ifdef __x86_64__
  omnibalSwitchStacks(&own, next.own);
#else
  swapcontext(&own, &next.own);
#endif
  arrive();
}

} // namespace omnibal::emulation
