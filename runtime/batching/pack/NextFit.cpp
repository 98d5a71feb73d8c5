#include "runtime/batching/pack/NextFit.h"
#include "runtime/batching/rows/RadixSort.h"

namespace omnibal::rt {

Grouping nextFit(const SampleLengths &lengths, std::vector<uint32_t> order, Caps caps) {
  Grouping groups;
  int64_t tiles = 0, tokens = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    int32_t v = lengths.tiles[order[i]], t = lengths.tokens[order[i]];
    if (i > 0 && (tiles + v > caps.tiles || tokens + t > caps.tokens)) {
      groups.offsets.push_back(static_cast<uint32_t>(i));
      tiles = tokens = 0;
    }
    tiles += v;
    tokens += t;
  }
  if (!order.empty())
    groups.offsets.push_back(static_cast<uint32_t>(order.size()));
  groups.samples = std::move(order);
  return groups;
}

Grouping randomGroups(const SampleLengths &lengths, std::vector<uint32_t> samples, Caps caps,
                      Random random) {
  random.shuffle(samples.data(), samples.size());
  return nextFit(lengths, std::move(samples), caps);
}

Grouping sortedGroups(const SampleLengths &lengths, std::vector<uint32_t> samples, Caps caps,
                      Random random) {
  random.shuffle(samples.data(), samples.size());
  std::vector<uint64_t> items(samples.size()), scratch;
  for (size_t i = 0; i < samples.size(); ++i)
    items[i] = keyed(static_cast<uint32_t>(lengths.tokens[samples[i]]), samples[i]);
  radixSort(items.data(), items.size(), scratch);
  for (size_t i = 0; i < samples.size(); ++i)
    samples[i] = static_cast<uint32_t>(items[i]);
  return nextFit(lengths, std::move(samples), caps);
}

} // namespace omnibal::rt
