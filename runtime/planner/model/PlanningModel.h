//===- PlanningModel.h - A problem as arrays for the searches -------------------------------===//
//
// This model holds what the searches read millions of times: loads resolved to integers, prefix
// sums, and the bytes that cross a cut. Micro-batches with equal factors share one load; if there
// is only one load, all micro-batches are alike.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PLANNER_MODEL_PLANNINGMODEL_H
#define RUNTIME_PLANNER_MODEL_PLANNINGMODEL_H

#include "runtime/planner/model/Problem.h"

namespace omnibal::planner {

/// Larger than any time or size of a plan, and safe to add a few times.
constexpr int64_t unreachable = int64_t{1} << 60;

/// Layers and edges as one load makes them: factors applied, each number rounded up by itself.
struct LoadModel {
  std::vector<int64_t> forward, backward;       ///< by layer; backward without recomputation
  std::vector<int64_t> forwardSum, backwardSum; ///< prefix sums, layers + 1
  std::vector<int64_t> inputGradSum;            ///< prefix sums; the rest of backward is weightGrad
  std::vector<std::vector<RematOption>> remat;  ///< by layer
  std::vector<int64_t> edgeBytes, edgeGradBytes; ///< by edge
};

struct PlanningModel {
  explicit PlanningModel(const Problem &problem);

  const Problem &problem;
  int64_t layers, stages, microbatches;
  std::vector<LoadModel> loads;
  std::vector<int> loadOf;                 ///< by micro-batch
  std::vector<int64_t> countOf;            ///< micro-batches by load
  std::vector<int64_t> workSum;            ///< prefix sums by layer, over all micro-batches
  std::vector<int64_t> paramSum;           ///< prefix sums, layers + 1: resident bytes
  std::vector<ReplicaBytes> replicaSum;    ///< the same, between replicas
  std::vector<std::vector<int>> edgesInto; ///< by layer, numbers of edges that end there

  /// True if nothing feeds the layer although it is not the first: it is a source next to the
  /// chain.
  bool isSource(int64_t layer) const { return layer > 0 && edgesInto[layer].empty(); }
  /// Bytes that a stage may use; `unreachable` where there is no limit.
  int64_t memoryOf(int64_t stage) const {
    const std::vector<int64_t> &limits = problem.cluster.memoryBytes;
    return limits.empty() ? unreachable : limits[limits.size() == 1 ? 0 : stage];
  }
  /// Gradient reduction of layers [begin, end) over the replicas.
  int64_t reductionNs(int64_t begin, int64_t end) const {
    return reductionNs(replicaSum[end] - replicaSum[begin]);
  }
  int64_t reductionNs(const ReplicaBytes &bytes) const;
  int64_t transferNs(int64_t bytes) const;
  /// Returns how many micro-batches' activations a stage of gpipe or 1f1b holds at once, at most.
  int64_t inFlight(int64_t stage) const;
  bool isGpipe() const { return problem.schedule == "gpipe"; }
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_MODEL_PLANNINGMODEL_H
