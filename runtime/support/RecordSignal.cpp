#include "runtime/support/RecordSignal.h"
#include <atomic>
#include <csignal>

namespace omnibal::rt {
namespace {

std::atomic<bool> requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may touch it");

void request(int) { requested = true; }

} // namespace

void catchRecordSignal() {
  struct sigaction action = {};
  action.sa_handler = request;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGUSR2, &action, nullptr);
}

bool takeRecordRequest() { return requested.exchange(false); }

} // namespace omnibal::rt
