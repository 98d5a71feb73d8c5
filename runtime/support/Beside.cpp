#include "runtime/support/Beside.h"
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace omnibal::rt {

void workBeside(int helpers, const std::function<void()> &work) {
  std::mutex mutex;
  std::exception_ptr failure;
  auto guarded = [&] {
    try {
      work();
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!failure)
        failure = std::current_exception();
    }
  };
  std::vector<std::jthread> threads;
  try {
    for (int i = 0; i < helpers; ++i)
      threads.emplace_back(guarded);
  } catch (const std::system_error &) {
    // Those that there are do all the work.
  }
  guarded();
  threads.clear();
  if (failure)
    std::rethrow_exception(failure);
}

} // namespace omnibal::rt
