//===- ScheduleRules.h - Pipeline schedules as pure rules --------------------------------===//
#ifndef RUNTIME_PLANNER_MODEL_SCHEDULERULES_H
#define RUNTIME_PLANNER_MODEL_SCHEDULERULES_H

#include "runtime/planner/model/Plan.h"
#include <optional>

namespace omnibal::planner {

/// The schedules that scheduleActions knows, as a text for people.
inline constexpr const char *scheduleNames = "gpipe, 1f1b, interleaved:V, zb-h1";

/// Returns the chunks per stage of a named schedule: V of "interleaved:V" (1 .. 64, no leading
/// zero), otherwise 1, and none if the name is not known. "auto" is no rule: there the search
/// writes the lists.
std::optional<int64_t> chunksPerStage(const std::string &schedule);

/// The stage of each chunk: chunk c is on stage c mod stages.
std::vector<int64_t> stagesInTurn(int64_t chunks, int64_t stages);

/// The same, but with `wave` every other round of chunks runs over the stages in reverse, so that a
/// round begins on the stage where the one before has ended.
std::vector<int64_t> stagesInRounds(int64_t chunks, int64_t stages, bool wave);

/// Returns lists that run one micro-batch after the other, forward through all chunks and back; no
/// schedule needs less memory.
std::vector<std::vector<Action>> oneAtATime(int64_t chunks, int64_t stages, int64_t microbatches);

/// Returns the action lists of a named schedule for `stages` stages and `microbatches`
/// micro-batches, with chunk c on stage c mod stages; none if the name is not known.
///
/// gpipe (Huang et al. 2019), stages 2, micro-batches 3:
///     stage 0: F0 F1 F2          B0 B1 B2
///     stage 1:    F0 F1 F2 B0 B1 B2
/// 1f1b (PipeDream-flush, Narayanan et al. 2021): stage s of P first runs min(M, P-1-s) forwards,
/// then one forward and one backward in turn, then the remaining backwards:
///     stage 0: F0 F1 B0 F2 B1 B2
///     stage 1:    F0 B0 F1 B1 F2 B2
/// zb-h1 (Qi et al. 2024, arXiv 2401.10241): as 1f1b with B split into I and W; on stage s each W
/// comes s micro-batches after its I, so that no stage holds more than P micro-batches and the W
/// left over fill the end:
///     stage 0: F0 F1 I0 W0 F2 I1 W1 I2 W2
///     stage 1:    F0 I0 F1 I1 W0 F2 I2 W1 W2
/// interleaved:V (Narayanan et al. 2021): P micro-batches go through a stage's first chunk, the
/// same through its second, ...; stage s runs 2 (P-1-s) + (V-1) P forwards ahead, then one forward
/// and one backward in turn. Where micro-batches are no multiple of P, the lists are those of the
/// next multiple without the micro-batches that are not there. interleaved:1 is 1f1b.
std::optional<std::vector<std::vector<Action>>>
scheduleActions(const std::string &schedule, int64_t stages, int64_t microbatches);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_MODEL_SCHEDULERULES_H
