//===- RematChoices.h - What layers may recompute on a rank, worst choices left out ---------===//
//
// Given cuts and action order, the step never decreases when a duration grows. So of all choices of
// options for the layers of a stage that fit its rank, only those matter that no other one beats in
// the recomputation of every load; with equal micro-batches that is one.
//
//===----------------------------------------------------------------------------------------===//
#ifndef PASSES_PLANNER_REMATCHOICES_H
#define PASSES_PLANNER_REMATCHOICES_H

#include "passes/planner/PlanningModel.h"
#include "passes/planner/SearchControl.h"
#include <memory>

namespace omnibal::planner {

/// Recomputation of a stage by load, in ns.
using RematChoice = std::vector<int64_t>;

class RematChoices {
public:
  virtual ~RematChoices() = default;

  /// What layers [begin, end) may do on `rank` of gpipe or 1f1b; empty if they cannot fit.
  const std::vector<RematChoice> &of(int64_t rank, int64_t begin, int64_t end);
  /// Option numbers of the layers for one of these.
  virtual std::vector<int> options(int64_t rank, int64_t begin, int64_t end,
                                   const RematChoice &choice) = 0;

protected:
  explicit RematChoices(const PlanningModel &model);
  virtual std::vector<RematChoice> find(int64_t rank, int64_t begin, int64_t end) = 0;
  /// Ranks that can hold layers [begin, ..): first and last.
  std::pair<int64_t, int64_t> ranksFrom(int64_t begin) const;

  const PlanningModel &model;

private:
  struct Answer {
    bool asked = false;
    std::vector<RematChoice> choices;
  };
  std::vector<std::vector<std::vector<Answer>>> answers; ///< by rank, begin, length
};

/// For problems with one load, and with several.
std::unique_ptr<RematChoices> makeRematChoices(const PlanningModel &model, SearchControl &control);

/// Bytes by which layers [begin, end) miss the limit of `rank` when they keep as little as they
/// can; 0 or less: they fit.
int64_t missingBytes(const PlanningModel &model, int64_t rank, int64_t begin, int64_t end);

} // namespace omnibal::planner
#endif // PASSES_PLANNER_REMATCHOICES_H
