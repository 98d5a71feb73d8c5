#include "runtime/batching/pack/BestFit.h"
#include <algorithm>
#include <bit>

namespace omnibal::rt {
namespace {

int32_t unitFor(int32_t cap, int32_t classes) { return cap / classes + 1; }

/// Samples that join groups: the grouping with them.
Grouping withAdded(const Grouping &grouping, std::vector<uint64_t> added, int64_t groups) {
  std::sort(added.begin(), added.end());
  Grouping result;
  result.samples.reserve(grouping.samples.size() + added.size());
  result.offsets.reserve(groups + 1);
  size_t next = 0;
  for (int64_t g = 0; g < groups; ++g) {
    if (g < grouping.groups())
      result.samples.insert(result.samples.end(), grouping.samples.begin() + grouping.offsets[g],
                            grouping.samples.begin() + grouping.offsets[g + 1]);
    for (; next < added.size() && static_cast<int64_t>(added[next] >> 32) == g; ++next)
      result.samples.push_back(static_cast<uint32_t>(added[next]));
    result.close();
  }
  return result;
}

} // namespace

OpenGroups::OpenGroups(Caps caps, LoadWeights weights)
    : weights(weights), tileUnit(unitFor(caps.tiles, 64)),
      tokenUnit(unitFor(caps.tokens, words * 64)), lines(caps.tiles / tileUnit + 1),
      groups(lines.size() * words * 64) {}

void OpenGroups::insert(uint32_t group, int32_t tiles, int32_t tokens) {
  Line &line = lines[tiles / tileUnit];
  int32_t at = tokens / tokenUnit;
  line.bits[at / 64] |= uint64_t(1) << at % 64;
  line.any |= uint64_t(1) << at / 64;
  groups[(&line - lines.data()) * words * 64 + at].push_back(group);
}

int32_t OpenGroups::firstFrom(const Line &line, int32_t from) {
  int32_t word = from / 64;
  if (word >= words)
    return -1;
  uint64_t bits = line.bits[word] & (~uint64_t(0) << from % 64);
  if (bits == 0) {
    uint64_t later = word + 1 < words ? line.any & (~uint64_t(0) << (word + 1)) : 0;
    if (later == 0)
      return -1;
    word = std::countr_zero(later);
    bits = line.bits[word];
  }
  return word * 64 + std::countr_zero(bits);
}

int64_t OpenGroups::take(int32_t tiles, int32_t tokens) {
  int32_t from = (tokens + tokenUnit - 1) / tokenUnit;
  int64_t bestLine = -1;
  int32_t bestAt = 0;
  double least = 0;
  for (size_t v = (tiles + tileUnit - 1) / tileUnit; v < lines.size(); ++v) {
    if (lines[v].any == 0)
      continue;
    int32_t at = firstFrom(lines[v], from);
    if (at < 0)
      continue;
    double room =
        weights.of(static_cast<int64_t>(v) * tileUnit, static_cast<int64_t>(at) * tokenUnit);
    if (bestLine < 0 || room < least) {
      bestLine = static_cast<int64_t>(v);
      bestAt = at;
      least = room;
    }
  }
  if (bestLine < 0)
    return -1;
  std::vector<uint32_t> &list = groups[bestLine * words * 64 + bestAt];
  uint32_t group = list.back();
  list.pop_back();
  if (list.empty()) {
    Line &line = lines[bestLine];
    line.bits[bestAt / 64] &= ~(uint64_t(1) << bestAt % 64);
    if (line.bits[bestAt / 64] == 0)
      line.any &= ~(uint64_t(1) << bestAt / 64);
  }
  return group;
}

void bestFit(const SampleLengths &lengths, Caps caps, LoadWeights weights,
             const std::vector<uint32_t> &open, std::vector<uint32_t> samples, Grouping &grouping,
             std::vector<uint32_t> &tiles, std::vector<uint32_t> &tokens) {
  if (samples.empty())
    return;
  std::sort(samples.begin(), samples.end(), [&](uint32_t a, uint32_t b) {
    double wa = weights.of(lengths.tiles[a], lengths.tokens[a]);
    double wb = weights.of(lengths.tiles[b], lengths.tokens[b]);
    return wa != wb ? wa > wb : a < b;
  });
  OpenGroups index(caps, weights);
  for (uint32_t g : open)
    index.insert(g, caps.tiles - static_cast<int32_t>(tiles[g]),
                 caps.tokens - static_cast<int32_t>(tokens[g]));
  std::vector<uint64_t> added; // (group, sample)
  for (uint32_t sample : samples) {
    int64_t group = index.take(lengths.tiles[sample], lengths.tokens[sample]);
    if (group < 0) {
      group = static_cast<int64_t>(tiles.size());
      tiles.push_back(0);
      tokens.push_back(0);
    }
    tiles[group] += lengths.tiles[sample];
    tokens[group] += lengths.tokens[sample];
    added.push_back(static_cast<uint64_t>(group) << 32 | sample);
    index.insert(static_cast<uint32_t>(group), caps.tiles - static_cast<int32_t>(tiles[group]),
                 caps.tokens - static_cast<int32_t>(tokens[group]));
  }
  grouping = withAdded(grouping, std::move(added), static_cast<int64_t>(tiles.size()));
}

} // namespace omnibal::rt
