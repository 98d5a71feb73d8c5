#include "runtime/batching/lengths/ModeRows.h"
#include <algorithm>
#include <numeric>
#include <tuple>

namespace omnibal::rt {
namespace {

/// Steps of a stratum of cost, where there are several stages.
constexpr size_t stratumSteps = 8;

struct RowFacts {
  double mean = 0; ///< tokens of a sample
  double cost = 0; ///< of the dearest group
  bool hasEmpty = false;
};

std::vector<RowFacts> factsOf(const SampleLengths &lengths, const LengthGroup &g,
                              const ModeRows &rows) {
  std::vector<RowFacts> facts(rows.groups.size() / g.ranks);
  for (size_t r = 0; r < facts.size(); ++r) {
    double tokens = 0, samples = 0;
    for (int32_t k = 0; k < g.ranks; ++k) {
      const std::vector<uint32_t> &group = rows.groups[r * g.ranks + k];
      double cost = 0;
      for (uint32_t s : group) {
        tokens += lengths.tokens[s];
        cost += g.costOf(lengths.tiles[s], lengths.tokens[s]);
      }
      samples += static_cast<double>(group.size());
      facts[r].cost = std::max(facts[r].cost, cost);
      facts[r].hasEmpty |= group.empty();
    }
    facts[r].mean = tokens / std::max(1.0, samples);
  }
  return facts;
}

/// 0 .. n - 1 in the order of their reversed bits, those of `mask` turned over.
std::vector<uint32_t> reversedOrder(size_t n, uint32_t mask) {
  std::vector<uint32_t> order;
  size_t bits = 0;
  while ((size_t(1) << bits) < n)
    ++bits;
  for (uint32_t i = 0; i < size_t(1) << bits; ++i) {
    uint32_t value = 0;
    for (size_t b = 0; b < bits; ++b)
      value |= (i >> b & 1) << (bits - 1 - b);
    value ^= mask & static_cast<uint32_t>((size_t(1) << bits) - 1);
    if (value < n)
      order.push_back(value);
  }
  return order;
}

/// Deals rows [begin, end) of `order`, which are of full steps, in a snake.
void deal(const std::vector<RowFacts> &facts, std::vector<uint32_t> part, size_t perStep,
          ModeSteps &steps) {
  size_t count = part.size() / perStep, first = steps.size();
  std::stable_sort(part.begin(), part.end(),
                   [&](uint32_t a, uint32_t b) { return facts[a].mean < facts[b].mean; });
  steps.resize(first + count);
  for (size_t i = 0; i < part.size(); ++i) {
    size_t lap = i / count, place = i % count;
    steps[first + (lap % 2 == 0 ? place : count - 1 - place)].push_back(part[i]);
  }
}

void orderByMean(const std::vector<RowFacts> &facts, ModeSteps &steps, Random &random) {
  std::vector<std::pair<double, uint32_t>> means;
  for (uint32_t s = 0; s < steps.size(); ++s) {
    double mean = 0;
    for (uint32_t row : steps[s])
      mean += facts[row].mean;
    means.push_back({mean / static_cast<double>(steps[s].size()), s});
  }
  std::sort(means.begin(), means.end());
  ModeSteps ordered;
  for (uint32_t place : reversedOrder(steps.size(), static_cast<uint32_t>(random.next())))
    ordered.push_back(std::move(steps[means[place].second]));
  steps = std::move(ordered);
}

/// A step in the merge.
struct Turn {
  double key = 0;
  size_t mode = 0, step = 0;
};

/// Steps begins[m] .. ends[m] of each mode, evenly.
void merge(const std::vector<size_t> &begins, const std::vector<size_t> &ends,
           std::vector<Turn> &turns) {
  size_t first = turns.size();
  for (size_t m = 0; m < begins.size(); ++m)
    for (size_t q = begins[m]; q < ends[m]; ++q)
      turns.push_back(
          {(static_cast<double>(q - begins[m]) + 0.5) / static_cast<double>(ends[m] - begins[m]), m,
           q});
  std::sort(turns.begin() + static_cast<int64_t>(first), turns.end(),
            [](const Turn &a, const Turn &b) {
              return std::tie(a.key, a.mode) < std::tie(b.key, b.mode);
            });
}

std::vector<Turn> orderOfSteps(const std::vector<ModeSteps> &steps, const Curriculum &curriculum) {
  std::vector<size_t> begins(steps.size(), 0), ends;
  for (const ModeSteps &mode : steps)
    ends.push_back(mode.size());
  std::vector<Turn> turns;
  if (curriculum.steps > 0) {
    std::vector<size_t> shortEnds = ends;
    std::fill(shortEnds.begin() +
                  std::min<int64_t>(curriculum.modes, static_cast<int64_t>(ends.size())),
              shortEnds.end(), 0);
    merge(begins, shortEnds, turns);
    turns.resize(std::min(turns.size(), static_cast<size_t>(curriculum.steps)));
    for (const Turn &turn : turns)
      begins[turn.mode] = std::max(begins[turn.mode], turn.step + 1);
  }
  merge(begins, ends, turns);
  return turns;
}

} // namespace

ModeSteps formSteps(const SampleLengths &lengths, const LengthGroup &group, int32_t stages,
                    const ModeRows &rows, bool exact, Random random) {
  std::vector<RowFacts> facts = factsOf(lengths, group, rows);
  std::vector<uint32_t> order(facts.size());
  std::iota(order.begin(), order.end(), 0u);
  // The row with empty groups comes last, whatever it costs.
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return facts[a].hasEmpty != facts[b].hasEmpty ? facts[b].hasEmpty
                                                  : facts[a].cost > facts[b].cost;
  });
  size_t perStep = static_cast<size_t>(group.microbatches), rest = order.size() % perStep;
  if (rest == 0 && !order.empty() && facts[order.back()].hasEmpty)
    rest = perStep;
  size_t full = order.size() - rest;
  size_t stratum = exact         ? perStep
                   : stages == 1 ? std::max<size_t>(full, 1)
                                 : stratumSteps * perStep;
  ModeSteps steps;
  for (size_t begin = 0; begin < full; begin += stratum)
    deal(facts,
         {order.begin() + static_cast<int64_t>(begin),
          order.begin() + static_cast<int64_t>(std::min(full, begin + stratum))},
         perStep, steps);
  orderByMean(facts, steps, random);
  if (rest > 0)
    steps.emplace_back(order.begin() + static_cast<int64_t>(full), order.end());
  return steps;
}

GroupedEpoch mergeSteps(const LengthGroups &groups, std::vector<ModeRows> &rows,
                        const std::vector<ModeSteps> &steps, const Curriculum &curriculum) {
  GroupedEpoch epoch;
  epoch.curriculumSteps = curriculum.steps;
  int32_t number = 0;
  for (const Turn &turn : orderOfSteps(steps, curriculum)) {
    int32_t ranks = groups.groups[turn.mode].ranks;
    for (uint32_t row : steps[turn.mode][turn.step]) {
      epoch.modeOf.push_back(static_cast<int32_t>(turn.mode));
      epoch.stepOf.push_back(number);
      for (int32_t r = 0; r < ranks; ++r) {
        std::vector<uint32_t> &group = rows[turn.mode].groups[static_cast<size_t>(row) * ranks + r];
        epoch.samples.insert(epoch.samples.end(), group.begin(), group.end());
        epoch.offsets.push_back(static_cast<int64_t>(epoch.samples.size()));
        std::vector<uint32_t>().swap(group);
      }
    }
    ++number;
  }
  for (const ModeRows &mode : rows)
    epoch.filled.push_back(mode.filled);
  return epoch;
}

} // namespace omnibal::rt
