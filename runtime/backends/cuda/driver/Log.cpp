#include "runtime/backends/cuda/driver/Log.h"
#include <cstdio>
#include <mutex>
#include <set>

namespace omnibal::rt::cuda {

void logOnce(const std::string &text) {
  static std::mutex mutex;
  static std::set<std::string> said;
  std::lock_guard<std::mutex> lock(mutex);
  if (said.insert(text).second)
    std::fprintf(stderr, "omnibal_cuda: %s\n", text.c_str());
}

} // namespace omnibal::rt::cuda
