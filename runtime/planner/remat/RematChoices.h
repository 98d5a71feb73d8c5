//===- RematChoices.h - What layers may recompute on a stage, worst choices left out ---------===//
//
// With given cuts and action order, the step never decreases when a duration grows. So of all
// choices of options for the layers of a stage that fit its memory, only those matter that no other
// one beats in the recomputation of every load; with equal micro-batches that is one.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PLANNER_REMAT_REMATCHOICES_H
#define RUNTIME_PLANNER_REMAT_REMATCHOICES_H

#include "runtime/planner/evaluate/MemoryProfile.h"
#include "runtime/planner/model/SearchControl.h"
#include <memory>

namespace omnibal::planner {

/// Recomputation of a stage by load, in ns.
using RematChoice = std::vector<int64_t>;

class RematChoices {
public:
  virtual ~RematChoices() = default;

  /// Returns what layers [begin, end) may do as `chunk` if its stage has no other one; empty if
  /// they cannot fit.
  const std::vector<RematChoice> &of(int64_t chunk, int64_t begin, int64_t end);
  /// Returns the option numbers of the layers for one of these choices.
  virtual std::vector<int> options(int64_t chunk, int64_t begin, int64_t end,
                                   const RematChoice &choice) = 0;

protected:
  RematChoices(const PlanningModel &model, const std::vector<int64_t> &chunkStage,
               const std::vector<std::vector<Action>> &actions);
  virtual std::vector<RematChoice> find(int64_t chunk, int64_t begin, int64_t end) = 0;
  /// Returns the first and last chunk that can hold layers [begin, ..).
  std::pair<int64_t, int64_t> chunksFrom(int64_t begin) const;
  int64_t limitOf(int64_t chunk) const { return model.memoryOf(chunkStage[chunk]); }

  const PlanningModel &model;
  std::vector<int64_t> chunkStage;
  std::vector<MemoryProfile> profiles; ///< by chunk
  bool splits = false;                 ///< some backward is split; only then split bytes count

private:
  struct Answer {
    bool asked = false;
    std::vector<RematChoice> choices;
  };
  std::vector<std::vector<std::vector<Answer>>> answers; ///< by chunk, begin, length
};

/// Makes the choices for problems with one load or with several; `actions` has one list per stage.
std::unique_ptr<RematChoices> makeRematChoices(const PlanningModel &model, SearchControl &control,
                                               const std::vector<int64_t> &chunkStage,
                                               const std::vector<std::vector<Action>> &actions);
/// Makes the choices under the model's own schedule, which must have one chunk per stage.
std::unique_ptr<RematChoices> makeRematChoices(const PlanningModel &model, SearchControl &control);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_REMAT_REMATCHOICES_H
