#include "runtime/training/Recordings.h"
#include "runtime/support/RecordSignal.h"
#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace omnibal::rt {

Recordings::Recordings(const RunOptions &options, int64_t first, int64_t total)
    : folder(options.profile), total(total) {
  if (!options.trace.empty()) {
    // The third step is past all first-use costs.
    const int64_t begin = std::min(first + 2, std::max(first, total - options.traceSteps));
    const int64_t end = std::min(begin + options.traceSteps, total);
    recordings[begin] = {options.trace, begin, end};
  }
  for (int64_t step : options.profileAt)
    if (step > first) // counted from 1; a resumed run has those before it behind it
      add(step - 1);
}

const Recording *Recordings::of(int64_t step) const {
  auto after = recordings.upper_bound(step);
  if (after == recordings.begin())
    return nullptr;
  const Recording &last = std::prev(after)->second;
  return step < last.end ? &last : nullptr;
}

bool Recordings::add(int64_t step) {
  if (step >= total || of(step))
    return false;
  char name[48];
  std::snprintf(name, sizeof name, "/step-%08lld.json", static_cast<long long>(step + 1));
  recordings[step] = {folder + name, step, step + 1};
  return true;
}

bool Recordings::takeRequest(int64_t step, bool leads) const {
  if (!areKept())
    return false;
  const bool bySignal = takeRecordRequest() && Clock::now() - heard >= std::chrono::seconds(1);
  std::error_code ignored;
  const bool byFile =
      leads && !isSameRequest(step + 1) && std::filesystem::remove(folder + "/request", ignored);
  return bySignal || byFile;
}

bool Recordings::hear(int64_t step) {
  heard = Clock::now();
  if (isSameRequest(step))
    return false;
  lastAsked = step;
  return add(step);
}

} // namespace omnibal::rt
