#include "runtime/batching/rows/SplitGroups.h"
#include <algorithm>
#include <cmath>

namespace omnibal::rt {
namespace {

constexpr int64_t mostCandidates = 4096;

/// Relative size of a sample: the larger of its shares of the caps would hide the smaller one, so
/// the sum.
double weightOf(const SampleLengths &lengths, uint32_t sample, Caps caps) {
  return static_cast<double>(lengths.tiles[sample]) / caps.tiles +
         static_cast<double>(lengths.tokens[sample]) / caps.tokens;
}

struct Candidate {
  int64_t group;
  double whole, difference;
};

/// Orders the members so that the first part of the result weighs about as much as the second;
/// returns the size of the first part (largest first, each to the lighter part).
int64_t halve(const SampleLengths &lengths, Caps caps, uint32_t *members, int64_t n,
              double *difference = nullptr) {
  std::sort(members, members + n, [&](uint32_t a, uint32_t b) {
    double wa = weightOf(lengths, a, caps), wb = weightOf(lengths, b, caps);
    return wa != wb ? wa > wb : a < b;
  });
  std::vector<uint32_t> first, second;
  double balance = 0;
  for (int64_t i = 0; i < n; ++i) {
    double weight = weightOf(lengths, members[i], caps);
    // Samples without tiles and tokens must not leave a part empty.
    bool toFirst = balance < 0 || (balance == 0 && first.size() <= second.size());
    (toFirst ? first : second).push_back(members[i]);
    balance += toFirst ? weight : -weight;
  }
  std::copy(second.begin(), second.end(), std::copy(first.begin(), first.end(), members));
  if (difference)
    *difference = std::abs(balance);
  return static_cast<int64_t>(first.size());
}

/// Groups with at least two samples, the ones to split first.
std::vector<Candidate> candidates(const SampleLengths &lengths, Caps caps, Grouping &grouping,
                                  int64_t wanted) {
  std::vector<Candidate> found;
  for (int64_t g = 0; g < grouping.groups() &&
                      static_cast<int64_t>(found.size()) < std::max(mostCandidates, 2 * wanted);
       ++g) {
    if (grouping.size(g) < 2)
      continue;
    uint32_t *members = grouping.samples.data() + grouping.offsets[g];
    Candidate candidate{g, 0, 0};
    for (int64_t i = 0; i < grouping.size(g); ++i)
      candidate.whole += weightOf(lengths, members[i], caps);
    halve(lengths, caps, members, grouping.size(g), &candidate.difference);
    found.push_back(candidate);
  }
  if (found.empty())
    return found;
  auto even = std::min_element(found.begin(), found.end(), [](const auto &a, const auto &b) {
    return a.difference < b.difference;
  });
  double whole = even->whole; // the halves of all should be alike too
  auto key = [&](const Candidate &c) { return c.difference + std::abs(c.whole - whole); };
  std::sort(found.begin(), found.end(), [&](const Candidate &a, const Candidate &b) {
    return key(a) != key(b) ? key(a) < key(b) : a.group < b.group;
  });
  return found;
}

/// Sums of the groups after `borders` were inserted.
std::vector<uint32_t> newSums(const std::vector<uint32_t> &offsets,
                              const std::vector<uint32_t> &borders, const Grouping &grouping,
                              const std::vector<int32_t> &lengths,
                              const std::vector<uint32_t> &sums) {
  std::vector<uint32_t> result;
  result.reserve(grouping.offsets.size());
  size_t border = 0;
  for (size_t g = 0; g + 1 < offsets.size(); ++g) {
    uint32_t first = offsets[g], rest = sums[g];
    // A group that is empty has no border.
    for (; border < borders.size() && borders[border] < offsets[g + 1]; ++border) {
      uint32_t sum = 0;
      for (uint32_t i = first; i < borders[border]; ++i)
        sum += static_cast<uint32_t>(lengths[grouping.samples[i]]);
      result.push_back(sum);
      rest -= sum;
      first = borders[border];
    }
    result.push_back(rest);
  }
  return result;
}

/// One round: each of up to `wanted` groups becomes two. Returns how many did.
int64_t splitOnce(const SampleLengths &lengths, Caps caps, LoadedGroups &groups, int64_t wanted) {
  Grouping &grouping = groups.grouping;
  std::vector<Candidate> chosen = candidates(lengths, caps, grouping, wanted);
  if (static_cast<int64_t>(chosen.size()) > wanted)
    chosen.resize(wanted);
  std::vector<uint32_t> borders;
  for (const Candidate &c : chosen) {
    uint32_t begin = grouping.offsets[c.group];
    borders.push_back(begin +
                      static_cast<uint32_t>(halve(lengths, caps, grouping.samples.data() + begin,
                                                  grouping.size(c.group))));
  }
  std::sort(borders.begin(), borders.end());
  groups.tiles = newSums(grouping.offsets, borders, grouping, lengths.tiles, groups.tiles);
  groups.tokens = newSums(grouping.offsets, borders, grouping, lengths.tokens, groups.tokens);
  std::vector<uint32_t> merged(grouping.offsets.size() + borders.size());
  std::merge(grouping.offsets.begin(), grouping.offsets.end(), borders.begin(), borders.end(),
             merged.begin());
  grouping.offsets = std::move(merged);
  return static_cast<int64_t>(chosen.size());
}

} // namespace

void splitToMultiple(const SampleLengths &lengths, int32_t ranks, Caps caps, LoadedGroups &groups) {
  int64_t count = groups.grouping.groups(), target = (count + ranks - 1) / ranks * ranks;
  while (count < target) {
    int64_t split = splitOnce(lengths, caps, groups, target - count);
    count += split;
    if (split == 0) { // the last ones stay empty
      groups.grouping.offsets.resize(target + 1, groups.grouping.offsets.back());
      groups.tiles.resize(target, 0);
      groups.tokens.resize(target, 0);
      break;
    }
  }
}

} // namespace omnibal::rt
