#include "runtime/batching/pack/GroupPacking.h"
#include "runtime/batching/pack/BestFit.h"
#include "runtime/batching/pack/Isf.h"
#include "runtime/batching/pack/LpPacking.h"
#include "runtime/batching/rows/Rows.h"
#include <algorithm>
#include <numeric>

namespace omnibal::rt {
namespace {

constexpr int64_t mostRounds = 3;
/// Samples times rounds that a comparison with ISF may take.
constexpr int64_t isfWork = int64_t(1) << 25;
/// Groups that left-over samples are tried with, beside those that are known to have room.
constexpr int64_t otherGroups = 1 << 16;

class GroupPacker {
public:
  GroupPacker(const SampleLengths &lengths, Caps caps, int32_t ranks, Random random)
      : lengths(lengths), caps(caps), ranks(ranks), random(random), histogram(lengths, caps) {
    // A cap over the sum of all is none; tables are as large as the caps.
    this->caps = {clamped(caps.tiles, histogram.totalTiles()),
                  clamped(caps.tokens, histogram.totalTokens())};
  }

  LoadedGroups run(Bound &bound) {
    bound = simpleBound(histogram, caps);
    double groups = static_cast<double>(std::max<int64_t>(1, bound.groups));
    weights = {static_cast<double>(histogram.totalTiles()) / groups / caps.tiles / caps.tiles,
               static_cast<double>(histogram.totalTokens()) / groups / caps.tokens / caps.tokens};
    LpPacking first = lpPacking(lengths, caps, histogram, Random(random.next()));
    withoutLoad = std::move(first.expansion.withoutLoad);
    pack(std::move(first.expansion));
    if (inRows(packed.grouping.groups()) > inRows(bound.groups))
      bound = configurationBound(histogram, caps, first.types, first.prices, bound);
    if (inRows(packed.grouping.groups()) > inRows(bound.groups))
      compareWithIsf();
    spreadWithoutLoad();
    return std::move(packed);
  }

private:
  static int32_t clamped(int32_t cap, int64_t total) {
    return static_cast<int32_t>(std::min<int64_t>(cap, std::max<int64_t>(1, total)));
  }
  int64_t inRows(int64_t groups) const { return (groups + ranks - 1) / ranks; }

  /// Keeps the groups that came out as planned and packs the other samples again, by an LP of
  /// their own; what is left in the end is added by best fit.
  void pack(Expansion expansion) {
    std::vector<uint32_t> numbers; // of the round's samples; empty: the same
    auto name = [&](uint32_t sample) { return numbers.empty() ? sample : numbers[sample]; };
    for (int64_t round = 1; round < mostRounds && wantsRound(expansion, numbers); ++round) {
      std::vector<uint32_t> pool = keepFull(expansion, name);
      numbers = std::move(pool);
      SampleLengths rest;
      for (uint32_t sample : numbers) {
        rest.tiles.push_back(lengths.tiles[sample]);
        rest.tokens.push_back(lengths.tokens[sample]);
      }
      expansion = lpPacking(rest, caps, Histogram(rest, caps), Random(random.next())).expansion;
    }
    finish(std::move(expansion), name);
  }

  template <typename Name> void add(const Expansion &from, int64_t group, Name name) {
    for (uint32_t i = from.grouping.offsets[group]; i < from.grouping.offsets[group + 1]; ++i)
      packed.grouping.samples.push_back(name(from.grouping.samples[i]));
    packed.grouping.close();
    packed.tiles.push_back(from.tiles[group]);
    packed.tokens.push_back(from.tokens[group]);
  }

  bool wantsRound(const Expansion &expansion, const std::vector<uint32_t> &numbers) const {
    int64_t left = static_cast<int64_t>(expansion.leftovers.size());
    int64_t samples = numbers.empty() ? histogram.samples() : static_cast<int64_t>(numbers.size());
    return left > 200 && left > histogram.samples() / 1000 && left < samples / 2;
  }

  /// Returns the samples of the other groups and the left-over ones.
  template <typename Name> std::vector<uint32_t> keepFull(const Expansion &expansion, Name name) {
    std::vector<bool> open(expansion.grouping.groups());
    for (uint32_t group : expansion.open)
      open[group] = true;
    std::vector<uint32_t> pool;
    for (int64_t g = 0; g < expansion.grouping.groups(); ++g) {
      if (!open[g]) {
        add(expansion, g, name);
        continue;
      }
      for (uint32_t i = expansion.grouping.offsets[g]; i < expansion.grouping.offsets[g + 1]; ++i)
        pool.push_back(name(expansion.grouping.samples[i]));
    }
    for (uint32_t sample : expansion.leftovers)
      pool.push_back(name(sample));
    return pool;
  }

  template <typename Name> void finish(Expansion expansion, Name name) {
    int64_t before = packed.grouping.groups();
    if (before == 0) {
      packed = {std::move(expansion.grouping), std::move(expansion.tiles),
                std::move(expansion.tokens)};
    } else {
      for (int64_t g = 0; g < expansion.grouping.groups(); ++g)
        add(expansion, g, name);
    }
    std::vector<uint32_t> leftovers;
    for (uint32_t sample : expansion.leftovers)
      leftovers.push_back(name(sample));
    std::vector<uint32_t> open;
    for (uint32_t group : expansion.open)
      open.push_back(static_cast<uint32_t>(before + group));
    int64_t others = std::min(packed.grouping.groups(), otherGroups);
    for (int64_t g = 0; g < others; ++g) // the last ones: those of the last round
      open.push_back(static_cast<uint32_t>(packed.grouping.groups() - 1 - g));
    std::sort(open.begin(), open.end());
    open.erase(std::unique(open.begin(), open.end()), open.end());
    bestFit(lengths, caps, weights, open, std::move(leftovers), packed.grouping, packed.tiles,
            packed.tokens);
  }

  /// Few samples, or ones that fall into groups by themselves, can be packed better by chance.
  void compareWithIsf() {
    IsfOptions options;
    if (histogram.samples() * options.rounds > isfWork)
      return;
    std::vector<uint32_t> samples;
    for (int64_t i = 0; i < lengths.size(); ++i)
      if (lengths.tiles[i] <= caps.tiles && lengths.tokens[i] <= caps.tokens)
        samples.push_back(static_cast<uint32_t>(i));
    Grouping isf = isfGroups(lengths, std::move(samples), caps, isfRandom(), options);
    if (inRows(isf.groups()) < inRows(packed.grouping.groups())) {
      packed = withLoads(lengths, std::move(isf));
      withoutLoad.clear();
    }
  }

  /// Returns what balance() uses for the method ISF, so that the result is the same as there.
  Random isfRandom() const { return start; }

  /// Samples of no tiles and no tokens: the same number for each group.
  void spreadWithoutLoad() {
    if (withoutLoad.empty())
      return;
    int64_t groups = std::max<int64_t>(1, packed.grouping.groups());
    int64_t n = static_cast<int64_t>(withoutLoad.size()), next = 0;
    Grouping result;
    for (int64_t g = 0; g < groups; ++g) {
      if (g < packed.grouping.groups())
        result.samples.insert(result.samples.end(),
                              packed.grouping.samples.begin() + packed.grouping.offsets[g],
                              packed.grouping.samples.begin() + packed.grouping.offsets[g + 1]);
      for (int64_t end = (g + 1) * n / groups; next < end; ++next)
        result.samples.push_back(withoutLoad[next]);
      result.close();
    }
    packed.grouping = std::move(result);
    packed.tiles.resize(groups, 0);
    packed.tokens.resize(groups, 0);
  }

  const SampleLengths &lengths;
  Caps caps;
  int32_t ranks;
  Random random, start = random;
  Histogram histogram;
  LoadWeights weights;
  LoadedGroups packed;
  std::vector<uint32_t> withoutLoad;
};

} // namespace

LoadedGroups planGroups(const SampleLengths &lengths, Caps caps, int32_t ranks, Random random,
                        Bound &bound) {
  return GroupPacker(lengths, caps, ranks, random).run(bound);
}

} // namespace omnibal::rt
