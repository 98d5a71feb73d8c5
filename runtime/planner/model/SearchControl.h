//===- SearchControl.h - How long a search may go on ----------------------------------------===//
#ifndef RUNTIME_PLANNER_MODEL_SEARCHCONTROL_H
#define RUNTIME_PLANNER_MODEL_SEARCHCONTROL_H

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>

namespace omnibal::planner {

/// How much a search may look for.
enum class Effort {
  Proof, ///< the best plan and the highest bound that its work limits allow
  Quick, ///< a good plan
};

/// Limits count work (one unit is about one action of a timed candidate, a few nanoseconds), so
/// that the same problem gives the same plan on every machine; only the time limit counts seconds,
/// and an answer that it cut short says so.
class SearchControl {
public:
  using Clock = std::chrono::steady_clock;
  /// `mostWork` bounds all that allow() and the like can give.
  explicit SearchControl(double seconds, int64_t mostWork = INT64_MAX)
      : start(Clock::now()), seconds(seconds), mostWork(mostWork), budget(mostWork),
        total(mostWork) {}

  /// Counts work and returns false once a limit is reached, and from then on always.
  bool spend(int64_t units) {
    used += units;
    if (used >= nextLook) {
      nextLook = used + 200'000;
      timedOut |= elapsed() > seconds;
    }
    return !timedOut && used < budget;
  }
  bool exhausted() const { return timedOut || used >= budget; }
  bool stoppedByTime() const { return timedOut; }
  bool stoppedByWork() const { return used >= mostWork; }
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start).count(); }
  double secondsLeft() const { return seconds - elapsed(); }
  int64_t spent() const { return used; }
  /// Allows this much work from now on, in addition to what was spent.
  void allow(int64_t units) { budget = std::min(upTo(units), total); }
  void allowAll() { budget = total; }
  /// Does the same, also for whoever calls allow() in between, and ends what an earlier call
  /// allowed.
  void allowInTotal(int64_t units) { budget = total = upTo(units); }

private:
  int64_t upTo(int64_t units) const { return std::min(used + units, mostWork); }

  Clock::time_point start;
  double seconds;
  int64_t mostWork;
  int64_t used = 0, budget, total, nextLook = 0;
  bool timedOut = false;
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_MODEL_SEARCHCONTROL_H
