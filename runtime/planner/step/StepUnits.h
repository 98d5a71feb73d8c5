//===- StepUnits.h - A step's units with their times, blocks and needs ------------------------===//
//
// A unit is what one action computes: a sub-micro-batch in a chunk of the vision component, a
// micro-batch elsewhere. Units are numbered, so that searches index arrays.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PLANNER_STEP_STEPUNITS_H
#define RUNTIME_PLANNER_STEP_STEPUNITS_H

#include "runtime/planner/step/StepPlan.h"
#include <span>

namespace omnibal::planner {

/// A time model with one denominator, for exact sums of int64 terms.
class ExactTime {
public:
  explicit ExactTime(const TimeModel &model);
  /// Rounded up.
  int64_t at(const UnitLoad &load) const;

private:
  __int128 fixed, tile, token, square, label; ///< times divisor
  int64_t divisor = 1;
};

/// What all steps of a problem share.
class StepModel {
public:
  explicit StepModel(const StepProblem &problem);

  const StepProblem &problem;
  std::vector<std::vector<std::array<ExactTime, 4>>> times; ///< [chunk][variant][kind]
  std::vector<std::vector<int32_t>> feeders, fed;           ///< by chunk: edges into and out of it
};

/// Where a micro-batch's sub-micro-batches begin and the last one ends; {} without tiles.
using Borders = std::vector<std::vector<int64_t>>;

/// Whole micro-batches.
Borders wholeMicrobatches(const StepLoads &loads);

/// A unit that must have run before, and what the message takes.
struct Need {
  int32_t unit = 0;
  int64_t delayNs = 0;
};

struct Unit {
  int32_t chunk = 0, microbatch = 0, part = 0, stage = 0;
  int32_t firstVariant = 0; ///< its first place in arrays of all units in all variants
  int32_t variants = 0;
  int64_t tiles = 0;
  int64_t tokens = 0; ///< 0 in vision
};

class StepUnits {
public:
  StepUnits(const StepModel &model, const StepLoads &loads, const Borders &borders);

  const StepModel &model;
  const Borders borders;
  std::vector<Unit> units;
  std::vector<std::array<int64_t, 4>> durations; ///< [indexOf][kind]

  /// Units of a chunk and micro-batch: a range of numbers.
  std::pair<int32_t, int32_t> unitsOf(int64_t chunk, int64_t microbatch) const {
    size_t place = chunk * model.problem.microbatches + microbatch;
    return {firstUnits[place], firstUnits[place + 1]};
  }
  /// Where a unit in one of its variants stands in arrays of all of them: durations, unitBytes().
  size_t indexOf(int32_t unit, int64_t variant) const {
    return static_cast<size_t>(units[unit].firstVariant + variant);
  }
  int64_t duration(int32_t unit, int64_t variant, ActionKind kind) const {
    return durations[indexOf(unit, variant)][static_cast<size_t>(kind)];
  }
  const StepVariant &variantOf(int32_t unit, int64_t variant) const {
    return model.problem.chunks[units[unit].chunk].variants[variant];
  }
  /// Bytes of a block of a unit, aligned.
  int64_t bytesOf(int32_t unit, const Block &block) const;

  /// Units whose forward this unit's forward needs, and the other way round.
  std::span<const Need> forwardNeeds(int32_t unit) const { return of(needs[0], unit); }
  std::span<const Need> forwardFeeds(int32_t unit) const { return of(needs[1], unit); }
  /// Units whose input gradient this unit's backward needs, and the other way round.
  std::span<const Need> backwardNeeds(int32_t unit) const { return of(needs[2], unit); }
  std::span<const Need> backwardFeeds(int32_t unit) const { return of(needs[3], unit); }

  StepAction action(ActionKind kind, int32_t unit) const {
    return {kind, units[unit].microbatch, units[unit].part, units[unit].chunk};
  }
  /// The unit of an action or of a block's place.
  template <typename T> int32_t unitOf(const T &item) const {
    return unitsOf(item.chunk, item.microbatch).first + item.part;
  }

private:
  /// Lists of needs, one a unit, in one array.
  struct NeedLists {
    std::vector<int32_t> begins;
    std::vector<Need> all;
  };
  std::span<const Need> of(const NeedLists &lists, int32_t unit) const {
    return {lists.all.data() + lists.begins[unit], lists.all.data() + lists.begins[unit + 1]};
  }
  void makeUnits(const StepLoads &loads);
  void addUnit(int32_t chunk, int32_t microbatch, int32_t part, const UnitLoad &load);
  void connect();
  template <typename F> void eachLink(F link) const;
  int64_t delayOf(const StepEdge &edge, const SizeModel &size, int32_t sender) const;

  std::vector<int32_t> firstUnits; ///< [chunk * micro-batches + micro-batch], and the end
  std::array<NeedLists, 4> needs;
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_STEP_STEPUNITS_H
