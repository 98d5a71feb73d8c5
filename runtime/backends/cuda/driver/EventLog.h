//===- EventLog.h - Places in a stream and when it got there ---------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_DRIVER_EVENTLOG_H
#define RUNTIME_BACKENDS_CUDA_DRIVER_EVENTLOG_H

#include "runtime/backends/cuda/driver/Runtime.h"
#include <deque>
#include <vector>

namespace omnibal::rt::cuda {

/// Times come from CUDA's differences between two events, floats of milliseconds: exact enough over
/// a step. So they count from an anchor, the first event, which the host's clock dates; when older
/// events are forgotten the anchor moves along, by such a difference.
class EventLog {
public:
  EventLog(cudaStream_t stream, Communicator::Milliseconds deadline)
      : stream(stream), deadline(deadline) {}

  /// Cannot fail; reach() then does.
  Event add();
  Status reach(Event event) const;
  Clock::time_point timeOf(Event event) const;
  /// Returns the time of an event of any stream of the device.
  Clock::time_point timeOf(const DriverEvent &event) const;
  /// Starts again, with a wait for the device that dates the anchor.
  Status restart();
  /// `event` becomes the anchor.
  void forgetBefore(Event event);
  /// Reached with the event.
  std::shared_ptr<DriverEvent> event(Event event) const { return events[event.value - first]; }
  bool empty() const { return events.empty(); }

private:
  const DriverEvent *at(Event event) const;

  cudaStream_t stream;
  Communicator::Milliseconds deadline;
  std::deque<std::shared_ptr<DriverEvent>> events; ///< of events `first`, `first` + 1, ...
  std::vector<std::shared_ptr<DriverEvent>> spare;
  int64_t first = 0;
  std::shared_ptr<DriverEvent> anchor;
  Clock::time_point anchored;
  Status health; ///< what the first event that failed says
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_DRIVER_EVENTLOG_H
