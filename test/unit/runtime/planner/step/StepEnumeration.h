//===- StepEnumeration.h - The shortest step of all lists, by looking at every one -----------===//
//
// Lists are built action by action. Two ways to the same set of finished actions differ only in
// when the stages are free and when inputs arrive; of two, one that is later in all of these is
// dropped. That is exact, and feasible for about nine units.
//
//===----------------------------------------------------------------------------------------===//
#ifndef TEST_UNIT_RUNTIME_PLANNER_STEP_STEPENUMERATION_H
#define TEST_UNIT_RUNTIME_PLANNER_STEP_STEPENUMERATION_H

#include "runtime/planner/step/StepMemory.h"
#include <algorithm>
#include <map>
#include <optional>

namespace omnibal::planner {

class StepEnumeration {
public:
  /// Limits count bytes in phases: messages beyond their actions and gaps between blocks are free.
  explicit StepEnumeration(const StepUnits &units) : units(units), bytes(unitBytes(units)) {}

  /// The shortest step, or none where no lists fit the memory.
  std::optional<int64_t> shortest() {
    State start;
    start.phases.assign(units.units.size(), {Phase::Waiting, 0});
    start.ready.assign(units.units.size() + units.model.problem.stages, 0);
    // Every action raises the sum of phases, so states in this order have all their ways in.
    std::map<Key, std::vector<Times>> states;
    states[keyOf(start.phases)] = {start.ready};
    std::optional<int64_t> best;
    while (!states.empty()) {
      auto first = states.begin();
      for (const Times &ready : first->second) {
        State state{first->first.second, ready};
        if (isFinished(state)) {
          int64_t end = *std::max_element(ready.begin() + units.units.size(), ready.end());
          best = best ? std::min(*best, end) : end;
          continue;
        }
        extend(state, states);
      }
      states.erase(first);
    }
    return best;
  }

private:
  enum class Phase : uint8_t { Waiting, Forwarded, Halved, Finished };
  using Phases = std::vector<std::pair<Phase, uint8_t>>; ///< by unit: its phase and variant
  /// When the next action of every unit may start at the earliest; then when every stage is free.
  using Times = std::vector<int64_t>;
  using Key = std::pair<int, Phases>;
  struct State {
    Phases phases;
    Times ready;
  };

  static Key keyOf(const Phases &phases) {
    int sum = 0;
    for (const auto &[phase, variant] : phases)
      sum += static_cast<int>(phase);
    return {sum, phases};
  }
  static bool isFinished(const State &state) {
    return std::all_of(state.phases.begin(), state.phases.end(),
                       [](const auto &unit) { return unit.first == Phase::Finished; });
  }

  void extend(const State &state, std::map<Key, std::vector<Times>> &states) {
    for (size_t u = 0; u < state.phases.size(); ++u) {
      auto unit = static_cast<int32_t>(u);
      auto [phase, variant] = state.phases[u];
      switch (phase) {
      case Phase::Waiting:
        for (uint8_t v = 0; v < units.units[u].variants; ++v)
          append(state, ActionKind::Forward, unit, v, states);
        break;
      case Phase::Forwarded:
        append(state, ActionKind::Backward, unit, variant, states);
        append(state, ActionKind::InputGrad, unit, variant, states);
        break;
      case Phase::Halved:
        append(state, ActionKind::WeightGrad, unit, variant, states);
        break;
      case Phase::Finished:
        break;
      }
    }
  }

  void append(const State &state, ActionKind kind, int32_t unit, uint8_t variant,
              std::map<Key, std::vector<Times>> &states) {
    if (!hasInputs(state, kind, unit) || !isTurn(state, kind, unit) ||
        !hasRoom(state, kind, unit, variant))
      return;
    State next = state;
    int64_t &clock = next.ready[units.units.size() + units.units[unit].stage];
    int64_t end = std::max(clock, state.ready[unit]) + units.duration(unit, variant, kind);
    clock = end;
    bool forward = kind == ActionKind::Forward;
    bool whole = kind == ActionKind::Backward || kind == ActionKind::WeightGrad;
    next.phases[unit] = {forward ? Phase::Forwarded
                         : whole ? Phase::Finished
                                 : Phase::Halved,
                         whole ? uint8_t{0} : variant};
    next.ready[unit] = end;
    if (forward)
      for (const Need &fed : units.forwardFeeds(unit))
        delay(next, fed, end);
    else if (kind != ActionKind::WeightGrad)
      for (const Need &fed : units.backwardFeeds(unit))
        delay(next, fed, end);
    // An action cannot start before its stage is free, so smaller times say nothing.
    for (size_t u = 0; u < next.phases.size(); ++u)
      next.ready[u] =
          next.phases[u].first == Phase::Finished
              ? 0
              : std::max(next.ready[u], next.ready[units.units.size() + units.units[u].stage]);
    keep(states[keyOf(next.phases)], next.ready);
  }

  static void delay(State &state, const Need &fed, int64_t end) {
    state.ready[fed.unit] = std::max(state.ready[fed.unit], end + fed.delayNs);
  }

  static void keep(std::vector<Times> &kept, const Times &times) {
    auto isNoLater = [](const Times &a, const Times &b) {
      return std::equal(a.begin(), a.end(), b.begin(), [](int64_t x, int64_t y) { return x <= y; });
    };
    for (const Times &other : kept)
      if (isNoLater(other, times))
        return;
    std::erase_if(kept, [&](const Times &other) { return isNoLater(times, other); });
    kept.push_back(times);
  }

  bool hasInputs(const State &state, ActionKind kind, int32_t unit) const {
    auto all = [&](std::span<const Need> needs, Phase least) {
      return std::all_of(needs.begin(), needs.end(),
                         [&](const Need &need) { return state.phases[need.unit].first >= least; });
    };
    if (kind == ActionKind::Forward)
      return all(units.forwardNeeds(unit), Phase::Forwarded);
    return kind == ActionKind::WeightGrad || all(units.backwardNeeds(unit), Phase::Halved);
  }

  bool isTurn(const State &state, ActionKind kind, int32_t unit) const {
    bool adds = kind == ActionKind::Backward || kind == ActionKind::WeightGrad;
    if (!adds || !units.model.problem.ascendingWeightGradients)
      return true;
    for (int32_t other = units.unitsOf(units.units[unit].chunk, 0).first; other < unit; ++other)
      if (state.phases[other].first != Phase::Finished)
        return false;
    return true;
  }

  bool hasRoom(const State &state, ActionKind kind, int32_t unit, uint8_t variant) const {
    int32_t stage = units.units[unit].stage;
    int64_t held = 0;
    for (size_t u = 0; u < state.phases.size(); ++u) {
      auto [phase, other] = state.phases[u];
      if (static_cast<int32_t>(u) == unit || units.units[u].stage != stage)
        continue;
      const UnitBytes &own = bytes[units.indexOf(static_cast<int32_t>(u), other)];
      held += phase == Phase::Forwarded ? own.held : phase == Phase::Halved ? own.split : 0;
    }
    const UnitBytes &own = bytes[units.indexOf(unit, variant)];
    int64_t during[] = {own.duringForward, own.duringBackward, own.duringInputGrad, own.split};
    return held + during[static_cast<size_t>(kind)] <= units.model.problem.memoryOf(stage);
  }

  const StepUnits &units;
  const std::vector<UnitBytes> bytes;
};

} // namespace omnibal::planner
#endif // TEST_UNIT_RUNTIME_PLANNER_STEP_STEPENUMERATION_H
