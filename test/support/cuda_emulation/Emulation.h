//===- Emulation.h - CUDA's execution model on a processor, for tests ------------------------===//
//
// The .cu sources of runtime/backends/cuda/kernels are compiled as C++ against the headers beside
// this one. A launch runs its blocks one after another; each thread of a block is a fiber, so a
// barrier or a shuffle waits for the threads that it waits for on a GPU. A launch fails, and says
// why, when threads wait at different barriers, leave while others wait, shuffle with a lane that
// does not take part, or write past the block's dynamic shared memory.
//
// Threads run in a chosen order until each waits: with another order a missing barrier or an order
// of blocks that matters changes the results.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef TEST_SUPPORT_CUDA_EMULATION_EMULATION_H
#define TEST_SUPPORT_CUDA_EMULATION_EMULATION_H

#include "test/support/cuda_emulation/Control.h"
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace omnibal::emulation {

// What the headers of the emulated toolkit are made of.
int launch(dim3 grid, dim3 block, size_t sharedBytes, const std::function<void()> &thread);
/// The same in the order of a stream.
inline void enqueue(void *stream, dim3 grid, dim3 block, size_t sharedBytes,
                    std::function<void()> thread) {
  submit(stream, [=, thread = std::move(thread)] { launch(grid, block, sharedBytes, thread); });
}
int lastError(bool clear);
void *dynamicShared();
/// Waits for the whole block; the sum of all threads' values.
int64_t blockBarrier(int64_t value, int line);
/// Waits for the lanes of `mask`; the value of lane `source` of this thread's warp.
uint64_t exchange(unsigned mask, uint64_t value, int source, int line);
int lane();

/// The warp operations of the tensor cores: all 32 lanes take part.
void loadMatrices(uint32_t (&to)[4], const unsigned char *row, bool transposed, int line);
void multiplyAdd(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], int line);
/// A copy of 16 bytes (zeros from null) is made as late as a device may make it: when its thread
/// waits for its group.
void copyAsync(void *to, const void *from);
void closeCopies();
void waitForCopies(int open);

template <typename T> T shuffle(unsigned mask, T value, int source, int line) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange(mask, bits, source, line);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

} // namespace omnibal::emulation
#endif // TEST_SUPPORT_CUDA_EMULATION_EMULATION_H
