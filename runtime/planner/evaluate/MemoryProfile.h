//===- MemoryProfile.h - What one chunk's action order holds ---------------------------------===//
#ifndef RUNTIME_PLANNER_EVALUATE_MEMORYPROFILE_H
#define RUNTIME_PLANNER_EVALUATE_MEMORYPROFILE_H

#include "runtime/planner/model/Plan.h"
#include "runtime/planner/model/PlanningModel.h"
#include <algorithm>

namespace omnibal::planner {

/// The activations that one chunk of a stage holds at once, at most, as its action list orders its
/// micro-batches (rule 5 of docs/planner.md): saved bytes from F on, split bytes from I to W.
class MemoryProfile {
public:
  /// `actions`: a stage's list; those of `chunk` count.
  MemoryProfile(const PlanningModel &model, const std::vector<Action> &actions, int64_t chunk);

  /// Returns what is held, for a problem with one load.
  __int128 held(int64_t saved, int64_t split) const {
    __int128 most = 0;
    for (const Moment &m : moments)
      most = std::max(most, static_cast<__int128>(saved) * m.saved +
                                static_cast<__int128>(split) * m.split);
    return most;
  }
  /// Returns what is held, with bytes by load.
  int64_t held(const std::vector<int64_t> &saved, const std::vector<int64_t> &split) const;

  /// True if this never holds less than `other`, whatever the bytes (of one load).
  bool covers(const MemoryProfile &other) const {
    return std::all_of(other.moments.begin(), other.moments.end(), [this](const Moment &now) {
      return std::any_of(moments.begin(), moments.end(),
                         [&](const Moment &m) { return m.covers(now); });
    });
  }

private:
  /// Micro-batches that hold their saved and their split bytes.
  struct Moment {
    int64_t saved = 0, split = 0;
    bool covers(const Moment &other) const { return saved >= other.saved && split >= other.split; }
  };
  struct Change {
    ActionKind kind;
    int load;
  };
  std::vector<Moment> moments; ///< those that no other one covers
  std::vector<Change> changes; ///< the chunk's actions, in order
};

/// The profiles of all chunks.
std::vector<MemoryProfile> memoryProfiles(const PlanningModel &model,
                                          const std::vector<int64_t> &chunkStage,
                                          const std::vector<std::vector<Action>> &actions);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_EVALUATE_MEMORYPROFILE_H
