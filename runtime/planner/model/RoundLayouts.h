//===- RoundLayouts.h - Layouts whose chunks go round the stages --------------------------===//
#ifndef RUNTIME_PLANNER_MODEL_ROUNDLAYOUTS_H
#define RUNTIME_PLANNER_MODEL_ROUNDLAYOUTS_H

#include <cstdint>
#include <vector>

namespace omnibal::planner {

/// Chunk c holds layers cuts[c] .. cuts[c+1]-1 on stage stages[c].
struct RoundLayout {
  int64_t visionRounds = 0; ///< rounds with layers of the vision component alone; 0: all are mixed
  int64_t rounds = 0;       ///< the others
  bool wave = false;        ///< every other round runs over the stages in reverse
  std::vector<int64_t> cuts, stages;
};

/// All layouts with up to `mostRounds` rounds of one kind: mixed ones, then those whose vision
/// layers are apart; each in turn and, from two rounds on, in a wave. `work` is that of each layer,
/// the first `vision` of which are of the vision component; cuts level the work of the chunks of a
/// kind.
std::vector<RoundLayout> roundLayouts(const std::vector<int64_t> &work, int64_t vision,
                                      int64_t stages, int64_t mostRounds);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_MODEL_ROUNDLAYOUTS_H
