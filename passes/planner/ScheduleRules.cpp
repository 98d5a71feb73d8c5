//===- ScheduleRules.cpp -----------------------------------------------------------------===//
#include "passes/planner/ScheduleRules.h"
#include <algorithm>

namespace omnibal::planner {
namespace {

std::vector<Action> gpipe(int64_t rank, int64_t microbatches) {
  std::vector<Action> actions;
  for (int64_t m = 0; m < microbatches; ++m)
    actions.push_back({ActionKind::Forward, m, rank});
  for (int64_t m = 0; m < microbatches; ++m)
    actions.push_back({ActionKind::Backward, m, rank});
  return actions;
}

std::vector<Action> oneForwardOneBackward(int64_t rank, int64_t stages, int64_t microbatches) {
  std::vector<Action> actions;
  int64_t warmup = std::min(microbatches, stages - 1 - rank);
  for (int64_t m = 0; m < warmup; ++m)
    actions.push_back({ActionKind::Forward, m, rank});
  for (int64_t m = 0; m + warmup < microbatches; ++m) {
    actions.push_back({ActionKind::Forward, m + warmup, rank});
    actions.push_back({ActionKind::Backward, m, rank});
  }
  for (int64_t m = microbatches - warmup; m < microbatches; ++m)
    actions.push_back({ActionKind::Backward, m, rank});
  return actions;
}

} // namespace

std::optional<std::vector<std::vector<Action>>>
scheduleActions(const std::string &schedule, int64_t stages, int64_t microbatches) {
  if (schedule != "gpipe" && schedule != "1f1b")
    return std::nullopt;
  std::vector<std::vector<Action>> lists;
  for (int64_t rank = 0; rank < stages; ++rank)
    lists.push_back(schedule == "gpipe" ? gpipe(rank, microbatches)
                                        : oneForwardOneBackward(rank, stages, microbatches));
  return lists;
}

} // namespace omnibal::planner
