//===- ModeTimes.h - What a training mode takes, for any load -------------------------------===//
//
// A training mode (runtime/batching/lengths/LengthGroups.h) has a planning problem of its own, at
// its caps. Under given cuts and recomputation its stages take times that are affine in tiles,
// tokens and squared sample lengths, of which the five numbers of a mode are made.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PLANNER_LENGTHS_MODETIMES_H
#define RUNTIME_PLANNER_LENGTHS_MODETIMES_H

#include "runtime/batching/lengths/LengthGroups.h"
#include "runtime/planner/model/Problem.h"

namespace omnibal::planner {

/// Tiles, tokens and squared sample lengths of a micro-batch, or sums of them.
struct ModeLoad {
  double tiles = 0, tokens = 0, squares = 0;
  void add(double moreTiles, double moreTokens, double moreSquares) {
    tiles += moreTiles;
    tokens += moreTokens;
    squares += moreSquares;
  }
  ModeLoad times(double factor) const {
    return {tiles * factor, tokens * factor, squares * factor};
  }
};

/// Nanoseconds of a micro-batch: fixed + tile V + token N + square S.
struct LoadTime {
  double fixedNs = 0, tileNs = 0, tokenNs = 0, squareNs = 0;
  /// Without the fixed term.
  double variable(const ModeLoad &load) const {
    return tileNs * load.tiles + tokenNs * load.tokens + squareNs * load.squares;
  }
  double of(const ModeLoad &load) const { return fixedNs + variable(load); }
  LoadTime &operator+=(const LoadTime &more) {
    fixedNs += more.fixedNs;
    tileNs += more.tileNs;
    tokenNs += more.tokenNs;
    squareNs += more.squareNs;
    return *this;
  }
};

/// The mean of so many full groups as these samples make.
ModeLoad meanGroup(const rt::LengthGroup &group, const ModeLoad &samples);

/// Of a layer under one of its options; the backward with what the option recomputes.
struct OptionTime {
  LoadTime forward, backward;
};

/// A mode as the planner sees it. Its schedule is gpipe or 1f1b.
struct ModeProblem {
  Problem problem;                            ///< of a typical micro-batch, memory at the caps
  ModeLoad full;                              ///< the load at the caps
  std::vector<std::vector<OptionTime>> times; ///< by layer and option of the problem
  double actionNs = 0;                        ///< of a forward or a backward besides its layers
};

/// What each stage takes for a micro-batch, forward and backward.
std::vector<LoadTime> stageTimes(const ModeProblem &mode, const std::vector<int64_t> &cuts,
                                 const std::vector<int> &options);

/// The least that a layer takes under any of its options, term by term, forward and backward.
LoadTime leastTime(const std::vector<OptionTime> &options);

/// What an option takes beyond that; no term is below 0.
LoadTime beyondLeast(const std::vector<OptionTime> &options, size_t option);

/// The stage that takes longest for the load.
size_t slowestStage(const std::vector<LoadTime> &stages, const ModeLoad &load);

/// By how much a step of equal micro-batches of this load is longer than microbatches + stages - 1
/// times the slowest stage's time: messages and the reduction of gradients. At least 0.
double stepOverheadNs(const ModeProblem &mode, const std::vector<int64_t> &cuts,
                      const std::vector<int> &options, const ModeLoad &load);

/// A problem whose equal micro-batches have this load, under this choice of options.
Problem problemAt(const ModeProblem &mode, const std::vector<int64_t> &cuts,
                  const std::vector<int> &options, const ModeLoad &load);

/// The mode's numbers: those of the stage that is slowest under the load.
rt::ModeCost modeCost(const ModeProblem &mode, const std::vector<int64_t> &cuts,
                      const std::vector<int> &options, const ModeLoad &load);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_LENGTHS_MODETIMES_H
