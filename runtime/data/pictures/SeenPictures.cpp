#include "runtime/data/pictures/SeenPictures.h"
#include <algorithm>

namespace omnibal::rt {

SeenPictures seenPictures(std::span<const int32_t> inputIds, int64_t imageTokenId, int64_t first) {
  const int64_t all = std::count(inputIds.begin(), inputIds.end(), imageTokenId);
  SeenPictures out;
  int64_t run = 0, count = 0; // pictures before the last run, and up to here
  for (size_t t = 0; t < inputIds.size(); ++t) {
    if (inputIds[t] == imageTokenId) {
      if (t == 0 || inputIds[t - 1] != imageTokenId)
        run = count;
      ++count;
    }
    out.begins.push_back(static_cast<int32_t>(first + run));
    out.ends.push_back(static_cast<int32_t>(first + (count > 0 ? count : all)));
    out.seen.push_back(count > 0);
  }
  return out;
}

} // namespace omnibal::rt
