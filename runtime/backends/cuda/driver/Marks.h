//===- Marks.h - Places in a stream and when it got there -------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_DRIVER_MARKS_H
#define RUNTIME_BACKENDS_CUDA_DRIVER_MARKS_H

#include "runtime/backends/cuda/driver/Runtime.h"
#include <deque>
#include <vector>

namespace omnibal::rt::cuda {

/// Times come from CUDA's differences between two events, floats of milliseconds: exact enough over
/// a step. So they count from an anchor, the first mark, which the host's clock dates; when older
/// marks are forgotten the anchor moves along, by such a difference.
class Marks {
public:
  Marks(cudaStream_t stream, Communicator::Milliseconds deadline)
      : stream(stream), deadline(deadline) {}

  /// Cannot fail; reach() then does.
  Mark add();
  Status reach(Mark mark) const;
  Clock::time_point timeOf(Mark mark) const;
  /// Of an event of any stream of the device.
  Clock::time_point timeOf(const Event &event) const;
  /// Starts again, with a wait for the device that dates the anchor.
  Status restart();
  /// `mark` becomes the anchor.
  void forgetBefore(Mark mark);
  /// Reached with the mark.
  std::shared_ptr<Event> event(Mark mark) const { return events[mark.value - first]; }
  bool empty() const { return events.empty(); }

private:
  const Event *at(Mark mark) const;

  cudaStream_t stream;
  Communicator::Milliseconds deadline;
  std::deque<std::shared_ptr<Event>> events; ///< of marks `first`, `first` + 1, ...
  std::vector<std::shared_ptr<Event>> spare;
  int64_t first = 0;
  std::shared_ptr<Event> anchor;
  Clock::time_point anchored;
  Status health; ///< what the first mark that failed says
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_DRIVER_MARKS_H
