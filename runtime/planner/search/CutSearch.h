//===- CutSearch.h - Cuts and rematerialization under gpipe or 1f1b -------------------------===//
#ifndef RUNTIME_PLANNER_SEARCH_CUTSEARCH_H
#define RUNTIME_PLANNER_SEARCH_CUTSEARCH_H

#include "runtime/planner/model/SearchControl.h"
#include "runtime/planner/remat/RematChoices.h"
#include "runtime/planner/search/orders/FixedOrder.h"

namespace omnibal::planner {

/// Searches schedules with one chunk per stage.
///
/// The bound follows from paths through the schedule that every plan contains, such as: to stage s,
/// all of its work, and back. Bisection finds the least step that none of them exceeds, over a
/// dynamic program on (stage, first layer) that carries the shortest such paths (Front). The search
/// goes depth first from the first stage. It enters only what the same dynamic program, run from
/// the last stage, can complete below the best plan so far, and what the timed prefix does not rule
/// out; complete plans are timed exactly. When it ends, the best plan is optimal.
class CutSearch {
public:
  CutSearch(const PlanningModel &model, SearchControl &control);

  /// Runs the search. Returns false if nothing was found: nothing fits the memory, unless the
  /// control is exhausted. `quick` leaves out the search for a proof.
  bool run(bool quick = false);

  int64_t bestStep() const { return best; }
  int64_t lowerBound() const { return bound; }
  const std::vector<int64_t> &bestCuts() const { return bestPlan.cuts; }
  /// Returns the option number of every layer.
  std::vector<int> bestOptions();

private:
  /// Layers [begin, end) as one stage with one choice. The numbers are sums over micro-batches;
  /// `ahead` counts forwards before the first backward.
  struct Stage {
    int64_t begin = 0, end = 0;
    const RematChoice *choice = nullptr;
    int64_t work = 0; ///< all forwards and backwards
    int64_t firstForward = 0, lastForward = 0, firstBackward = 0, lastBackward = 0;
    int64_t rising = 0;                       ///< all before the last forward ends
    int64_t falling = 0;                      ///< all after the first backward ends
    int64_t turnUp = 0;                       ///< the last forward and all after it
    int64_t turnDown = 0;                     ///< all up to the first backward and that
    int64_t forwards = 0, laterBackwards = 0; ///< all forwards; all backwards but the first
    int64_t reduction = 0;
  };
  /// What joins a stage to the next one, as far as the next stage's first layer tells (or its
  /// second one, if the first is a source such as an embedding, which nothing feeds).
  struct Joint {
    bool feeds = false, returns = false;
    int64_t firstThere = 0, lastThere = 0, firstBack = 0, lastBack = 0; ///< by micro-batch
  };
  /// The longest paths that are known when stages 0 .. s - 1 are, up to stage s's input. Each
  /// except `fill` and `last` includes the way back from stage s to the end of an earlier stage.
  struct PathLabel {
    int64_t fill = 0; ///< first micro-batch
    int64_t last = 0; ///< last micro-batch
    int64_t span = 0; ///< first micro-batch, and back with the last one
    int64_t up = 0;   ///< last micro-batch, and back
    int64_t down = 0; ///< first micro-batch, and back through all the rest of an earlier stage
    int64_t both = 0; ///< last micro-batch, and all backwards of an earlier stage (gpipe)

    static PathLabel all(int64_t value) { return {value, value, value, value, value, value}; }
    void lower(const PathLabel &other);
    void raise(const PathLabel &other);
    bool within(const PathLabel &room) const;
    int64_t size() const { return span + up + down + both; }
  };
  struct Candidate {
    std::vector<int64_t> cuts;
    std::vector<const RematChoice *> choices; ///< by stage
  };

  void sumLayers();
  void measureChain();
  Stage stageOf(int64_t index, int64_t begin, int64_t end, const RematChoice &choice) const;
  template <typename Visit> void forEachJointEdge(int64_t begin, int64_t end, Visit visit) const;
  Joint jointAt(int64_t begin, int64_t end) const;
  std::pair<int64_t, int64_t> jointNs(int64_t begin, int64_t end, int load) const;
  bool isLoneSource(int64_t begin, int64_t end) const;
  bool isLoneSource(const Stage &stage) const { return isLoneSource(stage.begin, stage.end); }
  PathLabel after(const PathLabel &front, const Stage &stage) const;
  bool holds(const PathLabel &front, const Stage &stage, int64_t limit) const;
  PathLabel roomBefore(const PathLabel &room, const Stage &stage, int64_t limit) const;
  template <typename Visit>
  bool forEachStage(int64_t index, int64_t begin, int64_t limit, int64_t span, Visit visit);

  Candidate relaxed(int64_t limit);
  void prepareCompletion(int64_t limit);
  void findBound();
  bool search(int64_t target, int64_t units);
  bool descend(int64_t index, int64_t begin, const PathLabel &front);
  void setTimes(const Candidate &candidate);
  int64_t exactStep(const Candidate &candidate);
  int64_t prefixStep(const Candidate &prefix);
  void consider(const Candidate &candidate);
  bool chooseBest(Candidate &candidate);
  void improve(Candidate candidate);

  const PlanningModel &model;
  SearchControl &control;
  std::unique_ptr<RematChoices> remat;
  FixedOrder order;
  StageTimes times;
  int64_t best = unreachable, bound = 0;
  Candidate bestPlan, path;
  int64_t target = 0;          ///< what a plan must not exceed to be of interest
  int64_t completionLimit = 0; ///< what `completion` was made for
  /// For each stage and first layer, the least front that any cuts reach, each part by itself, and
  /// the largest with which the rest can still stay below a limit.
  std::vector<std::vector<PathLabel>> least, completion;
  std::vector<std::vector<int64_t>> chainNs;     ///< by load, layer: from it to the end and back
  std::vector<std::vector<int64_t>> cheapestCut; ///< by load, layer: least transfer of a later cut
  /// Micro-batches by stage and load: among the first `ahead + 1`, and among the last.
  std::vector<std::vector<int64_t>> countEarly, countLate;
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_CUTSEARCH_H
