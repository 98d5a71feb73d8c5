#include "runtime/batching/LowerBound.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// One dimension: distinct sizes ascending, with counts.
struct Sizes {
  std::vector<int64_t> size, count;
};

Sizes sizesOf(const Histogram &histogram, bool tiles) {
  std::vector<std::pair<int64_t, int64_t>> all;
  for (const Cell &cell : histogram.cells())
    all.push_back({tiles ? cell.tiles : cell.tokens, cell.count});
  std::sort(all.begin(), all.end());
  Sizes sizes;
  for (auto [size, count] : all) {
    if (sizes.size.empty() || sizes.size.back() != size) {
      sizes.size.push_back(size);
      sizes.count.push_back(0);
    }
    sizes.count.back() += count;
  }
  return sizes;
}

/// L2: for a threshold a <= cap / 2, samples over cap - a share with none that counts, those over
/// cap / 2 are alone among their like, and those from a to cap / 2 fill what the second leave.
int64_t bigItems(const Sizes &sizes, int64_t cap) {
  size_t n = sizes.size.size();
  std::vector<int64_t> count(n + 1, 0), sum(n + 1, 0); // of all sizes before
  for (size_t i = 0; i < n; ++i) {
    count[i + 1] = count[i] + sizes.count[i];
    sum[i + 1] = sum[i] + sizes.count[i] * sizes.size[i];
  }
  auto firstOver = [&](int64_t size) {
    return std::upper_bound(sizes.size.begin(), sizes.size.end(), size) - sizes.size.begin();
  };
  size_t half = firstOver(cap / 2);
  int64_t best = count[n] - count[half];
  for (size_t i = 0; i < half; ++i) {
    size_t alone = firstOver(cap - sizes.size[i]);
    int64_t large = count[n] - count[alone], middle = count[alone] - count[half];
    int64_t room = middle * cap - (sum[alone] - sum[half]), small = sum[half] - sum[i];
    best = std::max(best, large + middle + (small > room ? ceilDiv(small - room, cap) : 0));
  }
  return best;
}

} // namespace

Bound simpleBound(const Histogram &histogram, Caps caps) {
  if (histogram.samples() == 0)
    return {0, "sum"};
  Bound bound{std::max<int64_t>({1, ceilDiv(histogram.totalTiles(), caps.tiles),
                                 ceilDiv(histogram.totalTokens(), caps.tokens)}),
              "sum"};
  int64_t big = std::max(bigItems(sizesOf(histogram, true), caps.tiles),
                         bigItems(sizesOf(histogram, false), caps.tokens));
  if (big > bound.groups)
    bound = {big, "big-item"};
  return bound;
}

} // namespace omnibal::rt
