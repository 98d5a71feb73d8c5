#include "runtime/training/session/ResidentMemory.h"
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <malloc.h>
#include <string>

namespace omnibal::rt {
namespace {

constexpr int64_t kilobyte = 1024;

/// Blocks from this size on come from the system and go back to it.
constexpr int64_t blockFromSystem = 256 * kilobyte;

/// "Rss:   123 kB" of a line; -1 where it is another.
int64_t kilobytes(const std::string &line, const char *field) {
  if (!line.starts_with(field))
    return -1;
  return std::strtoll(line.c_str() + std::string(field).size(), nullptr, 10) * kilobyte;
}

} // namespace

void returnFreedMemory() {
  mallopt(M_MMAP_THRESHOLD, blockFromSystem);
  mallopt(M_TRIM_THRESHOLD, blockFromSystem);
}

ResidentMemory residentMemory() {
  ResidentMemory memory;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    memory.now = std::max(memory.now, kilobytes(line, "VmRSS:"));
    memory.most = std::max(memory.most, kilobytes(line, "VmHWM:"));
  }
  // Code and constants of files come when they are first used.
  std::ifstream maps("/proc/self/smaps");
  bool ofFile = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.size() > 4 && line.find('-') < line.find(' ') && line.find(' ') < line.find(':'))
      ofFile =
          line.find('/') != std::string::npos && line.find(".safetensors") == std::string::npos;
    else if (const int64_t size = kilobytes(line, "Size:"); ofFile && size >= 0)
      memory.code += size;
    else if (const int64_t rss = kilobytes(line, "Rss:"); ofFile && rss >= 0)
      memory.code -= rss;
  }
  return memory;
}

int64_t availableMemory() {
  int64_t bytes = 0;
  std::ifstream machine("/proc/meminfo");
  for (std::string line; std::getline(machine, line);)
    bytes = std::max(bytes, kilobytes(line, "MemAvailable:"));
  // "0::/path" of the unified hierarchy; a limit of "max" is none.
  std::ifstream own("/proc/self/cgroup");
  for (std::string line; std::getline(own, line);) {
    if (!line.starts_with("0::"))
      continue;
    const std::string group = "/sys/fs/cgroup" + line.substr(3);
    int64_t most = 0, used = 0;
    if (std::ifstream(group + "/memory.max") >> most &&
        std::ifstream(group + "/memory.current") >> used)
      bytes = std::min(bytes, std::max<int64_t>(0, most - used));
  }
  return bytes;
}

} // namespace omnibal::rt
