//===- ListMaker.h - Lists of a step's actions, made in the order of time ---------------------===//
#ifndef RUNTIME_PLANNER_STEP_LISTMAKER_H
#define RUNTIME_PLANNER_STEP_LISTMAKER_H

#include "runtime/planner/step/StepMemory.h"

namespace omnibal::planner {

/// What a stage that is free runs next.
struct StepPolicy {
  enum class Phase : uint8_t { BackwardFirst, InTurn, ForwardFirst };
  enum class Forwards : uint8_t {
    Microbatch, ///< in the order of micro-batches
    Depth,      ///< the deepest chunk first
    Rounds,     ///< as many micro-batches as stages through one chunk, then through the next
  };
  enum class Backwards : uint8_t { Microbatch, LongestWay };

  Phase phase = Phase::BackwardFirst;
  Forwards forwards = Forwards::Microbatch;
  Backwards backwards = Backwards::Microbatch;
  bool isSplit = true; ///< weight gradients wait for gaps
  int32_t window = 0;  ///< micro-batches under way at most
  int32_t overlap = 0; ///< a weight gradient may delay what comes by so many 16ths of itself
  uint8_t level = 0;   ///< the fattest variant that is tried
  /// Keeps room for the input gradient of any unit; else backwards are whole where it has none.
  bool keepsRoomForSplit = true;
};

struct TimedLists {
  StepLists lists;
  int64_t stepNs = 0;
};

/// Makes lists for one step. A stage that is free runs what the policy prefers among its ready
/// forwards and backwards, else a weight gradient that fits the gap, else it waits. With limits it
/// always keeps room for the leanest form of all micro-batches that have begun anywhere, so lists
/// in the natural order of micro-batches finish.
class ListMaker {
public:
  /// `limits`: bytes by stage; empty: no limit.
  ListMaker(const StepUnits &units, const std::vector<UnitBytes> &bytes,
            std::vector<int64_t> limits);

  /// Lists for a policy when micro-batches enter in `order`. None where memory lets them not
  /// finish. The result is valid until the next call.
  const TimedLists *make(const StepPolicy &policy, const std::vector<int32_t> &order);

private:
  struct Arrival {
    int64_t at = 0;
    int32_t unit = 0;
    bool isForward = false;
  };
  struct Stage {
    std::vector<Arrival> coming;  ///< forwards and backwards whose inputs are known
    std::vector<int32_t> weights; ///< weight gradients that wait, where they may run in any order
    int64_t busyUntil = 0, wake = 0;
    int64_t reserved = 0; ///< bytes held, and the leanest form of what has begun
    bool wasForward = false;
  };
  /// The best ready arrivals of a stage (places in `coming`, or -1), and when the next one comes.
  struct Choice {
    int32_t forward = -1, backward = -1;
    int64_t next = 0;
  };

  void begin();
  void admit(int64_t now);
  bool hasRoomFor(int32_t microbatch) const;
  void decide(int32_t stage, int64_t now);
  Choice look(const Stage &stage, int64_t now) const;
  int32_t weightFor(const Stage &stage, int32_t number, int64_t gap) const;
  bool isWeightReady(int32_t stage) const;
  void take(Stage &stage, int32_t place);
  bool runForward(int32_t stage, int32_t place, int64_t now, bool mayFree);
  bool runBackward(int32_t stage, int32_t place, int64_t now);
  void runWeight(int32_t stage, int32_t unit, int64_t now);
  void start(int32_t stage, ActionKind kind, int32_t unit, int64_t now);
  void arrive(int32_t unit, bool isForward, int64_t at);
  void inputDone(int32_t unit, int64_t at);
  void setKeys(const std::vector<int32_t> &order);

  bool isLimited() const { return !limits.empty(); }
  const UnitBytes &bytesOf(int32_t unit, int32_t variant) const {
    return bytes[units.indexOf(unit, variant)];
  }
  const UnitBytes &leanest(int32_t unit) const {
    return bytesOf(unit, units.units[unit].variants - 1);
  }
  bool isTurn(int32_t unit) const { return !ascending || turns[units.units[unit].chunk] == unit; }

  const StepUnits &units;
  const std::vector<UnitBytes> &bytes;
  const std::vector<int64_t> limits;
  const bool ascending;
  std::vector<std::vector<int32_t>> chunksOf; ///< by stage
  std::vector<std::vector<int32_t>> unitsOfMicrobatch;
  std::vector<int64_t> tails; ///< by unit: way from its input gradient on

  StepPolicy policy;
  std::vector<int32_t> order;
  TimedLists made;
  std::vector<Stage> stages;
  std::vector<int64_t> transients;                ///< by stage: most of any unit at the level
  std::vector<int64_t> forwardKeys, backwardKeys; ///< by unit: the least runs first
  std::vector<int32_t> missingForward, missingBackward;
  std::vector<int64_t> readyForward, readyBackward;
  std::vector<uint8_t> hasInputGrad;  ///< by unit: its weight gradient may run
  std::vector<int32_t> turns;         ///< by chunk: whose weight gradient is next
  std::vector<int32_t> backwardsLeft; ///< by micro-batch
  size_t admitted = 0, finished = 0, left = 0;
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_STEP_LISTMAKER_H
