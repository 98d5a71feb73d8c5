//===- ModeRows.h - The rows of one mode, and how they form steps ---------------------------===//
#ifndef RUNTIME_BATCHING_LENGTHS_MODEROWS_H
#define RUNTIME_BATCHING_LENGTHS_MODEROWS_H

#include "runtime/batching/lengths/LengthGroups.h"
#include "runtime/batching/rows/Grouping.h"
#include "runtime/batching/rows/Random.h"

namespace omnibal::rt {

/// Groups of samples in rows: groups k * ranks to k * ranks + ranks - 1 are row k. Only the last
/// row has empty groups.
struct ModeRows {
  std::vector<std::vector<uint32_t>> groups;
  int64_t filled = 0; ///< samples from shorter modes
};

/// Numbers of rows, step after step.
using ModeSteps = std::vector<std::vector<uint32_t>>;

/// Deals rows to steps that look alike, and orders the steps so that neighbors differ in mean
/// length. With several stages rows of like cost share a step, because its dearest row counts for
/// every stage. Only the last step is short. `exact`: the least time, whatever steps look like.
ModeSteps formSteps(const SampleLengths &lengths, const LengthGroup &group, int32_t stages,
                    const ModeRows &rows, bool exact, Random random);

/// The first steps of epoch 0: so many of the shortest modes alone.
struct Curriculum {
  int64_t steps = 0;
  int32_t modes = 1;
};

/// Merges the steps of all modes, so that any stretch has each in its share.
GroupedEpoch mergeSteps(const LengthGroups &groups, std::vector<ModeRows> &rows,
                        const std::vector<ModeSteps> &steps, const Curriculum &curriculum);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_LENGTHS_MODEROWS_H
