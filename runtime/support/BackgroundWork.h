//===- BackgroundWork.h - One piece of work on a thread of its own ----------------------------===//
#ifndef RUNTIME_SUPPORT_BACKGROUNDWORK_H
#define RUNTIME_SUPPORT_BACKGROUNDWORK_H

#include "runtime/support/Status.h"
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace omnibal::rt {

/// Runs one piece of work after the other beside the thread that owns this. What the work throws is
/// its error. Where the system has no thread left, start() does the work itself.
class BackgroundWork {
public:
  /// Work that takes long looks at `canceled` now and then, and ends when it is set.
  using Work = std::function<Status(const std::atomic<bool> &canceled)>;

  BackgroundWork() = default;
  BackgroundWork(const BackgroundWork &) = delete;
  /// Cancels the work and waits for its end.
  ~BackgroundWork();

  /// Call it only while nothing is under way.
  void start(Work work);
  /// True from start() to take().
  bool isUnderWay() const { return underWay; }
  /// True unless there is work that has not ended.
  bool isDone() const { return waitFor(std::chrono::milliseconds(0)); }
  /// Returns isDone() after at most so long.
  bool waitFor(std::chrono::milliseconds time) const;
  /// True if the work has ended with an error that nobody has taken.
  bool hasFailed() const;
  /// Waits for the work's end and returns its outcome, once.
  Status take();
  void cancel() { canceled = true; }

private:
  Status perform(const Work &work);

  bool underWay = false;
  std::atomic<bool> canceled = false;
  mutable std::mutex mutex;
  mutable std::condition_variable ended;
  bool done = true;
  Status outcome;
  std::thread thread;
};

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_BACKGROUNDWORK_H
