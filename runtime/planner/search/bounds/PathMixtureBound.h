//===- PathMixtureBound.h - A bound for given action lists and any cuts ----------------------===//
//
// The step is the longest path through the actions. A mixture of paths, each with a share, is never
// longer than that, whatever the cuts; and its length is a sum over the chunks of
//
//     (times that the mixture passes the chunk's F, I, W) x (time of F, I, W)
//
// so that dynamic programming finds the cuts for which it is shortest: a bound on the step of every
// plan. The longest path under those cuts is then mixed in with a growing memory of the earlier
// ones (fictitious play of a game between paths and cuts), and so on.
//
// Paths follow a stage's list from action to action, go up from F of a chunk to F of the next one,
// and down from B or I of a chunk to that of the one before. Where a frozen front gives no gradient
// back, a path ends there. So that this can be said chunk by chunk, paths go down only after they
// went up for the last time.
//
// Layers that nothing feeds (an embedding behind the vision part, say) stand next to the chain. A
// chunk of such layers alone breaks it, and the caller's other bounds take care of cuts with such a
// chunk.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PLANNER_SEARCH_BOUNDS_PATHMIXTUREBOUND_H
#define RUNTIME_PLANNER_SEARCH_BOUNDS_PATHMIXTUREBOUND_H

#include "runtime/planner/model/SearchControl.h"
#include "runtime/planner/remat/RematChoices.h"
#include "runtime/planner/search/orders/ActionOrder.h"

namespace omnibal::planner {

class PathMixtureBound {
public:
  /// Makes the bound; `remat` has the choices of each chunk by itself.
  PathMixtureBound(const PlanningModel &model, const ActionOrder &order, RematChoices &remat,
                   SearchControl &control);

  /// False if some layer is fed, but not by the layer before it: then there is no bound.
  bool usable() const { return chained; }
  /// True if some chunk can be a source alone.
  bool hasSources() const { return !sources.empty(); }
  const std::vector<int64_t> &sourceLayers() const { return sources; }
  bool hasSourcesFrom(int64_t layer) const { return hasSources() && sources.back() >= layer; }

  struct Answer {
    int64_t bound = 0;         ///< of all cuts whose chunks stay below the limit
    std::vector<int64_t> cuts; ///< that reach it; empty: there are none
  };
  /// Returns the cuts under which the mixture is shortest, among those where no stage is busy
  /// longer than `limit` with one of its chunks, including what it waits for first.
  Answer respond(int64_t limit);
  /// Mixes in the longest path under these cuts, with this share.
  void learn(const std::vector<int64_t> &cuts, double share);

  /// Returns, for searches, what the mixture says at least about layers [begin, ..) as chunks
  /// `chunk` ..., and about layers [begin, end) as `chunk`; call it after respond().
  double rest(int64_t chunk, int64_t begin) const { return least[chunk][begin]; }
  double costOf(int64_t chunk, int64_t begin, int64_t end);
  bool isAllowed(int64_t chunk, int64_t begin, int64_t end, int64_t limit);
  bool isLoneSource(int64_t begin, int64_t end) const;

  /// Transfer between the layers before and after a cut, at least, by load.
  struct Joint {
    bool returns = false;
    std::vector<int64_t> there, back;
  };
  const Joint &jointAt(int64_t boundary) const { return joints[boundary]; }
  /// Recomputation by load that no choice of the chunk goes below; empty: nothing fits.
  std::vector<int64_t> recomputeOf(int64_t chunk, int64_t begin, int64_t end);

private:
  /// How often paths pass what; the index is [chunk * loads + load]. The second kind is what comes
  /// after a path's first step down, where the two are distinguished.
  struct Passes {
    std::vector<double> forward[2], inputGrad[2], weightGrad[2], up, down;
    std::vector<double> reduction; ///< by stage
    void resize(size_t size, size_t stages);
    void blend(const Passes &other, double share);
  };
  void findJoints();
  void linkActions();
  Passes longestWay(const std::vector<int64_t> &cuts);
  void sumCosts();
  bool returnsAt(int64_t boundary) const { return boundary > lastSilent; }

  const PlanningModel &model;
  const ActionOrder &order;
  RematChoices &remat;
  SearchControl &control;
  bool chained = true;
  int64_t lastSilent = 0; ///< the last boundary over which no gradient returns; 0: none
  std::vector<int64_t> sources;
  std::vector<Joint> joints;      ///< by the layer after the cut
  std::vector<int64_t> chain;     ///< by layer: forward of the first micro-batch up to it
  std::vector<int64_t> chainBack; ///< by layer: input gradients of the last one before it
  /// For each chunk and load, W after the chunk's last I or B.
  std::vector<std::vector<int64_t>> trailing;
  std::vector<int32_t> onStage, above, below; ///< by place: the ones before it; -1: none
  std::vector<char> isLast;                   ///< by place: its stage's last action
  bool mixed = false;
  Passes mixture;
  std::vector<std::vector<double>> sums[2]; ///< by chunk, prefix sums by layer, of either kind
  std::vector<std::vector<double>> least;   ///< by chunk and first layer
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_BOUNDS_PATHMIXTUREBOUND_H
