//===- StepSource.h - Which samples each step takes, epoch after epoch ----------------------===//
//
// Row r of an epoch is groups r * D to r * D + D - 1, a micro-batch for each replica. A step takes
// M rows, the epoch's first M, the next M and so on; where the program has several train modes an
// epoch says the mode and the rows of each of its steps, and rows of a mode in which neighboring
// replicas share a micro-batch have as many groups fewer. A step that is short of rows is filled
// with empty groups. The groups lie in flat arrays, shared by the ranks of a process. With a
// `Compose` function every epoch after the first has groups of its own, computed in the background
// while the epoch before it runs; without one the first epoch's groups repeat. An epoch of a mix
// whose weights change ends before its groups do (MixCourse.h).
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BATCHING_STEPS_STEPSOURCE_H
#define RUNTIME_BATCHING_STEPS_STEPSOURCE_H

#include "runtime/batching/Balance.h"
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>

namespace omnibal::rt {

/// An epoch and the step, counted from the start of the run, that it begins with. Epochs differ in
/// length, so a resumed run must be told. Where a run goes on with another number of micro-batches
/// a step, `firstStep` is the first of its steps, and rows of the epoch lie before it.
struct DataPosition {
  int64_t epoch = 0, firstStep = 0;
  int64_t firstRow = 0; ///< of the epoch, that `firstStep` begins with
};

struct EpochGroups {
  EpochGroups() = default;
  EpochGroups(Batches batches) : batches(std::move(batches)) {}

  Batches batches;
  /// Where the program has several train modes: that of each step, and the step's first row, with
  /// an entry more, behind the last step's rows.
  std::vector<int32_t> modes;
  std::vector<int64_t> firstRows;
  /// Likewise the first group, which the source counts.
  std::vector<int64_t> firstGroups;
};

/// Returns the groups of an epoch after the first (1, 2, ...): a deterministic function, the same
/// on all ranks. It is called on a thread of its own.
using Compose = std::function<Result<EpochGroups>(int64_t epoch)>;

class MixCourse;
class StepReader;

class StepSource : public std::enable_shared_from_this<StepSource> {
public:
  struct Layout {
    /// M and D. Epochs that say the rows of each step need no M.
    int64_t microbatches = 1, replicas = 1;
    /// By train mode: how many neighboring replicas share a micro-batch; empty: none do.
    std::vector<int32_t> degrees = {};

    int64_t degreeOf(size_t mode) const { return mode < degrees.size() ? degrees[mode] : 1; }
    /// Groups of a row.
    int64_t ranks(size_t mode) const { return replicas / degreeOf(mode); }
  };
  /// Makes a source. `first` has the groups of epoch 0. `identity` is anything else that decides
  /// what later epochs look like; it is part of the fingerprint. `mix` is there where the epochs
  /// are those of a mix, by which `compose` goes.
  static std::shared_ptr<StepSource> create(EpochGroups first, Layout layout,
                                            Compose compose = nullptr, uint64_t identity = 0,
                                            std::shared_ptr<MixCourse> mix = nullptr);

  /// Steps of the first epoch.
  int64_t steps() const;
  /// Every epoch is like the first one.
  bool repeats() const { return !compose; }
  /// Two sources with the same fingerprint give the same samples in every step (where balance() is
  /// the same function, see StepReader::checksum).
  uint64_t fingerprint() const { return print; }
  /// Null: the epochs are not those of a mix that can be drawn anew.
  MixCourse *mix() const { return course.get(); }
  /// The groups of epoch 0 as they were given.
  const Batches &firstGroups() const;

  /// Returns a reader of the samples of one replica from `start` on; steps from `end` on are not
  /// asked for.
  std::unique_ptr<StepReader> reader(int64_t replica, DataPosition start, int64_t end);

private:
  friend class StepReader;
  struct Epoch;
  StepSource(EpochGroups first, Layout layout, Compose compose, uint64_t identity,
             std::shared_ptr<MixCourse> mix);
  /// Returns the epoch's groups, which may still be being composed; they are composed again if
  /// nobody holds them any more.
  std::shared_ptr<Epoch> epoch(int64_t number);
  /// The step behind the last one of an epoch with these groups.
  int64_t endOf(DataPosition epoch, const EpochGroups &groups) const;

  Layout layout;
  Compose compose;
  std::shared_ptr<MixCourse> course;
  uint64_t print = 0;
  std::shared_ptr<Epoch> first;
  std::mutex mutex;
  std::map<int64_t, std::weak_ptr<Epoch>> later; ///< by number, what some reader holds
};

/// One rank's view: its replica's samples, steps in ascending order. Holds the current epoch and
/// the next one.
class StepReader {
public:
  StepReader(std::shared_ptr<StepSource> source, int64_t replica, DataPosition start, int64_t end);
  ~StepReader();

  /// True if samples() of this step answers without waiting.
  bool ready(int64_t step);
  /// Returns the number of the step's train mode; waits while the epoch is still being composed.
  Result<size_t> mode(int64_t step);
  /// The mean of a step of its epoch of what `ofSamples` says of samples, by their numbers.
  Result<double> meanOfEpoch(int64_t step, std::span<const int32_t> ofSamples);
  /// Returns the sample numbers of a micro-batch, as mode() does.
  Result<std::vector<int64_t>> samples(int64_t step, int64_t microbatch);
  /// Returns the epoch that holds the step, or the next one for the step after an epoch's last.
  /// `step` is one of the last few that were asked for, or the one after them.
  DataPosition position(int64_t step) const;
  /// Returns the checksum of the groups of the epoch that holds the step, which is one of the last
  /// few; waits if they are not composed yet. Ranks compare it, because another build or machine
  /// might compose other groups.
  Result<uint64_t> checksum(int64_t step);

private:
  struct Begin {
    int64_t epoch = 0, firstRow = 0;
    uint64_t checksum = 0; ///< once the groups are known
  };
  /// Makes `current` the epoch that holds the step; returns false if that would mean waiting and
  /// `wait` is false.
  Result<bool> advance(int64_t step, bool wait);
  /// The groups of the step's epoch.
  Result<const EpochGroups *> groupsOf(int64_t step);
  void enter(DataPosition position);

  std::shared_ptr<StepSource> source;
  int64_t replica, end;
  DataPosition at;
  std::shared_ptr<StepSource::Epoch> current, next;
  std::map<int64_t, Begin> begins; ///< by first step, of the last epochs
};

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_STEPS_STEPSOURCE_H
