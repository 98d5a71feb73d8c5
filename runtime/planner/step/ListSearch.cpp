//===- ListSearch.cpp --------------------------------------------------------------------===//
#include "runtime/planner/step/ListSearch.h"
#include "runtime/planner/step/FirstLists.h"
#include "runtime/planner/step/ListPolish.h"
#include <algorithm>
#include <numeric>
#include <random>

namespace omnibal::planner {
namespace {

uint64_t seedOf(const StepLoads &loads) {
  uint64_t seed = 0x9E3779B97F4A7C15u;
  auto add = [&](int64_t value) {
    seed = (seed ^ static_cast<uint64_t>(value)) * 0x100000001B3u;
    seed ^= seed >> 29;
  };
  for (const MicrobatchLoad &microbatch : loads.microbatches)
    for (int64_t value : {microbatch.load.tiles, microbatch.load.tokens, microbatch.load.squares,
                          microbatch.load.labels})
      add(value);
  return seed;
}

/// A weight gradient right behind its input gradient is a whole backward where that is no longer,
/// and where what waits for the input gradient starts after both anyway: so nothing starts later.
class HalvesJoined {
public:
  HalvesJoined(const StepUnits &units, StepLists &lists)
      : units(units), lists(lists), places(listPlaces(units, lists)),
        starts(timesOf(units, lists)->starts) {}

  void run() {
    std::vector<std::vector<UnitAction>> joined;
    for (size_t s = 0; s < lists.actions.size(); ++s) {
      const std::vector<UnitAction> &list = lists.actions[s];
      joined.emplace_back();
      for (size_t i = 0; i < list.size(); ++i) {
        UnitAction action = list[i];
        if (i + 1 < list.size() && mayJoin(action, list[i + 1], starts[s][i])) {
          action.kind = ActionKind::Backward;
          ++i;
        }
        joined.back().push_back(action);
      }
    }
    lists.actions = std::move(joined);
  }

private:
  int64_t time(ActionKind kind, int32_t unit) const {
    return units.duration(unit, lists.variants[unit], kind);
  }

  bool mayJoin(const UnitAction &input, const UnitAction &weight, int64_t start) const {
    if (input.kind != ActionKind::InputGrad || weight.kind != ActionKind::WeightGrad ||
        input.unit != weight.unit)
      return false;
    const int64_t whole = time(ActionKind::Backward, input.unit);
    if (whole > time(ActionKind::InputGrad, input.unit) + time(ActionKind::WeightGrad, input.unit))
      return false;
    return std::ranges::all_of(units.backwardFeeds(input.unit), [&](const Need &fed) {
      return starts[units.units[fed.unit].stage][places[fed.unit].backward] >=
             start + whole + fed.delayNs;
    });
  }

  const StepUnits &units;
  StepLists &lists;
  const std::vector<ListPlaces> places;
  const std::vector<std::vector<int64_t>> starts;
};

class LocalSearch {
public:
  explicit LocalSearch(const ListSearchTask &task)
      : task(task), problem(task.model.problem), choices(task.model, task.loads, task.maySplit),
        random(seedOf(task.loads)) {
    natural.resize(task.loads.microbatches.size());
    std::iota(natural.begin(), natural.end(), 0);
    whole.assign(natural.size(), 1);
  }

  ListSearchResult run() {
    if (task.start)
      consider(*task.start);
    if (!best.split) {
      tryFirst();
      trySplits();
    }
    while (!isSpent() && best.split)
      move();
    if (best.split) {
      HalvesJoined(best.split->units, best.lists).run();
      int64_t rest = task.polishes ? task.mostActions - actions : 0;
      best.stepNs =
          polish(best.split->units, best.split->bytes, task.limits, rest, random, best.lists);
    }
    return {best.split ? std::optional(std::move(best)) : std::nullopt, evaluated};
  }

private:
  bool isSpent() const { return evaluated >= task.mostLists || actions >= task.mostActions; }

  /// Makes the candidate's list and keeps it where it is not longer than the best one.
  void consider(ListCandidate candidate) {
    if (isSpent() && best.split)
      return;
    std::shared_ptr<SplitUnits> split = unitsFor(candidate.splits);
    const TimedLists *made = split->maker.make(candidate.policy, candidate.order);
    ++evaluated;
    actions += 3 * static_cast<int64_t>(split->units.units.size());
    if (!made || made->stepNs > best.stepNs)
      return;
    best = {std::move(candidate), std::move(split), made->lists, made->stepNs};
  }

  std::shared_ptr<SplitUnits> unitsFor(const std::vector<int32_t> &splits) {
    if (best.split && splits == best.candidate.splits)
      return best.split;
    if (latest && splits == latestSplits)
      return latest;
    latestSplits = splits;
    latest = std::make_shared<SplitUnits>(task, choices.borders(splits));
    return latest;
  }

  void tryFirst() {
    const std::vector<FirstList> first = firstLists(problem, !task.limits.empty());
    for (bool keepsRoomForSplit : {true, false})
      for (const FirstList &each : first) {
        if (best.split && !keepsRoomForSplit)
          return;
        ListCandidate candidate{each.policy, entryOrder(each.order, task.loads, choices), whole};
        candidate.policy.keepsRoomForSplit = keepsRoomForSplit;
        consider(std::move(candidate));
      }
    if (!best.split)
      consider({leanestPolicy(), natural, whole});
  }

  /// Micro-batches in order and in their leanest form: what finishes in the least memory.
  StepPolicy leanestPolicy() const {
    StepPolicy policy;
    policy.window = static_cast<int32_t>(natural.size());
    policy.keepsRoomForSplit = false;
    policy.level = static_cast<uint8_t>(mostVariants(problem) - 1);
    return policy;
  }

  /// All micro-batches in sub-micro-batches of a largest size.
  void trySplits() {
    if (!best.split)
      return;
    const std::vector<FirstList> ofParts =
        task.limits.empty() ? firstListsOfParts(problem) : std::vector<FirstList>();
    for (int64_t size : choices.sizes()) {
      ListCandidate candidate = best.candidate;
      for (size_t m = 0; m < candidate.splits.size(); ++m)
        candidate.splits[m] = choices.partsOfSize(static_cast<int32_t>(m), size);
      consider(candidate);
      for (const FirstList &each : ofParts) {
        candidate.policy = each.policy;
        candidate.order = entryOrder(each.order, task.loads, choices);
        consider(candidate);
      }
    }
  }

  size_t below(size_t count) { return static_cast<size_t>(random() % count); }

  /// A random change of the best candidate.
  void move() {
    ListCandidate candidate = best.candidate;
    switch (below(choices.isPossible() ? 8 : 6)) {
    case 0:
    case 1:
      std::swap(candidate.order[below(candidate.order.size())],
                candidate.order[below(candidate.order.size())]);
      break;
    case 2:
    case 3: {
      size_t from = below(candidate.order.size()), to = below(candidate.order.size());
      int32_t moved = candidate.order[from];
      candidate.order.erase(candidate.order.begin() + static_cast<std::ptrdiff_t>(from));
      candidate.order.insert(candidate.order.begin() + static_cast<std::ptrdiff_t>(to), moved);
      break;
    }
    case 4:
    case 5:
      changePolicy(candidate.policy);
      break;
    default:
      changeSplits(candidate.splits);
    }
    consider(std::move(candidate));
  }

  void changePolicy(StepPolicy &policy) {
    auto most = static_cast<size_t>(problem.microbatches);
    switch (below(task.limits.empty() ? 6 : 7)) {
    case 0:
      policy.phase = static_cast<StepPolicy::Phase>(below(3));
      break;
    case 1:
      policy.forwards = static_cast<StepPolicy::Forwards>(below(3));
      break;
    case 2:
      policy.backwards = static_cast<StepPolicy::Backwards>(below(2));
      break;
    case 3:
      policy.window = static_cast<int32_t>(1 + below(most));
      break;
    case 4:
      policy.overlap = static_cast<int32_t>(below(17));
      break;
    case 5:
      policy.isSplit = below(4) != 0;
      break;
    default:
      policy.level = static_cast<uint8_t>(below(mostVariants(problem)));
    }
  }

  void changeSplits(std::vector<int32_t> &splits) {
    if (below(4) == 0) {
      int64_t size = choices.sizes()[below(choices.sizes().size())];
      for (size_t m = 0; m < splits.size(); ++m)
        splits[m] = choices.partsOfSize(static_cast<int32_t>(m), size);
      return;
    }
    size_t m = below(splits.size());
    splits[m] = 1 + static_cast<int32_t>(below(static_cast<size_t>(problem.mostParts)));
    splits[m] = std::min(splits[m], choices.mostPartsOf(static_cast<int32_t>(m)));
  }

  const ListSearchTask &task;
  const StepProblem &problem;
  const SplitChoices choices;
  std::mt19937_64 random;
  std::vector<int32_t> natural, whole;
  std::shared_ptr<SplitUnits> latest;
  std::vector<int32_t> latestSplits;
  FoundLists best;
  int64_t evaluated = 0, actions = 0;
};

} // namespace

ListSearchResult searchLists(const ListSearchTask &task) { return LocalSearch(task).run(); }

} // namespace omnibal::planner
