#include "runtime/support/BackgroundWork.h"
#include <exception>
#include <new>
#include <system_error>

namespace omnibal::rt {

BackgroundWork::~BackgroundWork() {
  cancel();
  if (thread.joinable())
    thread.join();
}

Status BackgroundWork::perform(const Work &work) {
  try {
    return work(canceled);
  } catch (const std::bad_alloc &) {
    return {Code::OutOfMemory, "out of memory"};
  } catch (const std::exception &e) {
    return {Code::Unavailable, e.what()};
  }
}

void BackgroundWork::start(Work work) {
  underWay = true;
  canceled = false;
  done = false;
  auto run = [this, work = std::move(work)] {
    Status status = perform(work);
    std::lock_guard lock(mutex);
    outcome = std::move(status);
    done = true;
    ended.notify_all();
  };
  try {
    thread = std::thread(run);
  } catch (const std::system_error &) {
    run();
  }
}

bool BackgroundWork::waitFor(std::chrono::milliseconds time) const {
  std::unique_lock lock(mutex);
  return ended.wait_for(lock, time, [this] { return done; });
}

bool BackgroundWork::hasFailed() const {
  std::lock_guard lock(mutex);
  return underWay && done && !outcome;
}

Status BackgroundWork::take() {
  if (thread.joinable())
    thread.join();
  underWay = false;
  std::lock_guard lock(mutex);
  return std::exchange(outcome, Status::ok());
}

} // namespace omnibal::rt
