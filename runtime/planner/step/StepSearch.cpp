//===- StepSearch.cpp --------------------------------------------------------------------===//
#include "runtime/planner/step/StepSearch.h"
#include "runtime/planner/step/ListMaker.h"
#include "runtime/planner/step/ListPolish.h"
#include "runtime/planner/step/SplitChoices.h"
#include "runtime/planner/step/StepBound.h"
#include "runtime/planner/step/StepPlacement.h"
#include <algorithm>
#include <numeric>
#include <random>

namespace omnibal::planner {
namespace {

/// Shares of the memory, in percent, that lists are made for: places lose some of it.
constexpr int memoryShares[] = {100, 92, 85};

using Policy = StepPolicy;

/// Units of one way to split micro-batches, with what depends on nothing else.
struct SplitUnits {
  SplitUnits(const StepModel &model, const StepLoads &loads, const Borders &borders,
             const std::vector<int64_t> &limits)
      : units(model, loads, borders), bytes(unitBytes(units)), maker(units, bytes, limits) {}

  StepUnits units;
  std::vector<UnitBytes> bytes;
  ListMaker maker;
};

/// What a list is made from.
struct Candidate {
  Policy policy;
  std::vector<int32_t> order;
  std::vector<int32_t> splits; ///< by micro-batch: number of sub-micro-batches wanted
};

struct Found {
  Candidate candidate;
  std::shared_ptr<SplitUnits> split;
  StepLists lists;
  int64_t stepNs = std::numeric_limits<int64_t>::max();
};

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

/// Local search for one set of limits.
class LocalSearch {
public:
  LocalSearch(const StepModel &model, const StepLoads &loads, const StepSearchOptions &options,
              std::vector<int64_t> limits, bool maySplit)
      : model(model), loads(loads), options(options), limits(std::move(limits)),
        choices(model, loads, maySplit), random(seedOf(loads)) {
    natural.resize(loads.microbatches.size());
    std::iota(natural.begin(), natural.end(), 0);
    whole.assign(natural.size(), 1);
  }

  /// The best lists found; none where no list finished.
  std::optional<Found> run() {
    tryPolicies();
    tryOrders();
    trySplits();
    while (!isSpent() && best.split)
      move();
    if (best.split) {
      joinHalves(best.split->units, best.lists);
      best.stepNs = polish(best.split->units, best.split->bytes, limits,
                           options.mostActions - actions, random, best.lists);
    }
    return best.split ? std::optional(std::move(best)) : std::nullopt;
  }

  int64_t evaluated = 0;

private:
  bool isSpent() const { return evaluated >= options.mostLists || actions >= options.mostActions; }

  /// Makes the candidate's list and keeps it where it is not longer than the best one.
  void consider(Candidate candidate) {
    if (isSpent() && best.split)
      return;
    std::shared_ptr<SplitUnits> split = unitsFor(candidate.splits);
    const MadeLists *made = split->maker.make(candidate.policy, candidate.order);
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
    latest = std::make_shared<SplitUnits>(model, loads, choices.borders(splits), limits);
    return latest;
  }

  Policy policyOf(Policy::Phase phase, Policy::Forwards forwards, Policy::Backwards backwards,
                  int64_t window) const {
    Policy policy{phase, forwards, backwards};
    policy.window =
        static_cast<int32_t>(std::clamp<int64_t>(window, 1, model.problem.microbatches));
    policy.overlap = 8;
    return policy;
  }

  void tryPolicies() {
    using enum Policy::Phase;
    using Forwards = Policy::Forwards;
    using Backwards = Policy::Backwards;
    int64_t all = model.problem.microbatches, stages = model.problem.stages;
    for (const Policy &policy :
         {policyOf(BackwardFirst, Forwards::Rounds, Backwards::Microbatch, all),
          policyOf(BackwardFirst, Forwards::Depth, Backwards::Microbatch, all),
          policyOf(BackwardFirst, Forwards::Microbatch, Backwards::LongestWay, all),
          policyOf(InTurn, Forwards::Rounds, Backwards::Microbatch, all),
          policyOf(InTurn, Forwards::Microbatch, Backwards::Microbatch, all),
          policyOf(BackwardFirst, Forwards::Microbatch, Backwards::Microbatch, 2 * stages),
          policyOf(ForwardFirst, Forwards::Microbatch, Backwards::LongestWay, 2 * stages)})
      consider({policy, natural, whole});
  }

  /// Orders of entering micro-batches, under the best policy so far.
  void tryOrders() {
    auto work = [&](int32_t m) { return choices.workOf(m); };
    auto tiles = [&](int32_t m) { return loads.microbatches[m].load.tiles; };
    auto by = [&](auto key, bool descending) {
      std::vector<int32_t> order = natural;
      std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return descending ? key(b) < key(a) : key(a) < key(b);
      });
      considerOrder(std::move(order));
    };
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
    consider({best.split ? best.candidate.policy : Policy(), std::move(order), whole});
  }

  /// All micro-batches in sub-micro-batches of a largest size.
  void trySplits() {
    if (!best.split)
      return;
    for (int64_t size : choices.sizes()) {
      Candidate candidate = best.candidate;
      for (size_t m = 0; m < candidate.splits.size(); ++m)
        candidate.splits[m] = choices.partsOfSize(static_cast<int32_t>(m), size);
      consider(std::move(candidate));
    }
  }

  size_t below(size_t count) { return static_cast<size_t>(random() % count); }

  /// A random change of the best candidate.
  void move() {
    Candidate candidate = best.candidate;
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

  void changePolicy(Policy &policy) {
    auto most = static_cast<size_t>(model.problem.microbatches);
    switch (below(limits.empty() ? 6 : 7)) {
    case 0:
      policy.phase = static_cast<Policy::Phase>(below(3));
      break;
    case 1:
      policy.forwards = static_cast<Policy::Forwards>(below(3));
      break;
    case 2:
      policy.backwards = static_cast<Policy::Backwards>(below(2));
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
      policy.level = static_cast<uint8_t>(below(choices.mostVariants()));
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
    splits[m] = 1 + static_cast<int32_t>(below(static_cast<size_t>(model.problem.mostParts)));
    splits[m] = std::min(splits[m], choices.mostPartsOf(static_cast<int32_t>(m)));
  }

  const StepModel &model;
  const StepLoads &loads;
  const StepSearchOptions &options;
  const std::vector<int64_t> limits; ///< by stage; empty: none
  const SplitChoices choices;
  std::mt19937_64 random;
  std::vector<int32_t> natural, whole;
  std::shared_ptr<SplitUnits> latest;
  std::vector<int32_t> latestSplits;
  Found best;
  int64_t actions = 0;
};

StepPlan described(const StepUnits &units, const StepLists &lists) {
  StepPlan plan;
  const StepProblem &problem = units.model.problem;
  plan.borders = units.borders;
  plan.variants.resize(problem.chunks.size());
  for (std::vector<std::vector<int64_t>> &chunk : plan.variants)
    chunk.resize(problem.microbatches);
  for (size_t u = 0; u < units.units.size(); ++u)
    plan.variants[units.units[u].chunk][units.units[u].microbatch].push_back(lists.variants[u]);
  for (const std::vector<UnitAction> &list : lists.actions) {
    std::vector<StepAction> &stage = plan.actions.emplace_back();
    for (const UnitAction &action : list)
      stage.push_back(units.action(action.kind, action.unit));
  }
  plan.boundNs = stepBound(units);
  return plan;
}

/// The best of several searches, placed.
class PlacedSearch {
public:
  PlacedSearch(const StepModel &model, const StepLoads &loads, const StepSearchOptions &options)
      : model(model), loads(loads), options(options) {}

  std::optional<StepPlan> run() {
    if (model.problem.memoryBytes.empty()) {
      search({}, 1);
    } else {
      for (int percent : memoryShares) {
        std::vector<int64_t> limits;
        for (int64_t s = 0; s < model.problem.stages; ++s)
          limits.push_back(model.problem.memoryOf(s) / 100 * percent);
        search(limits, std::size(memoryShares));
      }
    }
    if (best)
      best->evaluated = evaluated;
    return std::move(best);
  }

  int64_t evaluated = 0;

private:
  void search(const std::vector<int64_t> &limits, int64_t share) {
    StepSearchOptions own = options;
    own.mostActions /= share;
    own.mostLists /= share;
    LocalSearch local(model, loads, own, limits, options.maySplit);
    std::optional<Found> found = local.run();
    evaluated += local.evaluated;
    if (!found)
      return;
    const StepUnits &units = found->split->units;
    if (!limits.empty())
      fatten(units, found->split->bytes, limits, found->lists);
    std::optional<PlacedLists> placed = placeBlocks(units, std::move(found->lists));
    if (!placed || (best && best->stepNs <= placed->times.stepNs))
      return;
    best = described(units, placed->lists);
    best->places = std::move(placed->places);
    best->stepNs = placed->times.stepNs;
    best->method = StepMethod::Lists;
  }

  const StepModel &model;
  const StepLoads &loads;
  const StepSearchOptions &options;
  std::optional<StepPlan> best;
};

} // namespace

StepPlan StepPlanner::plan(const StepLoads &loads) const {
  StepUnits whole(model, loads, wholeMicrobatches(loads));
  StepLists fixed = staticLists(whole);
  std::optional<StepTimes> fixedTimes = timesOf(whole, fixed);
  PlacedSearch search(model, loads, options);
  std::optional<StepPlan> found = search.run();
  StepPlan plan;
  int64_t staticNs = fixedTimes->stepNs;
  if (found && found->stepNs < staticNs) {
    plan = std::move(*found);
  } else {
    plan = described(whole, fixed);
    plan.stepNs = staticNs;
    plan.evaluated = search.evaluated;
  }
  plan.step = loads.step;
  plan.staticNs = staticNs;
  return plan;
}

} // namespace omnibal::planner
