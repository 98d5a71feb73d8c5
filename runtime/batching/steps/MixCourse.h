//===- MixCourse.h - A mix of data sets whose weights change with the steps of a run ----------===//
//
// Where weights change at a step, the epoch that would hold the step ends before it, and with the
// step the next epoch begins, drawn with the new weights:
//
//   steps    0 1 2 3 4 5 6 | 7 8 9 ~ ~ ~ ~
//   epochs   0               1     2           a change at step 10 ends epoch 1
//
// The steps before a change are those of a run without it. What the ended epoch had drawn but no
// step took (~) comes first in the epochs that follow, so no sample is lost or used twice.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BATCHING_STEPS_MIXCOURSE_H
#define RUNTIME_BATCHING_STEPS_MIXCOURSE_H

#include "runtime/batching/io/BatchesFolder.h"
#include "runtime/batching/io/MixAt.h"
#include "runtime/batching/steps/StepSource.h"
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace omnibal::rt {

/// Epochs in a row that are drawn with the same weights. The stretches before a step say all that
/// later epochs need to know of these changes.
struct MixStretch {
  static constexpr int64_t allRows = std::numeric_limits<int64_t>::max();
  int64_t epoch = 0;           ///< the first of them
  int64_t rows = allRows;      ///< of the epoch before it that steps took
  std::vector<double> weights; ///< empty: those that the folder says, by epoch
  bool operator==(const MixStretch &) const = default;
};

/// Shared by the ranks of a process, whose readers meet the changes in the same epochs.
class MixCourse {
public:
  explicit MixCourse(std::shared_ptr<const Composition> composition);

  const Mix &mix() const { return composition->mix; }

  /// Says what a run has met before it begins in the epoch `start`, and from which steps of the
  /// list on there will be other weights, in order, none before the first step of that epoch.
  /// `first` are the groups of epoch 0. All ranks of a process call it alike, each before it reads;
  /// the first call counts.
  void begin(std::vector<MixStretch> met, std::vector<WeightsFrom> coming, DataPosition start,
             const Batches &first);

  /// Where the epoch ends, by its groups before step `past`: there, or at an earlier change.
  int64_t endOf(DataPosition epoch, int64_t past, const Batches &groups, int64_t rowsPerStep);
  /// Whether epoch 0 is another one than the folder's.
  bool changesFirst() const;
  /// The groups of an epoch, all changes before which have been met.
  Result<Batches> compose(int64_t epoch) const;
  /// What an epoch depends on.
  std::vector<MixStretch> metUntil(int64_t epoch) const;

private:
  /// Where the data sets stand when a stretch begins, found when it is first asked for.
  struct Known : MixStretch {
    std::shared_future<Result<MixStart>> start;
  };
  static Result<Mix> mixOf(const Composition &composition, const Known *stretch);
  void add(MixStretch stretch, std::optional<std::vector<int64_t>> untrained);

  std::shared_ptr<const Composition> composition;
  mutable std::mutex mutex;
  bool begun = false;
  std::vector<WeightsFrom> changes; ///< by steps of the list
  std::vector<Known> stretches;     ///< in the order of their epochs
};

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_STEPS_MIXCOURSE_H
