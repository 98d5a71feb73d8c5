#include "runtime/batching/pack/Knapsack.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

/// to[i] = max(to[i], from[i] + value); the ranges do not overlap.
#if defined(__x86_64__) && defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void maxPlus(int32_t *__restrict to, const int32_t *__restrict from, int64_t n, int32_t value) {
  for (int64_t i = 0; i < n; ++i) {
    int32_t sum = from[i] + value;
    to[i] = sum > to[i] ? sum : to[i];
  }
}

} // namespace

Knapsack::Knapsack(std::vector<KnapsackItem> theItems, int32_t tilesCap, int32_t tokensCap)
    : items(std::move(theItems)), tilesCap(tilesCap), tokensCap(tokensCap),
      width(static_cast<int64_t>(tokensCap) + 1), table((tilesCap + 1) * width) {}

void Knapsack::solve(const std::vector<int32_t> &newValues) {
  values = newValues;
  for (int64_t v = 0; v <= tilesCap; ++v) {
    int32_t *row = table.data() + v * width;
    if (v == 0)
      std::fill(row, row + width, 0);
    else
      std::copy(row - width, row, row);
    for (size_t i = 0; i < items.size(); ++i) {
      int64_t tokens = items[i].tokens;
      if (values[i] == 0 || items[i].tiles > v || tokens > tokensCap)
        continue;
      if (items[i].tiles > 0) {
        maxPlus(row + tokens, row - items[i].tiles * width, width - tokens, values[i]);
        continue;
      }
      // The row feeds itself, an item's length further on.
      for (int64_t t = tokens; t < width; t += tokens)
        maxPlus(row + t, row + t - tokens, std::min(tokens, width - t), values[i]);
    }
  }
}

int32_t Knapsack::bestWith(uint32_t item) const {
  return best(tilesCap - items[item].tiles, tokensCap - items[item].tokens) + values[item];
}

Pattern Knapsack::pattern(int64_t first) const {
  std::vector<uint32_t> chosen;
  int64_t v = tilesCap, t = tokensCap;
  auto take = [&](uint32_t item) {
    chosen.push_back(item);
    v -= items[item].tiles;
    t -= items[item].tokens;
  };
  if (first >= 0)
    take(static_cast<uint32_t>(first));
  for (uint32_t i = 0; table[v * width + t] > 0;) {
    if (v > 0 && table[v * width + t] == table[(v - 1) * width + t]) {
      --v;
      continue;
    }
    const KnapsackItem &item = items[i];
    if (values[i] > 0 && item.tiles <= v && item.tokens <= t &&
        table[v * width + t] == table[(v - item.tiles) * width + t - item.tokens] + values[i])
      take(i);
    else
      i = i + 1 == items.size() ? 0 : i + 1;
  }
  std::sort(chosen.begin(), chosen.end());
  Pattern pattern;
  for (uint32_t item : chosen)
    if (!pattern.empty() && pattern.back().first == item)
      ++pattern.back().second;
    else
      pattern.push_back({item, 1});
  return pattern;
}

} // namespace omnibal::rt
