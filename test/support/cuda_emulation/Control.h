//===- Control.h - What a test tells and asks the emulation ----------------------------------===//
#ifndef TEST_SUPPORT_CUDA_EMULATION_CONTROL_H
#define TEST_SUPPORT_CUDA_EMULATION_CONTROL_H

#include <cstdint>
#include <functional>
#include <string>

namespace omnibal::emulation {

/// Order of blocks and threads from here on: 0 is ascending, other seeds shuffle both.
void setOrder(uint64_t seed);

/// What was wrong with a launch since the last call; empty if nothing was.
std::string takeFailure();

/// Blocks run since the program started.
int64_t blocksRun();

/// Who performs the work of streams; without one it is performed at the call. A queue performs one
/// piece of work at a time.
using Queue = void (*)(void *stream, std::function<void()> work);
void setQueue(Queue queue);
/// Gives work to the queue.
void submit(void *stream, std::function<void()> work);

} // namespace omnibal::emulation
#endif // TEST_SUPPORT_CUDA_EMULATION_CONTROL_H
