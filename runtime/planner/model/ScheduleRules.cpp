//===- ScheduleRules.cpp -----------------------------------------------------------------===//
#include "runtime/planner/model/ScheduleRules.h"
#include <algorithm>

namespace omnibal::planner {
namespace {

using Actions = std::vector<Action>;

constexpr int64_t mostChunksPerStage = 64;

Actions gpipe(int64_t stage, int64_t microbatches) {
  Actions actions;
  for (int64_t m = 0; m < microbatches; ++m)
    actions.push_back({ActionKind::Forward, m, stage});
  for (int64_t m = 0; m < microbatches; ++m)
    actions.push_back({ActionKind::Backward, m, stage});
  return actions;
}

/// `warmup` forwards, then a forward and a backward in turn, then the backwards that are left.
Actions inTurn(const Actions &forwards, const Actions &backwards, int64_t warmup) {
  auto count = static_cast<int64_t>(forwards.size());
  warmup = std::min(warmup, count);
  Actions actions(forwards.begin(), forwards.begin() + warmup);
  for (int64_t k = warmup; k < count; ++k) {
    actions.push_back(forwards[k]);
    actions.push_back(backwards[k - warmup]);
  }
  actions.insert(actions.end(), backwards.end() - warmup, backwards.end());
  return actions;
}

Actions oneForwardOneBackward(int64_t stage, int64_t stages, int64_t microbatches) {
  Actions forwards, backwards;
  for (int64_t m = 0; m < microbatches; ++m) {
    forwards.push_back({ActionKind::Forward, m, stage});
    backwards.push_back({ActionKind::Backward, m, stage});
  }
  return inTurn(forwards, backwards, stages - 1 - stage);
}

Actions zeroBubbleH1(int64_t stage, int64_t stages, int64_t microbatches) {
  Actions actions;
  int64_t warmup = std::min(microbatches, stages - 1 - stage);
  for (int64_t m = 0; m < warmup; ++m)
    actions.push_back({ActionKind::Forward, m, stage});
  for (int64_t m = 0; m < microbatches; ++m) {
    if (m + warmup < microbatches)
      actions.push_back({ActionKind::Forward, m + warmup, stage});
    actions.push_back({ActionKind::InputGrad, m, stage});
    if (m >= stage)
      actions.push_back({ActionKind::WeightGrad, m - stage, stage});
  }
  for (int64_t m = std::max<int64_t>(0, microbatches - stage); m < microbatches; ++m)
    actions.push_back({ActionKind::WeightGrad, m, stage});
  return actions;
}

Actions interleaved(int64_t stage, int64_t stages, int64_t chunks, int64_t microbatches) {
  Actions forwards, backwards;
  int64_t rounds = (microbatches + stages - 1) / stages;
  for (int64_t round = 0; round < rounds; ++round)
    for (int64_t c = 0; c < chunks; ++c)
      for (int64_t m = round * stages; m < (round + 1) * stages; ++m) {
        forwards.push_back({ActionKind::Forward, m, c * stages + stage});
        backwards.push_back({ActionKind::Backward, m, (chunks - 1 - c) * stages + stage});
      }
  Actions actions = inTurn(forwards, backwards, 2 * (stages - 1 - stage) + (chunks - 1) * stages);
  // Leaving out what nothing else waits for keeps the rest free of deadlock.
  std::erase_if(actions, [&](const Action &action) { return action.microbatch >= microbatches; });
  return actions;
}

} // namespace

std::optional<int64_t> chunksPerStage(const std::string &schedule) {
  if (schedule == "gpipe" || schedule == "1f1b" || schedule == "zb-h1")
    return 1;
  const std::string prefix = "interleaved:";
  if (!schedule.starts_with(prefix))
    return std::nullopt;
  std::string digits = schedule.substr(prefix.size());
  if (digits.empty() || digits.size() > 2 || digits[0] == '0' ||
      digits.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  int64_t chunks = std::stoll(digits);
  if (chunks > mostChunksPerStage)
    return std::nullopt;
  return chunks;
}

std::vector<int64_t> stagesInTurn(int64_t chunks, int64_t stages) {
  return stagesInRounds(chunks, stages, false);
}

std::vector<int64_t> stagesInRounds(int64_t chunks, int64_t stages, bool wave) {
  std::vector<int64_t> result(chunks);
  for (int64_t c = 0; c < chunks; ++c) {
    bool isReverse = wave && c / stages % 2 == 1;
    result[c] = isReverse ? stages - 1 - c % stages : c % stages;
  }
  return result;
}

std::vector<std::vector<Action>> oneAtATime(int64_t chunks, int64_t stages, int64_t microbatches) {
  std::vector<Actions> lists(stages);
  for (int64_t m = 0; m < microbatches; ++m) {
    for (int64_t c = 0; c < chunks; ++c)
      lists[c % stages].push_back({ActionKind::Forward, m, c});
    for (int64_t c = chunks - 1; c >= 0; --c)
      lists[c % stages].push_back({ActionKind::Backward, m, c});
  }
  return lists;
}

std::optional<std::vector<std::vector<Action>>>
scheduleActions(const std::string &schedule, int64_t stages, int64_t microbatches) {
  std::optional<int64_t> chunks = chunksPerStage(schedule);
  if (!chunks)
    return std::nullopt;
  std::vector<Actions> lists;
  for (int64_t stage = 0; stage < stages; ++stage) {
    if (schedule == "gpipe")
      lists.push_back(gpipe(stage, microbatches));
    else if (schedule == "zb-h1")
      lists.push_back(zeroBubbleH1(stage, stages, microbatches));
    else if (*chunks > 1)
      lists.push_back(interleaved(stage, stages, *chunks, microbatches));
    else
      lists.push_back(oneForwardOneBackward(stage, stages, microbatches));
  }
  return lists;
}

} // namespace omnibal::planner
