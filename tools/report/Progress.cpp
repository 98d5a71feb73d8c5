#include "tools/report/Progress.h"
#include <cmath>
#include <cstdio>
#include <exception>
#include <system_error>
#include <unistd.h>

namespace omnibal::rt {

Progress::Progress(std::string phase, double expectedSeconds)
    : phase(std::move(phase)), expected(expectedSeconds), visible(::isatty(2)) {
  if (!visible)
    return;
  try {
    watcher = std::thread([this] {
      try {
        watch();
      } catch (const std::exception &) { // no memory for the line
      }
    });
  } catch (const std::system_error &) { // no thread to be had: the work goes on without the line
    visible = false;
  }
}

Progress::~Progress() {
  if (!visible)
    return;
  {
    std::lock_guard<std::mutex> lock(mutex);
    finished = true;
  }
  ended.notify_one();
  watcher.join();
}

void Progress::update(int64_t done, int64_t total) {
  if (!visible)
    return;
  std::lock_guard<std::mutex> lock(mutex);
  part = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
}

std::string Progress::line(double seconds) const {
  char text[128];
  double left = part > 0 ? seconds * (1 - part) / part : expected - seconds;
  if (part > 0)
    std::snprintf(text, sizeof text, ": %.0f %%, %.0f s left", std::floor(100 * part),
                  std::ceil(left));
  else if (left > 0)
    std::snprintf(text, sizeof text, ": %.0f s, about %.0f s left", seconds, std::ceil(left));
  else
    std::snprintf(text, sizeof text, ": %.0f s", seconds);
  return phase + text;
}

void Progress::watch() {
  using namespace std::chrono_literals;
  bool shown = false;
  std::unique_lock<std::mutex> lock(mutex);
  ended.wait_for(lock, 1s, [&] { return finished; });
  while (!finished) {
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::fprintf(stderr, "\r\033[K%s", line(seconds).c_str());
    shown = true;
    ended.wait_for(lock, 250ms, [&] { return finished; });
  }
  if (shown)
    std::fprintf(stderr, "\r\033[K");
}

} // namespace omnibal::rt
