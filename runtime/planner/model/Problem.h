//===- Problem.h - The planning problem as plain data ---------------------------------------===//
//
// Times are nanoseconds, sizes bytes, both int64. The definition is in docs/planner.md; the JSON
// form is read and written by ProblemJson.h.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PLANNER_MODEL_PROBLEM_H
#define RUNTIME_PLANNER_MODEL_PROBLEM_H

#include "runtime/planner/model/Decimal.h"
#include "runtime/support/RankOrder.h"
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace omnibal::planner {

/// One way to trade memory for time in a layer; the first option of a layer is "keep".
struct RematOption {
  std::string name;
  int64_t savedBytes = 0;     ///< held from the micro-batch's forward to its backward
  int64_t recomputeNs = 0;    ///< added to the backward
  int64_t workspaceBytes = 0; ///< temporary memory while the layer runs backward
  int64_t splitBytes = -1;    ///< held in place of savedBytes from I to W; -1: savedBytes

  int64_t heldWhileSplit() const { return splitBytes < 0 ? savedBytes : splitBytes; }
};

struct Layer {
  std::string name;
  std::string kind; ///< vision | projector | language | head | any other word
  int64_t forwardNs = 0, inputGradNs = 0, weightGradNs = 0; ///< 0 where frozen or not needed
  int64_t paramBytes = 0; ///< resident: weights, gradients, optimizer state
  int64_t gradBytes = 0;  ///< reduced over replicas
  // With ZeRO-1:
  int64_t stateBytes = 0;  ///< of paramBytes: what the replicas divide
  int64_t updateBytes = 0; ///< told to the other replicas after an update
  std::vector<RematOption> remat;

  /// The option of that name; null where there is none.
  const RematOption *option(const std::string &name) const {
    for (const RematOption &candidate : remat)
      if (candidate.name == name)
        return &candidate;
    return nullptr;
  }
};

/// An activation that flows from one layer to a later one.
struct Edge {
  int64_t from = 0, to = 0;
  int64_t bytes = 0;
  int64_t gradBytes = 0; ///< 0: no gradient flows back
};

struct Link {
  int64_t latencyNs = 0;
  int64_t bytesPerSecond = 1;
};

struct Cluster {
  int64_t stages = 1;
  std::vector<int64_t> memoryBytes; ///< one value or one a stage; empty: no limit
  Link link;
  int64_t dataParallel = 1;
  Link dataParallelLink;
  int64_t zero = 0;  ///< 1: replicas divide the optimizer's state (ZeRO-1)
  int64_t parts = 1; ///< ranks that run a stage of a replica together
  rt::RankOrder rankOrder = rt::RankOrder::Stage; ///< which a plan does not depend on, but links do

  bool divides() const { return zero > 0 && dataParallel > 1; }
};

/// Bytes of a layer on its stage for the whole step.
inline int64_t residentBytes(const Cluster &cluster, const Layer &layer) {
  const int64_t state = layer.stateBytes, replicas = cluster.dataParallel;
  return layer.paramBytes -
         (cluster.divides() ? state - (state / replicas + (state % replicas > 0)) : 0);
}

/// What replicas tell each other of layers at the end of a step.
struct ReplicaBytes {
  int64_t gradients = 0, updates = 0;

  friend ReplicaBytes operator+(ReplicaBytes a, ReplicaBytes b) {
    return {a.gradients + b.gradients, a.updates + b.updates};
  }
  friend ReplicaBytes operator-(ReplicaBytes a, ReplicaBytes b) {
    return {a.gradients - b.gradients, a.updates - b.updates};
  }
};
inline ReplicaBytes replicaBytes(const Layer &layer) {
  return {layer.gradBytes, layer.updateBytes};
}

/// Load of one micro-batch: by layer kind, what multiplies the layers' times, saved bytes and the
/// bytes of edges that start in them; 1 for kinds that are missing.
using LoadFactors = std::map<std::string, Decimal>;

struct Problem {
  std::vector<Layer> layers; ///< in topological order
  std::vector<Edge> edges;
  Cluster cluster;
  int64_t microbatches = 1;
  std::vector<LoadFactors> factors; ///< one a micro-batch, or empty: all alike
  std::string schedule = "1f1b";
  bool varyCuts = true, varyRemat = true; ///< what a search may change
  std::vector<int64_t> givenCuts;         ///< where cuts may not change
  std::vector<std::string> givenRemat;    ///< where remat may not change

  Decimal factor(int64_t microbatch, const std::string &kind) const {
    if (factors.empty())
      return {};
    auto found = factors[microbatch].find(kind);
    return found == factors[microbatch].end() ? Decimal{} : found->second;
  }
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_MODEL_PROBLEM_H
