#include "runtime/batching/pack/PatternExpansion.h"
#include "runtime/batching/rows/RadixSort.h"
#include <algorithm>
#include <numeric>

namespace omnibal::rt {
namespace {

/// Samples of a type that one slot of a pattern takes, ascending by tokens.
struct Share {
  uint32_t type = 0;
  size_t begin = 0, wanted = 0, got = 0;
};

constexpr uint32_t nobody = UINT32_MAX;
constexpr size_t tries = 32; ///< groups that one over the cap asks for an exchange

class Expander {
public:
  Expander(const SampleLengths &lengths, Caps caps, const Histogram &histogram,
           const SampleTypes &types, Random random)
      : lengths(lengths), caps(caps), histogram(histogram), types(types), random(random) {}

  Expansion run(const std::vector<Pattern> &patterns, const std::vector<int64_t> &uses) {
    sortSamples();
    deal(patterns, uses);
    size_t groups = 0;
    for (size_t p = 0; p < patterns.size(); ++p)
      groups += uses[p];
    result.grouping.samples.reserve(items.size());
    result.grouping.offsets.reserve(groups + 1);
    result.tiles.reserve(groups);
    result.tokens.reserve(groups);
    size_t share = 0;
    for (size_t p = 0; p < patterns.size(); ++p) {
      size_t slots = 0;
      for (auto [type, times] : patterns[p])
        slots += slotsOf(type, times);
      if (uses[p] > 0)
        expand({shares.begin() + share, shares.begin() + share + slots}, uses[p]);
      share += slots;
    }
    return std::move(result);
  }

private:
  /// `items` becomes (tokens, sample), type after type, each ascending by tokens, equal ones in
  /// random order.
  void sortSamples() {
    const std::vector<Cell> &cells = histogram.cells();
    std::vector<uint32_t> order(cells.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      if (types.typeOf[a] != types.typeOf[b])
        return types.typeOf[a] < types.typeOf[b];
      return cells[a].tokens != cells[b].tokens ? cells[a].tokens < cells[b].tokens : a < b;
    });
    std::vector<uint32_t> cursor(cells.size());
    typeBegin.assign(types.types.size() + 1, 0);
    size_t at = 0;
    for (uint32_t c : order) {
      cursor[c] = static_cast<uint32_t>(at);
      at += cells[c].count;
      if (types.typeOf[c] != SampleTypes::withoutLoad)
        typeBegin[types.typeOf[c] + 1] = at;
    }
    items.resize(at);
    for (int64_t i = 0; i < lengths.size(); ++i) {
      int32_t tiles = lengths.tiles[i], tokens = lengths.tokens[i];
      if (tiles <= caps.tiles && tokens <= caps.tokens)
        items[cursor[histogram.cellOf(tiles, tokens)]++] =
            keyed(static_cast<uint32_t>(tokens), static_cast<uint32_t>(i));
    }
    for (uint32_t c : order)
      random.shuffle(items.data() + cursor[c] - cells[c].count, cells[c].count);
    for (size_t i = typeBegin.back(); i < items.size(); ++i)
      result.withoutLoad.push_back(static_cast<uint32_t>(items[i]));
    items.resize(typeBegin.back());
    // With few samples of equal length their order alone makes too little difference from epoch
    // to epoch.
    fewEqual = items.size() < 32 * cells.size();
  }

  size_t supplyOf(uint32_t type) const { return typeBegin[type + 1] - typeBegin[type]; }

  /// A pattern may have room for more samples of a type than there are.
  size_t slotsOf(uint32_t type, uint32_t times) const {
    return std::min<size_t>(times, supplyOf(type));
  }

  /// Cuts the samples of each type into the shares of the patterns' slots; what nobody takes is
  /// left over.
  void deal(const std::vector<Pattern> &patterns, const std::vector<int64_t> &uses) {
    std::vector<std::vector<size_t>> takers(types.types.size());
    for (size_t p = 0; p < patterns.size(); ++p)
      for (auto [type, times] : patterns[p])
        for (size_t k = 0; k < slotsOf(type, times); ++k) {
          takers[type].push_back(shares.size());
          shares.push_back({type, 0, static_cast<size_t>(uses[p]), 0});
        }
    for (uint32_t type = 0; type < takers.size(); ++type) {
      size_t supply = supplyOf(type), demand = 0;
      std::vector<Share> cuts;
      for (size_t s : takers[type]) {
        cuts.push_back(shares[s]);
        cuts.back().got = std::min(shares[s].wanted, supply - demand);
        demand += cuts.back().got;
      }
      cuts.push_back({type, 0, 0, supply - demand});
      split(typeBegin[type], supply, cuts.data(), cuts.size());
      for (size_t k = 0; k < takers[type].size(); ++k)
        shares[takers[type][k]] = cuts[k];
      for (size_t i = 0; i < cuts.back().got; ++i)
        result.leftovers.push_back(static_cast<uint32_t>(items[cuts.back().begin + i]));
    }
  }

  /// Deals items[begin .. begin + n) to the cuts, halving their list: evenly spaced samples go to
  /// the one half, so all get a fair share and stay sorted.
  void split(size_t begin, size_t n, Share *cuts, size_t count) {
    if (count == 1) {
      cuts->begin = begin;
      return;
    }
    size_t half = count / 2, left = 0;
    for (size_t c = 0; c < half; ++c)
      left += cuts[c].got;
    if (left > 0 && left < n)
      separate(begin, n, left);
    split(begin, left, cuts, half);
    split(begin + left, n - left, cuts + half, count - half);
  }

  /// Stable: `left` evenly spaced items first, then the others.
  void separate(size_t begin, size_t n, size_t left) {
    if (scratch.size() < n - left)
      scratch.resize(n - left);
    uint64_t *all = items.data() + begin;
    size_t first = 0, second = 0, phase = random.below(n);
    for (size_t i = 0; i < n; ++i) {
      if (fewEqual && i + 1 < n && (random.next() & 1))
        std::swap(all[i], all[i + 1]);
      phase += left;
      bool toFirst = phase >= n;
      if (toFirst)
        phase -= n;
      if ((toFirst && first < left) || second == n - left)
        all[first++] = all[i];
      else
        scratch[second++] = all[i];
    }
    std::copy_n(scratch.begin(), second, all + first);
  }

  void expand(std::vector<Share> slots, size_t groups) {
    int64_t most = 0;
    for (const Share &slot : slots)
      most += types.types[slot.type].mostTokens;
    members.assign(groups * slots.size(), nobody);
    sums.resize(groups);
    for (size_t g = 0; g < groups; ++g)
      sums[g] = keyed(0, static_cast<uint32_t>(g));
    if (most > caps.tokens)
      compensate(std::move(slots), groups);
    else
      mix(slots);
    for (size_t g = 0; g < groups; ++g)
      emit(members.data() + static_cast<uint32_t>(sums[g]) * slotCount,
           static_cast<uint32_t>(sums[g] >> 32));
  }

  void setColumns(const std::vector<Share> &slots) {
    slotCount = slots.size();
    columnTiles.clear();
    for (const Share &slot : slots)
      columnTiles.push_back(types.types[slot.type].tiles);
  }

  /// Any sample with any other.
  void mix(const std::vector<Share> &slots) {
    setColumns(slots);
    for (size_t s = 0; s < slots.size(); ++s) {
      uint64_t *share = items.data() + slots[s].begin;
      random.shuffle(share, slots[s].got);
      for (size_t g = 0; g < slots[s].got; ++g) {
        members[g * slotCount + s] = static_cast<uint32_t>(share[g]);
        sums[g] += share[g] & ~uint64_t(UINT32_MAX);
      }
    }
  }

  /// The group with the most tokens so far gets the shortest sample, slot after slot; the widest
  /// types first.
  void compensate(std::vector<Share> slots, size_t groups) {
    auto width = [&](const Share &s) {
      return types.types[s.type].mostTokens - types.types[s.type].leastTokens;
    };
    std::sort(slots.begin(), slots.end(), [&](const Share &a, const Share &b) {
      return width(a) != width(b) ? width(a) > width(b) : a.begin < b.begin;
    });
    setColumns(slots);
    for (size_t s = 0; s < slots.size(); ++s) {
      if (s > 0)
        sortSums(groups);
      const uint64_t *share = items.data() + slots[s].begin;
      for (size_t g = 0; g < slots[s].got; ++g) {
        uint64_t item = share[slots[s].got - 1 - g];
        members[static_cast<uint32_t>(sums[g]) * slotCount + s] = static_cast<uint32_t>(item);
        sums[g] += item & ~uint64_t(UINT32_MAX);
      }
    }
    exchange(groups);
  }

  /// Groups over the cap change a sample with one of the groups with the most room, so that both
  /// fit.
  void exchange(size_t groups) {
    sortSums(groups);
    size_t roomy = 0;
    for (size_t g = groups; g-- > 0 && tokensOf(g) > caps.tokens;)
      for (size_t other = roomy; other < std::min(roomy + tries, g); ++other) {
        if (tokensOf(g) + tokensOf(other) > 2 * int64_t(caps.tokens))
          return;
        if (!exchange(g, other))
          continue;
        if (other == roomy)
          ++roomy;
        break;
      }
  }

  bool exchange(size_t over, size_t under) {
    uint32_t *from = members.data() + static_cast<uint32_t>(sums[over]) * slotCount;
    uint32_t *to = members.data() + static_cast<uint32_t>(sums[under]) * slotCount;
    int64_t excess = tokensOf(over) - caps.tokens, room = caps.tokens - tokensOf(under);
    size_t chosen = slotCount;
    int64_t least = 0;
    for (size_t s = 0; s < slotCount; ++s) {
      if (from[s] == nobody || to[s] == nobody)
        continue;
      int64_t moved = int64_t(lengths.tokens[from[s]]) - lengths.tokens[to[s]];
      if (moved >= excess && moved <= room && (chosen == slotCount || moved < least)) {
        chosen = s;
        least = moved;
      }
    }
    if (chosen == slotCount)
      return false;
    std::swap(from[chosen], to[chosen]);
    sums[over] -= static_cast<uint64_t>(least) << 32;
    sums[under] += static_cast<uint64_t>(least) << 32;
    return true;
  }

  int64_t tokensOf(size_t g) const { return static_cast<int64_t>(sums[g] >> 32); }

  void sortSums(size_t groups) {
    if (groups < 256)
      std::sort(sums.begin(), sums.begin() + groups);
    else
      radixSort(sums.data(), groups, scratch);
  }

  /// Adds a group; takes samples out of it until it fits.
  void emit(uint32_t *member, uint32_t tokens) {
    bool opened = false;
    while (tokens > static_cast<uint32_t>(caps.tokens)) {
      opened = true;
      tokens -= removeFor(member, tokens - caps.tokens);
    }
    uint32_t tiles = 0;
    size_t before = result.grouping.samples.size();
    for (size_t s = 0; s < slotCount; ++s) {
      if (member[s] == nobody)
        continue;
      tiles += types.exactTiles ? columnTiles[s] : lengths.tiles[member[s]];
      result.grouping.samples.push_back(member[s]);
    }
    if (result.grouping.samples.size() == before)
      return;
    if (opened)
      result.open.push_back(static_cast<uint32_t>(result.grouping.groups()));
    result.grouping.close();
    result.tiles.push_back(tiles);
    result.tokens.push_back(tokens);
  }

  /// Leaves the shortest sample over that has `excess` tokens, else the longest; returns its
  /// tokens.
  uint32_t removeFor(uint32_t *member, uint32_t excess) {
    size_t chosen = slotCount;
    for (size_t s = 0; s < slotCount; ++s) {
      if (member[s] == nobody)
        continue;
      uint32_t tokens = lengths.tokens[member[s]];
      uint32_t best = chosen < slotCount ? lengths.tokens[member[chosen]] : 0;
      if (chosen == slotCount ||
          (best < excess ? tokens > best : tokens >= excess && tokens < best))
        chosen = s;
    }
    uint32_t sample = member[chosen];
    member[chosen] = nobody;
    result.leftovers.push_back(sample);
    return lengths.tokens[sample];
  }

  const SampleLengths &lengths;
  Caps caps;
  const Histogram &histogram;
  const SampleTypes &types;
  Random random;
  bool fewEqual = false;
  std::vector<uint64_t> items, scratch;
  std::vector<size_t> typeBegin;
  std::vector<Share> shares; ///< pattern after pattern, slot after slot
  size_t slotCount = 0;
  std::vector<uint32_t> columnTiles; ///< of a slot's type
  std::vector<uint32_t> members;     ///< [groups][slots] of one pattern
  std::vector<uint64_t> sums;        ///< (tokens, group) of one pattern
  Expansion result;
};

} // namespace

Expansion expandPatterns(const SampleLengths &lengths, Caps caps, const Histogram &histogram,
                         const SampleTypes &types, const std::vector<Pattern> &patterns,
                         const std::vector<int64_t> &uses, Random random) {
  return Expander(lengths, caps, histogram, types, random).run(patterns, uses);
}

} // namespace omnibal::rt
