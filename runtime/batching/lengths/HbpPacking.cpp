#include "runtime/batching/lengths/EpochPacking.h"
#include "runtime/batching/pack/Isf.h"
#include <algorithm>
#include <map>
#include <set>

namespace omnibal::rt {
namespace {

constexpr int missesOfScan = 64;

/// Takes samples of one partition that still fit; those before `next` are taken.
void fillFrom(const SampleLengths &lengths, const LengthGroup &g, std::vector<uint32_t> &partition,
              std::vector<uint32_t> &pack, int64_t &filled) {
  int64_t tiles = 0, tokens = 0;
  for (uint32_t s : pack) {
    tiles += lengths.tiles[s];
    tokens += lengths.tokens[s];
  }
  int misses = 0;
  for (size_t i = partition.size(); i-- > 0 && misses < missesOfScan;) {
    uint32_t s = partition[i];
    if (tiles + lengths.tiles[s] > g.tilesCap || tokens + lengths.tokens[s] > g.tokensCap) {
      ++misses;
      continue;
    }
    tiles += lengths.tiles[s];
    tokens += lengths.tokens[s];
    pack.push_back(s);
    ++filled;
    partition[i] = partition.back(); // which was looked at before
    partition.pop_back();
  }
}

double squaresOf(const SampleLengths &lengths, const std::vector<uint32_t> &pack) {
  double sum = 0;
  for (uint32_t s : pack)
    sum += static_cast<double>(lengths.tokens[s]) * lengths.tokens[s];
  return sum;
}

/// Time of a token when micro-batches are packed naively, full and of the data's mean load.
double tokenTime(const SampleLengths &lengths, const LengthGroup &g, int32_t stages) {
  double tiles = 0, tokens = 0, squares = 0;
  for (int64_t i = 0; i < lengths.size(); ++i) {
    double t = lengths.tokens[i];
    tiles += lengths.tiles[i];
    tokens += t;
    squares += t * t;
  }
  double rows = 1 + (stages - 1) / static_cast<double>(g.microbatches);
  double cost = g.cost.tileNs * tiles + g.cost.tokenNs * tokens + g.cost.squareNs * squares;
  double fixed = rows * g.cost.microbatchNs + g.cost.stepNs / static_cast<double>(g.microbatches);
  return (rows * cost / tokens + fixed / static_cast<double>(g.tokensCap)) / g.ranks;
}

} // namespace

std::vector<ModeRows> hbpRows(const SampleLengths &lengths, const LengthGroups &groups,
                              Random random) {
  std::vector<std::vector<uint32_t>> partitions(groups.groups.size());
  for (int64_t i = 0; i < lengths.size(); ++i)
    for (size_t m = 0; m < partitions.size(); ++m)
      if (groups.groups[m].holds(lengths.tiles[i], lengths.tokens[i])) {
        partitions[m].push_back(static_cast<uint32_t>(i));
        break;
      }
  for (std::vector<uint32_t> &partition : partitions)
    random.shuffle(partition.data(), partition.size());
  std::vector<ModeRows> rows(partitions.size());
  for (size_t m = partitions.size(); m-- > 0;) {
    const LengthGroup &g = groups.groups[m];
    if (partitions[m].empty())
      continue;
    Caps caps{static_cast<int32_t>(g.tilesCap), static_cast<int32_t>(g.tokensCap)};
    Grouping packs = isfGroups(lengths, std::move(partitions[m]), caps, Random(random.next()));
    std::vector<std::pair<double, std::vector<uint32_t>>> sorted;
    for (int64_t p = 0; p < packs.groups(); ++p) {
      std::vector<uint32_t> pack(packs.samples.begin() + packs.offsets[p],
                                 packs.samples.begin() + packs.offsets[p + 1]);
      for (size_t lower = m; lower-- > 0;)
        fillFrom(lengths, g, partitions[lower], pack, rows[m].filled);
      double squares = squaresOf(lengths, pack);
      sorted.emplace_back(squares, std::move(pack));
    }
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto &a, const auto &b) { return a.first > b.first; });
    for (auto &[squares, pack] : sorted)
      rows[m].groups.push_back(std::move(pack));
    while (rows[m].groups.size() % static_cast<size_t>(g.ranks) != 0)
      rows[m].groups.emplace_back();
  }
  return rows;
}

std::vector<int32_t> hbpChoice(const SampleLengths &lengths, const LengthGroups &candidates) {
  const std::vector<LengthGroup> &all = candidates.groups;
  // Of each length the degree that is fastest.
  std::map<int64_t, std::pair<double, int32_t>> fastest;
  for (size_t m = 0; m < all.size(); ++m) {
    double time = tokenTime(lengths, all[m], candidates.stages);
    auto [at, isNew] = fastest.try_emplace(all[m].tokensCap, time, static_cast<int32_t>(m));
    if (!isNew && time < at->second.first)
      at->second = {time, static_cast<int32_t>(m)};
  }
  auto best = std::min_element(fastest.begin(), fastest.end(), [](const auto &a, const auto &b) {
    return a.second.first < b.second.first;
  });
  auto longest = std::prev(fastest.end());
  std::set<int64_t> lengthsTaken = {best->first, longest->first,
                                    best->first / all[best->second.second].degree};
  int64_t local = longest->first / all[longest->second.second].degree;
  if (local >= best->first)
    lengthsTaken.insert(local);
  std::vector<int32_t> chosen;
  for (int64_t length : lengthsTaken)
    if (auto at = fastest.find(length); at != fastest.end())
      chosen.push_back(at->second.second);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

} // namespace omnibal::rt
