//===- ListSearch.cpp --------------------------------------------------------------------===//
#include "runtime/planner/step/ListSearch.h"
#include "runtime/planner/step/ListPolish.h"
#include "runtime/planner/step/SplitChoices.h"
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

/// A weight gradient right behind its input gradient is a whole backward where that is no longer.
void joinHalves(const StepUnits &units, StepLists &lists) {
  for (std::vector<UnitAction> &list : lists.actions) {
    size_t kept = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      UnitAction action = list[i];
      auto time = [&](ActionKind kind) {
        return units.duration(action.unit, lists.variants[action.unit], kind);
      };
      if (action.kind == ActionKind::InputGrad && i + 1 < list.size() &&
          list[i + 1].unit == action.unit &&
          time(ActionKind::Backward) <=
              time(ActionKind::InputGrad) + time(ActionKind::WeightGrad)) {
        action.kind = ActionKind::Backward;
        ++i;
      }
      list[kept++] = action;
    }
    list.resize(kept);
  }
}

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
      tryPolicies();
      tryOrders();
      trySplits();
    }
    while (!isSpent() && best.split)
      move();
    if (best.split) {
      joinHalves(best.split->units, best.lists);
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

  void tryPolicies() {
    for (const StepPolicy &policy : firstPolicies(problem, !task.limits.empty()))
      consider({policy, natural, whole});
    if (best.split)
      return;
    for (StepPolicy policy : firstPolicies(problem, !task.limits.empty())) {
      policy.keepsRoomForSplit = false;
      consider({policy, natural, whole});
    }
  }

  /// Orders of entering micro-batches, under the best policy so far.
  void tryOrders() {
    auto work = [&](int32_t m) { return choices.workOf(m); };
    auto tiles = [&](int32_t m) { return task.loads.microbatches[m].load.tiles; };
    auto by = [&](auto key, bool descending) {
      std::vector<int32_t> order = natural;
      std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return descending ? key(b) < key(a) : key(a) < key(b);
      });
      considerOrder(std::move(order));
    };
    if (!best.split)
      considerOrder(natural);
    by(work, false);
    by(work, true);
    by(tiles, false);
    by(tiles, true);
    // Small ones first and last, so that the pipeline fills and drains fast.
    std::vector<int32_t> sorted = natural, ends(natural.size());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](int32_t a, int32_t b) { return work(a) < work(b); });
    size_t front = 0, back = ends.size();
    for (size_t i = 0; i < sorted.size(); ++i)
      (i % 2 == 0 ? ends[front++] : ends[--back]) = sorted[i];
    considerOrder(ends);
    std::rotate(sorted.begin(), sorted.begin() + 1, sorted.end());
    considerOrder(std::move(sorted));
  }

  void considerOrder(std::vector<int32_t> order) {
    consider({best.split ? best.candidate.policy : leanestPolicy(), std::move(order), whole});
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
    for (int64_t size : choices.sizes()) {
      ListCandidate candidate = best.candidate;
      for (size_t m = 0; m < candidate.splits.size(); ++m)
        candidate.splits[m] = choices.partsOfSize(static_cast<int32_t>(m), size);
      consider(std::move(candidate));
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

std::vector<StepPolicy> firstPolicies(const StepProblem &problem, bool isLimited) {
  using enum StepPolicy::Phase;
  using Forwards = StepPolicy::Forwards;
  using Backwards = StepPolicy::Backwards;
  int64_t all = problem.microbatches, stages = problem.stages;
  auto policy = [&](StepPolicy::Phase phase, Forwards forwards, Backwards backwards,
                    int64_t window) {
    StepPolicy policy{phase, forwards, backwards};
    policy.window = static_cast<int32_t>(std::min(window, all));
    policy.overlap = 8;
    return policy;
  };
  if (isLimited) {
    std::vector<StepPolicy> policies;
    const auto third = static_cast<uint8_t>(std::max<size_t>(1, mostVariants(problem) / 3));
    for (uint8_t level : {uint8_t{0}, third, static_cast<uint8_t>(2 * third)})
      for (int64_t window : {stages + 1, 2 * stages, all})
        for (Forwards forwards : {Forwards::Rounds, Forwards::Depth}) {
          policies.push_back(policy(BackwardFirst, forwards, Backwards::Microbatch, window));
          policies.back().level = level;
        }
    return policies;
  }
  return {policy(BackwardFirst, Forwards::Rounds, Backwards::Microbatch, all),
          policy(BackwardFirst, Forwards::Depth, Backwards::Microbatch, all),
          policy(BackwardFirst, Forwards::Microbatch, Backwards::LongestWay, all),
          policy(InTurn, Forwards::Rounds, Backwards::Microbatch, all),
          policy(InTurn, Forwards::Microbatch, Backwards::Microbatch, all),
          policy(BackwardFirst, Forwards::Microbatch, Backwards::Microbatch, 2 * stages),
          policy(ForwardFirst, Forwards::Microbatch, Backwards::LongestWay, 2 * stages)};
}

ListSearchResult searchLists(const ListSearchTask &task) { return LocalSearch(task).run(); }

} // namespace omnibal::planner
