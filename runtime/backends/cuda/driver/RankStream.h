//===- RankStream.h - What transports need of a rank's queue
//-----------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_DRIVER_RANKSTREAM_H
#define RUNTIME_BACKENDS_CUDA_DRIVER_RANKSTREAM_H

#include "runtime/backends/cuda/driver/Runtime.h"
#include <functional>
#include <optional>

namespace omnibal::rt::cuda {

struct RankStream {
  int device = 0;
  cudaStream_t stream = nullptr;
  Communicator::Milliseconds deadline{};
  /// The event of a mark.
  std::function<std::shared_ptr<Event>(Mark)> markEvent;
  /// When an event that has been reached and is timed was, on any stream of the device.
  std::function<Clock::time_point(const Event &)> timeOf;

  /// Reached when the queue has got to the mark, or to its present end.
  Result<std::shared_ptr<Event>> eventOf(std::optional<Mark> mark) const {
    return mark ? Result<std::shared_ptr<Event>>(markEvent(*mark)) : Event::after(stream);
  }
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_DRIVER_RANKSTREAM_H
