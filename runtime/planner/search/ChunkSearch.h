//===- ChunkSearch.h - Cuts and rematerialization under any action lists ---------------------===//
#ifndef RUNTIME_PLANNER_SEARCH_CHUNKSEARCH_H
#define RUNTIME_PLANNER_SEARCH_CHUNKSEARCH_H

#include "runtime/planner/search/FixedSearch.h"
#include "runtime/planner/search/StageChoices.h"
#include "runtime/planner/search/bounds/PathMixtureBound.h"

namespace omnibal::planner {

/// Searches for given action lists, with any number of chunks per stage and split backwards.
///
/// The bound is the game of PathMixtureBound, and the work that some stage must take (WorkBound.h).
/// The search is a local search from the cuts that the game and simple rules find, and then goes
/// depth first over the cuts, entering only what the mixture of paths does not rule out. When that
/// ends, the best plan is optimal.
class ChunkSearch {
public:
  ChunkSearch(const PlanningModel &model, ActionLists lists, SearchControl &control);

  /// Runs the local search alone, from these cuts.
  void improveFrom(const std::vector<int64_t> &cuts);
  /// Runs the search. Returns false if nothing was found: nothing fits, unless the control is
  /// exhausted.
  bool run(Effort effort);

  int64_t bestStep() const { return best; }
  int64_t lowerBound() const { return bound; }
  /// True if every plan was seen or ruled out.
  bool complete() const { return sawAll; }
  const std::vector<int64_t> &bestCuts() const { return bestCutsSoFar; }
  /// Returns the option number of every layer.
  const std::vector<int> &bestOptions() const { return bestOptionsSoFar; }
  const ActionLists &lists() const { return order.lists(); }

private:
  struct Candidate {
    int64_t step = unreachable;
    std::vector<size_t> choice; ///< by stage: number in its answer
  };
  Candidate judge(const std::vector<int64_t> &cuts, bool every);
  int64_t stepOf(const std::vector<int64_t> &cuts, const std::vector<size_t> &choice);
  void tryEvery(const std::vector<int64_t> &cuts, size_t stage, std::vector<size_t> &choice,
                Candidate &found);
  const StageChoices::Answer &choicesOf(int64_t stage, const std::vector<int64_t> &cuts);
  int64_t consider(const std::vector<int64_t> &cuts, bool every);
  void improve(std::vector<int64_t> cuts);
  void play();
  int64_t playWith(PathMixtureBound &with, std::vector<int64_t> cuts, int64_t limit, int64_t enough,
                   bool look, int rounds);
  int64_t boundOfLoneSource(int64_t enough);
  void start();
  void prove(int64_t units);
  bool descend(int64_t chunk, double cost, bool mixed);

  const PlanningModel &model;
  SearchControl &control;
  ActionOrder order;
  std::unique_ptr<RematChoices> alone; ///< of each chunk as if its stage had no other
  StageChoices remat;
  PathMixtureBound game;
  ChunkTimes base, times;
  int64_t best = unreachable, bound = 0;
  int64_t loneBound = 0; ///< of plans where a source is alone in a chunk
  bool sawAll = false, inexact = false;
  std::vector<int64_t> bestCutsSoFar, path;
  std::vector<int> bestOptionsSoFar;
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_CHUNKSEARCH_H
