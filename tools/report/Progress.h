//===- Progress.h - How far a phase is, on a terminal ---------------------------------------===//
#ifndef TOOLS_REPORT_PROGRESS_H
#define TOOLS_REPORT_PROGRESS_H

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace omnibal::rt {

/// One line on stderr while a phase runs: its part done and the time left, from the second second
/// on. Silent unless stderr is a terminal. update() may be called from any thread.
class Progress {
public:
  /// `expectedSeconds`: how long it will take, for a phase that cannot say how far it is; 0: not
  /// known.
  explicit Progress(std::string phase, double expectedSeconds = 0);
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;
  /// `total` 0: not known.
  void update(int64_t done, int64_t total);

private:
  void watch();
  std::string line(double seconds) const;

  std::string phase;
  double expected;
  bool visible = false;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  std::mutex mutex;
  std::condition_variable ended;
  double part = 0; ///< done, 0 to 1
  bool finished = false;
  std::thread watcher;
};

} // namespace omnibal::rt
#endif // TOOLS_REPORT_PROGRESS_H
