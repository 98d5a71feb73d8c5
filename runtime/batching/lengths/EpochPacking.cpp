#include "runtime/batching/lengths/EpochPacking.h"
#include "runtime/batching/Balance.h"
#include "runtime/batching/lengths/EpochBound.h"
#include "runtime/batching/lengths/EpochJudge.h"
#include "runtime/batching/lengths/SamplePool.h"
#include "runtime/batching/pack/GroupPacking.h"
#include "runtime/batching/rows/Rows.h"
#include "runtime/batching/rows/SplitGroups.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace omnibal::rt {
namespace {

constexpr uint8_t taken = UINT8_MAX;
constexpr int triesOfFit = 32, seedsOfFew = 8, seedsOfFewest = 64;
constexpr int64_t fewestSamples = 8;
/// While a sample fits this share of what is missing, any will do.
constexpr double roomy = 0.75;

SampleLengths partOf(const SampleLengths &lengths, const std::vector<uint32_t> &samples) {
  SampleLengths part;
  part.tiles.reserve(samples.size());
  part.tokens.reserve(samples.size());
  for (uint32_t s : samples) {
    part.tiles.push_back(lengths.tiles[s]);
    part.tokens.push_back(lengths.tokens[s]);
  }
  return part;
}

/// What a group holds while it is filled.
struct Load {
  int64_t tiles = 0, tokens = 0;
  double cost = 0;
};

/// Packs a mode after the other, from the longest one down.
class EpochPacker {
public:
  EpochPacker(const SampleLengths &lengths, const LengthGroups &groups, double theta, double spread,
              Random random)
      : lengths(lengths), groups(groups), theta(theta), spread(spread), random(random),
        hasTiles(std::any_of(lengths.tiles.begin(), lengths.tiles.end(),
                             [](int32_t v) { return v > 0; })) {
    findHomes();
  }

  std::vector<ModeRows> run() {
    std::vector<ModeRows> rows(groups.groups.size());
    for (size_t m = rows.size(); m-- > 0;) {
      std::vector<uint32_t> members = membersOf(static_cast<uint8_t>(m));
      if (members.empty())
        continue;
      mode = static_cast<int32_t>(m);
      rows[m] = pack(members);
      if (m > 0)
        level(rows[m]);
      if (lengths.size() <= fewSamples)
        evenOut(rows[m]);
    }
    return rows;
  }

private:
  /// Moves samples within rows from the dearest group to the cheapest one. With few samples the
  /// fewest groups may be far from equal ones.
  void evenOut(ModeRows &rows) const {
    size_t ranks = static_cast<size_t>(here().ranks);
    for (size_t row = 0; row < rows.groups.size(); row += ranks)
      for (int moves = 0; moves < triesOfFit && moveOne(&rows.groups[row], ranks); ++moves)
        continue;
  }
  bool moveOne(std::vector<uint32_t> *row, size_t ranks) const {
    size_t dear = 0, cheap = 0;
    std::vector<Load> loads;
    for (size_t r = 0; r < ranks; ++r) {
      loads.push_back(loadOf(row[r]));
      dear = loads[r].cost > loads[dear].cost ? r : dear;
      cheap = loads[r].cost < loads[cheap].cost ? r : cheap;
    }
    double gap = loads[dear].cost - loads[cheap].cost, least = gap * (1 - 1e-9);
    size_t best = row[dear].size();
    for (size_t i = 0; i < row[dear].size(); ++i) {
      double cost = here().costOf(lengths.tiles[row[dear][i]], lengths.tokens[row[dear][i]]);
      double left = std::abs(gap - 2 * cost);
      if (cost > 0 && left < least && fits(loads[cheap], row[dear][i], loads[dear].cost)) {
        least = left;
        best = i;
      }
    }
    if (best == row[dear].size())
      return false;
    row[cheap].push_back(row[dear][best]);
    row[dear].erase(row[dear].begin() + static_cast<int64_t>(best));
    return true;
  }

  const LengthGroup &here() const { return groups.groups[mode]; }

  void findHomes() {
    std::vector<SampleTime> times;
    for (const LengthGroup &g : groups.groups)
      times.push_back(sampleTime(g, groups.stages, theta));
    homes.resize(static_cast<size_t>(lengths.size()));
    for (size_t i = 0; i < homes.size(); ++i) {
      double least = std::numeric_limits<double>::infinity();
      for (size_t m = 0; m < times.size(); ++m) {
        if (!groups.groups[m].holds(lengths.tiles[i], lengths.tokens[i]))
          continue;
        double time = times[m].of(lengths.tiles[i], lengths.tokens[i]);
        if (spread > 0)
          time *= 1 + spread * (2 * random.uniform() - 1);
        if (time < least) {
          least = time;
          homes[i] = static_cast<uint8_t>(m);
        }
      }
    }
  }

  std::vector<uint32_t> membersOf(int32_t home) const {
    std::vector<uint32_t> members;
    for (size_t i = 0; i < homes.size(); ++i)
      if (homes[i] == home)
        members.push_back(static_cast<uint32_t>(i));
    return members;
  }

  bool isFirst() const {
    return std::all_of(homes.begin(), homes.end(),
                       [&](uint8_t h) { return h == taken || h == mode; });
  }

  /// Groups of the members, in rows; the last row may have empty groups.
  ModeRows pack(const std::vector<uint32_t> &members) {
    const LengthGroup &g = here();
    SampleLengths part = partOf(lengths, members);
    Caps caps{static_cast<int32_t>(g.tilesCap), static_cast<int32_t>(g.tokensCap)};
    Bound bound{0, "sum"};
    LoadedGroups packed = planGroups(part, caps, g.ranks, Random(random.next()), bound);
    if (isFirst() || spread > 0.4) // nothing is left that could fill the last row
      splitToMultiple(part, g.ranks, caps, packed);
    ModeRows rows;
    for (uint32_t group : rowOrder(part, packed)) {
      rows.groups.emplace_back();
      for (uint32_t i = packed.grouping.offsets[group]; i < packed.grouping.offsets[group + 1];
           ++i) {
        rows.groups.back().push_back(members[packed.grouping.samples[i]]);
        homes[rows.groups.back().back()] = taken;
      }
    }
    while (rows.groups.size() % static_cast<size_t>(g.ranks) != 0)
      rows.groups.emplace_back();
    return rows;
  }

  /// Neighbors in the order are of like cost and, where there are many, of like tiles.
  std::vector<uint32_t> rowOrder(const SampleLengths &part, LoadedGroups &packed) {
    GroupLoads loads{std::move(packed.tiles), std::move(packed.tokens), {}};
    addCosts(part, packed.grouping, here().cost.load(), loads);
    std::vector<uint32_t> order(loads.cost.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return loads.cost[a] > loads.cost[b]; });
    if (!hasTiles || lengths.size() <= fewSamples)
      return order;
    // The cheapest groups stay in the last row, which may have empty groups.
    size_t full = order.size() - order.size() % static_cast<size_t>(here().ranks);
    GroupLoads first;
    for (size_t i = 0; i < full; ++i) {
      first.tiles.push_back(loads.tiles[order[i]]);
      first.tokens.push_back(loads.tokens[order[i]]);
      first.cost.push_back(loads.cost[order[i]]);
    }
    std::vector<uint32_t> rows = formRows(first, here().ranks, Random(random.next())), result;
    for (uint32_t place : rows)
      result.push_back(order[place]);
    result.insert(result.end(), order.begin() + static_cast<int64_t>(full), order.end());
    return result;
  }

  Load loadOf(const std::vector<uint32_t> &group) const {
    Load load;
    for (uint32_t s : group)
      add(load, s);
    return load;
  }
  void add(Load &load, uint32_t s) const {
    load.tiles += lengths.tiles[s];
    load.tokens += lengths.tokens[s];
    load.cost += here().costOf(lengths.tiles[s], lengths.tokens[s]);
  }
  bool fits(const Load &load, uint32_t s, double level) const {
    return load.tiles + lengths.tiles[s] <= here().tilesCap &&
           load.tokens + lengths.tokens[s] <= here().tokensCap &&
           load.cost + here().costOf(lengths.tiles[s], lengths.tokens[s]) <= level;
  }

  /// The level of a row: what its dearest group costs; if a token is cheaper here than at home,
  /// about what the row's fullest groups would cost at the cap.
  double levelOf(const std::vector<Load> &loads, double tokenNs) const {
    double level = 0, atCap = std::numeric_limits<double>::infinity();
    for (const Load &load : loads) {
      level = std::max(level, load.cost);
      atCap = std::min(atCap,
                       load.cost + tokenNs * static_cast<double>(here().tokensCap - load.tokens));
    }
    return cheaperHere(tokenNs) ? std::max(level, atCap) : level;
  }

  /// A token of a mean sample of the shortest mode, in this mode.
  double meanTokenNs() const {
    return here().cost.tokenNs + here().cost.squareNs * meanTokens +
           here().cost.tileNs * meanTiles / meanTokens;
  }
  uint8_t shortest() const {
    uint8_t least = taken;
    for (uint8_t h : homes)
      least = std::min(least, h);
    return least;
  }
  bool cheaperHere(double tokenNs) const {
    if (tokenNs <= 0)
      return false;
    const LengthGroup &home = groups.groups[shortestMode];
    double rows = 1 + (groups.stages - 1) / static_cast<double>(here().microbatches);
    SampleTime time = sampleTime(home, groups.stages, theta);
    double atHome = time.token + time.square * meanTokens + time.tile * meanTiles / meanTokens;
    return tokenNs * rows / here().ranks < atHome;
  }

  /// Fills every group up to its row's level with samples of shorter modes.
  void level(ModeRows &rows) {
    shortestMode = shortest();
    if (shortestMode == taken)
      return;
    findMeans();
    double tokenNs = meanTokenNs(), missing = 0;
    size_t ranks = static_cast<size_t>(here().ranks);
    std::vector<double> levels;
    std::vector<Load> loads(rows.groups.size());
    for (size_t i = 0; i < loads.size(); ++i)
      loads[i] = loadOf(rows.groups[i]);
    for (size_t i = 0; i < loads.size(); i += ranks) {
      levels.push_back(levelOf({loads.begin() + static_cast<int64_t>(i),
                                loads.begin() + static_cast<int64_t>(i + ranks)},
                               tokenNs));
      for (size_t k = i; k < i + ranks; ++k)
        missing += levels.back() - loads[k].cost;
    }
    for (int32_t home = shortestMode; home < mode; ++home) {
      SamplePool pool = poolOf(home, missing);
      for (size_t i = 0; i < loads.size(); ++i)
        fill(pool, levels[i / ranks], loads[i], rows.groups[i], rows.filled);
    }
  }

  void findMeans() {
    double count = 0;
    meanTokens = meanTiles = 0;
    for (size_t i = 0; i < homes.size(); ++i)
      if (homes[i] == shortestMode) {
        meanTokens += lengths.tokens[i];
        meanTiles += lengths.tiles[i];
        ++count;
      }
    meanTokens = std::max(meanTokens / std::max(1.0, count), 1e-9);
    meanTiles /= std::max(1.0, count);
  }

  /// Enough random samples of a home for what is missing, several times over.
  SamplePool poolOf(int32_t home, double missing) {
    std::vector<uint32_t> members = membersOf(home);
    double mean = here().costOf(meanTiles, meanTokens);
    double wanted = 4 * missing / std::max(mean, 1e-9) + 65536;
    if (wanted < static_cast<double>(members.size())) {
      for (size_t i = 0; i < static_cast<size_t>(wanted); ++i)
        std::swap(members[i], members[i + random.below(members.size() - i)]);
      members.resize(static_cast<size_t>(wanted));
    }
    return SamplePool(
        members, [&](uint32_t s) { return here().costOf(lengths.tiles[s], lengths.tokens[s]); });
  }

  void fill(SamplePool &pool, double level, Load &load, std::vector<uint32_t> &group,
            int64_t &filled) {
    auto take = [&](int64_t place) {
      uint32_t s = pool.sample(place);
      pool.take(place);
      add(load, s);
      group.push_back(s);
      homes[s] = taken;
      ++filled;
    };
    while (load.cost < level) {
      int64_t place = pool.draw(random);
      if (place == SamplePool::none ||
          !fits(load, pool.sample(place), load.cost + roomy * (level - load.cost)))
        break;
      take(place);
    }
    for (int tries = 0; load.cost < level && tries < triesOfFit;) {
      int64_t place = pool.dearest(level - load.cost);
      while (place != SamplePool::none && !fits(load, pool.sample(place), level) &&
             tries++ < triesOfFit)
        place = pool.next(place);
      if (place == SamplePool::none || !fits(load, pool.sample(place), level))
        return;
      take(place);
    }
  }

  const SampleLengths &lengths;
  const LengthGroups &groups;
  double theta;
  double spread; ///< homes are of times that are off by up to this share
  Random random;
  bool hasTiles;
  std::vector<uint8_t> homes; ///< of each sample, or `taken`
  int32_t mode = 0;
  uint8_t shortestMode = 0;
  double meanTokens = 0, meanTiles = 0;
};

/// With one mode, rows and their order are those of balance().
Result<GroupedEpoch> packOne(const SampleLengths &lengths, const LengthGroup &g,
                             const EpochOptions &options) {
  BatchOptions o;
  o.tilesCap = g.tilesCap;
  o.tokensCap = g.tokensCap;
  o.ranks = g.ranks;
  o.seed = options.seed;
  o.epoch = options.epoch;
  o.cost = g.cost.load();
  OMNIBAL_ASSIGN_OR_RETURN(Batches batches, balance(lengths, o));
  GroupedEpoch epoch;
  epoch.samples = std::move(batches.samples);
  epoch.offsets = std::move(batches.offsets);
  int64_t rows = epoch.groups() / g.ranks;
  epoch.modeOf.assign(static_cast<size_t>(rows), 0);
  for (int64_t r = 0; r < rows; ++r)
    epoch.stepOf.push_back(static_cast<int32_t>(r / g.microbatches));
  epoch.filled = {0};
  return epoch;
}

Status checkCurriculum(const std::vector<ModeSteps> &steps, const Curriculum &curriculum) {
  int64_t available = 0,
          modes = std::min<int64_t>(curriculum.modes, static_cast<int64_t>(steps.size()));
  for (int64_t m = 0; m < modes; ++m)
    available += static_cast<int64_t>(steps[m].size());
  if (curriculum.steps * 2 <= available)
    return Status::ok();
  return invalid("--curriculum: " + std::to_string(curriculum.steps) +
                 " steps are more than half of the " + std::to_string(available) +
                 " steps of the " + std::to_string(modes) + " shortest length groups; at most " +
                 std::to_string(available / 2) + " are possible");
}

/// The first four attempts take the best homes, the others ever worse ones.
double spreadOf(int attempt) { return attempt < 4 ? 0 : 0.15 * (1 + attempt % 6); }

Result<GroupedEpoch> packOnce(const SampleLengths &lengths, const LengthGroups &groups,
                              const EpochOptions &options, double theta, int attempt) {
  Random random(options.seed, options.epoch, 'l' + 256 * static_cast<uint64_t>(attempt));
  bool few = lengths.size() <= fewSamples;
  std::vector<ModeRows> rows =
      options.hbp
          ? hbpRows(lengths, groups, Random(random.next()))
          : EpochPacker(lengths, groups, theta, spreadOf(attempt), Random(random.next())).run();
  std::vector<ModeSteps> steps;
  for (size_t m = 0; m < rows.size(); ++m)
    steps.push_back(formSteps(lengths, groups.groups[m], groups.stages, rows[m], few || options.hbp,
                              Random(random.next())));
  Curriculum curriculum = options.epoch == 0 ? options.curriculum : Curriculum{};
  OMNIBAL_RETURN_IF_ERROR(checkCurriculum(steps, curriculum));
  return mergeSteps(groups, rows, steps, curriculum);
}

} // namespace

Result<GroupedEpoch> packEpoch(const SampleLengths &lengths, const LengthGroups &groups,
                               const EpochOptions &options) {
  bool few = lengths.size() <= fewSamples,
       curriculum = options.epoch == 0 && options.curriculum.steps > 0;
  if (groups.groups.size() == 1 && !few && !options.hbp && !curriculum)
    return packOne(lengths, groups.groups[0], options);
  double theta = epochBound(countLengths(lengths), groups).theta;
  if (!few || options.hbp)
    return packOnce(lengths, groups, options, theta, 0);
  GroupedEpoch best;
  double least = std::numeric_limits<double>::infinity();
  int attempts = lengths.size() <= fewestSamples ? seedsOfFewest : seedsOfFew;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    OMNIBAL_ASSIGN_OR_RETURN(GroupedEpoch epoch,
                             packOnce(lengths, groups, options, theta, attempt));
    OMNIBAL_ASSIGN_OR_RETURN(EpochFacts facts, judgeEpoch(lengths, groups, epoch));
    if (facts.epochNs < least) {
      least = facts.epochNs;
      best = std::move(epoch);
    }
  }
  return best;
}

} // namespace omnibal::rt
