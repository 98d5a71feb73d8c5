//===- StateTable.h - What a search of layouts knows after an op ------------------------------===//
#ifndef PASSES_SHARD_SEARCH_STATETABLE_H
#define PASSES_SHARD_SEARCH_STATETABLE_H

#include "passes/shard/search/LayerProblem.h"
#include <algorithm>
#include <cstddef>

namespace omnibal::shard {

/// States after an op: rows of one word for each live value.
class StateTable {
public:
  explicit StateTable(size_t width) : width(width) {}

  size_t size() const { return costs.size(); }
  const uint64_t *row(size_t state) const { return words.data() + state * width; }
  Cost cost(size_t state) const { return costs[state]; }

  struct Origin {
    uint32_t state, step;
  };
  /// Leaves the table without them.
  std::vector<Origin> takeOrigins() { return std::move(origins); }

  /// Of equal states the cheaper stays, of equally cheap ones the first.
  void add(const std::vector<uint64_t> &key, Cost cost, Origin origin) {
    if (2 * (costs.size() + 1) > slots.size())
      grow();
    for (size_t at = hashOf(key.data()) & (slots.size() - 1);; at = (at + 1) & (slots.size() - 1)) {
      if (slots[at] == 0) {
        slots[at] = static_cast<uint32_t>(costs.size()) + 1;
        words.insert(words.end(), key.begin(), key.end());
        costs.push_back(cost);
        origins.push_back(origin);
        return;
      }
      const size_t state = slots[at] - 1;
      if (!std::equal(key.begin(), key.end(), row(state)))
        continue;
      if (cost < costs[state]) {
        costs[state] = cost;
        origins[state] = origin;
      }
      return;
    }
  }

  /// The cheapest states, in the order in which they are here.
  StateTable cheapest(size_t count) const {
    std::vector<std::pair<Cost, uint32_t>> order;
    for (uint32_t state = 0; state < size(); ++state)
      order.push_back({costs[state], state});
    std::nth_element(order.begin(), order.begin() + static_cast<ptrdiff_t>(count), order.end());
    order.resize(count);
    std::sort(order.begin(), order.end(), [](auto &a, auto &b) { return a.second < b.second; });
    StateTable result(width);
    for (auto [cost, state] : order)
      result.add({row(state), row(state) + width}, cost, origins[state]);
    return result;
  }

private:
  size_t hashOf(const uint64_t *key) const {
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < width; ++i) {
      hash = (hash ^ key[i]) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 29;
    }
    return hash;
  }
  void grow() {
    slots.assign(std::max<size_t>(64, 2 * slots.size()), 0);
    for (size_t state = 0; state < costs.size(); ++state) {
      size_t at = hashOf(row(state)) & (slots.size() - 1);
      while (slots[at] != 0)
        at = (at + 1) & (slots.size() - 1);
      slots[at] = static_cast<uint32_t>(state) + 1;
    }
  }

  size_t width;
  std::vector<uint64_t> words;
  std::vector<Cost> costs;
  std::vector<Origin> origins;
  std::vector<uint32_t> slots; ///< state + 1; 0: free
};

} // namespace omnibal::shard
#endif // PASSES_SHARD_SEARCH_STATETABLE_H
