//===- RankStream.h - What transports need of a rank's queue ---------------------------------===//
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
  /// The driver event of an event.
  std::function<std::shared_ptr<DriverEvent>(Event)> markEvent;
  /// When an event that has been reached and is timed was, on any stream of the device.
  std::function<Clock::time_point(const DriverEvent &)> timeOf;

  /// Reached when the queue has got to the event, or to its present end.
  Result<std::shared_ptr<DriverEvent>> eventOf(std::optional<Event> event) const {
    return event ? Result<std::shared_ptr<DriverEvent>>(markEvent(*event))
                 : DriverEvent::after(stream);
  }
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_DRIVER_RANKSTREAM_H
