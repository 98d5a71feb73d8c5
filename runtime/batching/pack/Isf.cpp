#include "runtime/batching/pack/Isf.h"
#include "runtime/batching/pack/NextFit.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

/// Moves the full groups of `from` to the end of `kept` and returns the members of the others.
std::vector<uint32_t> keepFull(const SampleLengths &lengths, const Grouping &from,
                               int32_t fullTiles, int32_t fullTokens, Grouping &kept) {
  std::vector<uint32_t> pool;
  for (int64_t g = 0; g < from.groups(); ++g) {
    auto begin = from.samples.begin() + from.offsets[g];
    auto end = from.samples.begin() + from.offsets[g + 1];
    GroupLoad load = loadOf(lengths, from, g);
    if (load.tiles >= fullTiles || load.tokens >= fullTokens) {
      kept.samples.insert(kept.samples.end(), begin, end);
      kept.close();
    } else {
      pool.insert(pool.end(), begin, end);
    }
  }
  return pool;
}

} // namespace

Grouping isfGroups(const SampleLengths &lengths, std::vector<uint32_t> samples, Caps caps,
                   Random random, IsfOptions options) {
  int32_t fullTiles = options.fullTiles < 0 ? caps.tiles : options.fullTiles;
  int32_t fullTokens =
      options.fullTokens < 0 ? caps.tokens - std::min(128, caps.tokens / 32) : options.fullTokens;
  Grouping kept, best;
  int64_t bestKept = 0, fewest = -1;
  std::vector<uint32_t> pool = std::move(samples);
  for (int32_t round = 0; round < options.rounds; ++round) {
    Grouping groups = randomGroups(lengths, std::move(pool), caps, Random(random.next()));
    int64_t count = kept.groups() + groups.groups(), before = kept.groups();
    pool = keepFull(lengths, groups, fullTiles, fullTokens, kept);
    if (fewest < 0 || count < fewest) {
      fewest = count;
      bestKept = before;
      best = std::move(groups);
    }
    if (pool.empty())
      break;
  }
  // The groups kept until the best round, then that round's groups.
  kept.offsets.resize(bestKept + 1);
  kept.samples.resize(kept.offsets.back());
  uint32_t base = kept.offsets.back();
  kept.samples.insert(kept.samples.end(), best.samples.begin(), best.samples.end());
  for (size_t g = 1; g < best.offsets.size(); ++g)
    kept.offsets.push_back(base + best.offsets[g]);
  return kept;
}

} // namespace omnibal::rt
