//===- ListScheduler.h - Action lists made to measure -----------------------------------------===//
#ifndef RUNTIME_PLANNER_SEARCH_ORDERS_LISTSCHEDULER_H
#define RUNTIME_PLANNER_SEARCH_ORDERS_LISTSCHEDULER_H

#include "runtime/planner/search/orders/ActionOrder.h"
#include <optional>

namespace omnibal::planner {

/// What a list is made for: the times and bytes of chunks under given cuts and options.
struct ChunkLoads {
  std::vector<int64_t> chunkStage;
  ChunkTimes times;                            ///< recomputation included in inputGrad
  std::vector<int64_t> savedBytes, splitBytes; ///< [chunk * loads + load]
  std::vector<int64_t> fixedBytes;             ///< by stage: parameters and the largest workspace
};

struct ListPolicy {
  /// How many forwards stage r may be ahead of its backwards, over all its chunks.
  std::vector<int64_t> ahead;
  bool deepestFirst = false; ///< of forwards that are ready; otherwise in rounds of P micro-batches
  /// A stage that knows its next I or F starts a W before it if that delays it by at most this
  /// share of the W.
  double delay = 0.5;
};

struct MadeLists {
  ActionLists lists;
  int64_t stepNs = 0;
};

/// Makes action lists by list scheduling. In the order of time, each stage does the backward (I) of
/// the earliest micro-batch that is ready, otherwise a forward for which there is room, otherwise a
/// W, as zero-bubble schedules do (Qi et al. 2024, arXiv 2401.10241). There is always room to
/// finish the micro-batches that have begun, the earliest one first (the banker's rule), so that no
/// stage waits for memory forever. The result is none if even one micro-batch at a time does not
/// fit.
std::optional<MadeLists> makeLists(const PlanningModel &model, const ChunkLoads &loads,
                                   const ListPolicy &policy);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_ORDERS_LISTSCHEDULER_H
