//===- TurnBound.h - A bound for split backwards on one chunk a stage ------------------------===//
//
// The ways of CutBounds.cpp for lists whose backwards may have two halves. A way follows one
// stage's list, may go on to a later stage with the last forward, or come back to an earlier one
// with the first input gradient, follows that stage's list, and returns with the last input
// gradient:
//
//     span   F(0) of stages < s, stage s up to its last I, I(M-1) of stages < s
//     up     F(0) to r, stage r up to F(M-1), on to s with F(M-1), stage s up to its last I, back
//     down   F(0) to s, stage s up to I(0), back to r with I(0), stage r up to its last I, back
//
// Each may end at any stage of its way back, with what stands behind the last I there. Unlike a
// mixture of ways (PathMixtureBound.h) they know that layers are whole, since cuts are found stage
// by stage.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PLANNER_SEARCH_BOUNDS_TURNBOUND_H
#define RUNTIME_PLANNER_SEARCH_BOUNDS_TURNBOUND_H

#include "runtime/planner/search/bounds/PathMixtureBound.h"
#include <optional>

namespace omnibal::planner {

class TurnBound {
public:
  /// `game` knows joints and recomputation, and is usable; all outlive this.
  TurnBound(const PlanningModel &model, const ActionOrder &order, PathMixtureBound &game,
            SearchControl &control);

  /// True for one chunk a stage, on the stages in turn, with micro-batches in order everywhere.
  bool usable() const { return isUsable; }

  /// Returns a bound in [low, high] of all plans where no chunk is a source alone, if `low` is one.
  int64_t raise(int64_t low, int64_t high);

private:
  /// How many F, I and W of each load a part of a stage's list has; B is I and W.
  struct Share {
    std::vector<int64_t> forward, inputGrad, weightGrad; ///< by load
  };
  /// The parts of a list; those named `...End` go on to the end of the list.
  struct Parts {
    Share toBack, all;                              ///< up to the last I; everything
    Share rising;                                   ///< up to the last F
    Share turnUp, turnUpEnd;                        ///< from the last F on
    Share turnDown;                                 ///< up to the first I
    Share falling, fallingEnd;                      ///< behind the first I
    Share trailing;                                 ///< behind the last I
    bool isFirstWhole = false, isLastWhole = false; ///< the first and the last backward are B
  };
  /// The times of layers [begin, end) as a stage.
  struct StageWays {
    int64_t begin = 0, end = 0;
    int64_t firstForward = 0, lastForward = 0, firstBack = 0, lastBack = 0;
    int64_t toBack = 0, all = 0, rising = 0, turnUp = 0, turnUpEnd = 0, turnDown = 0;
    int64_t falling = 0, fallingEnd = 0, trailing = 0;
    int64_t reduction = 0;
  };
  /// The longest ways to a stage's input; all but the first two with the way back from there.
  struct Front {
    int64_t fill = 0, last = 0;         ///< with F(0), with F(M-1)
    int64_t span = 0, up = 0, down = 0; ///< with F(0) and I(M-1); F(M-1) and I(M-1); F(0), I(0)
  };

  bool areInOrder() const;
  void measureParts();
  std::optional<StageWays> waysOf(int64_t stage, int64_t begin, int64_t end);
  Front after(const Front &front, const StageWays &stage) const;
  static bool holds(const Front &front, const StageWays &stage, int64_t limit);
  bool isPossible(int64_t limit);

  const PlanningModel &model;
  const ActionOrder &order;
  PathMixtureBound &game;
  SearchControl &control;
  bool isUsable = false;
  std::vector<Parts> parts; ///< by stage
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_BOUNDS_TURNBOUND_H
