#include "runtime/support/StopSignals.h"
#include <atomic>
#include <csignal>
#include <ctime>

namespace omnibal::rt {
namespace {

constexpr int signals[] = {SIGTERM, SIGINT, SIGUSR1};
constexpr int64_t sameRequestNs = 1'000'000'000;

std::atomic<int> received{0};
std::atomic<int64_t> receivedAt{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free,
              "a signal handler may touch them");

int64_t nowNs() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// Calls only what signal-safety(7) allows.
void note(int signal) {
  const int64_t now = nowNs();
  int none = 0;
  if (received.compare_exchange_strong(none, signal)) {
    receivedAt = now;
    return;
  }
  if (now - receivedAt < sameRequestNs)
    return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

} // namespace

void catchStopSignals() {
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (int signal : signals)
    sigaction(signal, &action, nullptr);
}

bool stopWasRequested() { return received != 0; }

std::string stopSignalName() {
  switch (received) {
  case SIGTERM:
    return "SIGTERM";
  case SIGINT:
    return "SIGINT";
  case SIGUSR1:
    return "SIGUSR1";
  default:
    return "";
  }
}

} // namespace omnibal::rt
