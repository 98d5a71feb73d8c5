//===- ListPolish.cpp --------------------------------------------------------------------===//
#include "runtime/planner/step/ListPolish.h"
#include "runtime/planner/step/StepBound.h"
#include <algorithm>

namespace omnibal::planner {
namespace {

class Polishing {
public:
  Polishing(const StepUnits &units, const std::vector<UnitBytes> &bytes,
            const std::vector<int64_t> &limits, std::mt19937_64 &random, StepLists &lists)
      : units(units), bytes(bytes), limits(limits), random(random), lists(lists),
        bound(stepBound(units)) {
    stepNs = timesOf(units, lists)->stepNs;
  }

  int64_t run(int64_t mostActions) {
    int64_t cost = 0;
    for (const std::vector<UnitAction> &list : lists.actions)
      cost += static_cast<int64_t>(list.size());
    for (int64_t left = mostActions; left >= cost && stepNs > bound; left -= cost)
      change();
    return stepNs;
  }

private:
  size_t below(size_t count) { return static_cast<size_t>(random() % count); }

  /// Changes one list, and takes it back where it is broken or longer.
  void change() {
    size_t stage = below(lists.actions.size());
    std::vector<UnitAction> &list = lists.actions[stage];
    if (list.size() < 2)
      return;
    before = list;
    size_t at = below(list.size());
    bool changed = below(4) == 0 ? joinOrSplit(list, at) : moveAction(list, at);
    std::optional<StepTimes> times;
    if (changed && isInOrder(list) && hasRoom(stage))
      times = timesOf(units, lists);
    if (times && times->stepNs <= stepNs)
      stepNs = times->stepNs;
    else
      list.swap(before);
  }

  bool moveAction(std::vector<UnitAction> &list, size_t at) {
    size_t to = below(list.size());
    auto from = list.begin() + static_cast<std::ptrdiff_t>(at);
    auto target = list.begin() + static_cast<std::ptrdiff_t>(to);
    if (at < to)
      std::rotate(from, from + 1, target + 1);
    else
      std::rotate(target, from, from + 1);
    return at != to;
  }

  bool joinOrSplit(std::vector<UnitAction> &list, size_t at) {
    UnitAction &action = list[at];
    if (action.kind == ActionKind::Forward)
      return false;
    if (action.kind == ActionKind::Backward) {
      action.kind = ActionKind::InputGrad;
      size_t place = at + 1 + below(list.size() - at);
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(place),
                  {ActionKind::WeightGrad, action.unit});
      return true;
    }
    int32_t unit = action.unit;
    std::erase_if(list, [&](const UnitAction &other) {
      return other.unit == unit && other.kind == ActionKind::WeightGrad;
    });
    for (UnitAction &other : list)
      if (other.unit == unit && other.kind == ActionKind::InputGrad)
        other.kind = ActionKind::Backward;
    return true;
  }

  /// Each unit's forward, backward and weight gradient in this order, and weight gradients as the
  /// problem demands.
  bool isInOrder(const std::vector<UnitAction> &list) {
    phases.assign(units.units.size(), 0);
    turns.assign(units.model.problem.chunks.size(), -1);
    for (const UnitAction &action : list) {
      uint8_t &phase = phases[action.unit];
      uint8_t needed = action.kind == ActionKind::Forward      ? 0
                       : action.kind == ActionKind::WeightGrad ? 2
                                                               : 1;
      if (phase != needed)
        return false;
      phase = static_cast<uint8_t>(needed + 1);
      bool adds = action.kind == ActionKind::Backward || action.kind == ActionKind::WeightGrad;
      int32_t &last = turns[units.units[action.unit].chunk];
      if (adds && units.model.problem.ascendingWeightGradients && action.unit < last)
        return false;
      if (adds)
        last = action.unit;
    }
    return true;
  }

  bool hasRoom(size_t stage) const {
    return limits.empty() || peakBytes(units, bytes, lists, stage) <= limits[stage];
  }

  const StepUnits &units;
  const std::vector<UnitBytes> &bytes;
  const std::vector<int64_t> &limits;
  std::mt19937_64 &random;
  StepLists &lists;
  const int64_t bound;
  int64_t stepNs = 0;
  std::vector<UnitAction> before;
  std::vector<uint8_t> phases;
  std::vector<int32_t> turns;
};

} // namespace

int64_t polish(const StepUnits &units, const std::vector<UnitBytes> &bytes,
               const std::vector<int64_t> &limits, int64_t mostActions, std::mt19937_64 &random,
               StepLists &lists) {
  return Polishing(units, bytes, limits, random, lists).run(mostActions);
}

} // namespace omnibal::planner
