//===- ActionOrder.h - Given action lists, timed for any cuts --------------------------------===//
#ifndef RUNTIME_PLANNER_SEARCH_ORDERS_ACTIONORDER_H
#define RUNTIME_PLANNER_SEARCH_ORDERS_ACTIONORDER_H

#include "runtime/planner/model/Plan.h"
#include "runtime/planner/search/orders/FixedOrder.h"

namespace omnibal::planner {

/// Times of all chunks. Index [chunk * loads + load].
struct ChunkTimes {
  std::vector<int64_t> forward, inputGrad, weightGrad; ///< inputGrad with recomputation
  std::vector<int64_t> reduction;                      ///< by stage
  std::vector<StageTimes::Feed> feeds;                 ///< between chunks; free on one stage
};

/// Which stage runs which chunk, and in what order. Every forward comes after the same
/// micro-batch's on all earlier chunks and every backward (B or I) after those on all later ones,
/// whatever feeds what.
struct ActionLists {
  std::vector<int64_t> chunkStage;
  std::vector<std::vector<Action>> actions; ///< per stage
};

/// Bytes that a stage holds at one moment: how many micro-batches of each chunk and load hold their
/// saved bytes, and how many their split bytes. Index [number of the chunk on its stage * loads +
/// load].
struct Holding {
  std::vector<int32_t> saved, split;
  bool operator==(const Holding &) const = default;
};

/// One set of action lists as arrays.
class ActionOrder {
public:
  struct Place {
    int32_t stage, chunk, microbatch, load;
    ActionKind kind;
  };

  /// The lists must not deadlock where each chunk feeds the next one, both ways.
  ActionOrder(const PlanningModel &model, ActionLists lists);

  const ActionLists &lists() const { return given; }
  int64_t chunks() const { return static_cast<int64_t>(given.chunkStage.size()); }
  /// Returns every action after all those that it can wait for.
  const std::vector<Place> &order() const { return places; }
  /// The chunks of a stage, in order.
  const std::vector<int64_t> &chunksOf(int64_t stage) const { return chunksOfStage[stage]; }
  /// The number of a chunk on its stage.
  int32_t numberOnStage(int64_t chunk) const { return localChunk[chunk]; }
  /// The moments at which a stage can hold most; found when first asked for.
  const std::vector<Holding> &holdings(int64_t stage) const;
  bool splits() const { return anySplit; }

  /// Returns the step that the simulator computes.
  int64_t step(const ChunkTimes &times);

private:
  void sortActions();

  const PlanningModel &model;
  ActionLists given;
  bool anySplit = false;
  std::vector<Place> places;
  std::vector<std::vector<int64_t>> chunksOfStage;
  std::vector<int32_t> localChunk; ///< by chunk: its number on its stage
  mutable std::vector<std::vector<Holding>> holdingsOfStage;
  std::vector<int64_t> forwardEnd, backwardEnd, clock;
  std::vector<int32_t> firstIn, firstOut, outgoing, slots;
};

/// Sets the times of chunks under these cuts, without recomputation, which the caller adds to
/// inputGrad.
void setTimes(const PlanningModel &model, const std::vector<int64_t> &chunkStage,
              const std::vector<int64_t> &cuts, ChunkTimes &times);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_ORDERS_ACTIONORDER_H
