//===- ScheduleRules.h - Pipeline schedules as pure rules --------------------------------===//
#ifndef PASSES_PLANNER_SCHEDULERULES_H
#define PASSES_PLANNER_SCHEDULERULES_H

#include "passes/planner/Plan.h"
#include <optional>

namespace omnibal::planner {

/// Action lists of a named schedule for `stages` ranks with one chunk each and `microbatches`
/// micro-batches, or none if the name is not known.
///
/// gpipe (Huang et al. 2019), stages 2, micro-batches 3:
///     rank 0: F0 F1 F2          B0 B1 B2
///     rank 1:    F0 F1 F2 B0 B1 B2
/// 1f1b (PipeDream-flush, Narayanan et al. 2021): rank s of P first runs min(M, P-1-s) forwards,
/// then one forward and one backward in turn, then the remaining backwards:
///     rank 0: F0 F1 B0 F2 B1 B2
///     rank 1:    F0 B0 F1 B1 F2 B2
std::optional<std::vector<std::vector<Action>>>
scheduleActions(const std::string &schedule, int64_t stages, int64_t microbatches);

} // namespace omnibal::planner
#endif // PASSES_PLANNER_SCHEDULERULES_H
