//===- EvenBound.h - What no cuts are faster than -------------------------------------------===//
//
// The slowest stage of any cuts takes at least the mean of the stages, which together do the work
// of all layers and recompute at least what the memory of any cuts allows. With these numbers in
// place of the slowest stage's, the sum of the samples' least times (EpochBound.h) is a bound for
// the relaxed epoch of every cuts.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PLANNER_LENGTHS_EVENBOUND_H
#define RUNTIME_PLANNER_LENGTHS_EVENBOUND_H

#include "runtime/planner/lengths/LengthJudge.h"

namespace omnibal::planner {

/// 0 where no candidate holds some sample whatever the cuts.
double boundOverCuts(const std::vector<rt::Cell> &cells,
                     const std::vector<LengthCandidate> &candidates, int32_t stages);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_LENGTHS_EVENBOUND_H
