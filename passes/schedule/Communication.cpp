//===- Communication.cpp -----------------------------------------------------------------===//
#include "passes/schedule/Communication.h"

namespace omnibal::schedule {
namespace {

bool isBackward(planner::ActionKind kind) {
  return kind == planner::ActionKind::Backward || kind == planner::ActionKind::InputGrad;
}

StepKind convert(planner::ActionKind kind) {
  switch (kind) {
  case planner::ActionKind::Forward:
    return StepKind::Forward;
  case planner::ActionKind::Backward:
    return StepKind::Backward;
  case planner::ActionKind::InputGrad:
    return StepKind::InputGrad;
  case planner::ActionKind::WeightGrad:
    return StepKind::WeightGrad;
  }
  return StepKind::Forward;
}

/// The communication of one stage, gathered per compute action and then written out in order.
class StageExpansion {
public:
  StageExpansion(const std::vector<planner::Action> &compute, const std::vector<Message> &messages,
                 int64_t stage)
      : compute(compute), messages(messages), stage(stage), slots(compute.size() + 1) {}

  std::vector<Step> run() {
    for (size_t k = 0; k < compute.size(); ++k) {
      for (const Message &message : messages) {
        if (matches(compute[k], message, message.toChunk) && message.toStage == stage)
          addReceive(k, message);
        if (matches(compute[k], message, message.fromChunk) && message.fromStage == stage)
          addSend(k, message);
      }
    }
    std::vector<Step> actions;
    auto append = [&](const std::vector<Step> &list) {
      actions.insert(actions.end(), list.begin(), list.end());
    };
    for (size_t k = 0; k <= compute.size(); ++k) {
      append(slots[k].waitSends);
      append(slots[k].posts);
      append(slots[k].waitReceives);
      if (k == compute.size())
        break;
      actions.push_back({convert(compute[k].kind), compute[k].microbatch, compute[k].chunk});
      append(slots[k].sends);
    }
    return actions;
  }

private:
  struct Slot {
    std::vector<Step> waitSends, posts, waitReceives, sends; ///< sends come after the action
  };

  static bool matches(const planner::Action &action, const Message &message, int64_t chunk) {
    if (action.chunk != chunk)
      return false;
    return message.gradient ? isBackward(action.kind) : action.kind == planner::ActionKind::Forward;
  }

  void addReceive(size_t k, const Message &message) {
    int64_t mb = compute[k].microbatch;
    slots[k > 0 ? k - 1 : 0].posts.push_back({StepKind::PostRecv, mb, message.id});
    slots[k].waitReceives.push_back({StepKind::WaitRecv, mb, message.id});
  }

  void addSend(size_t k, const Message &message) {
    int64_t mb = compute[k].microbatch;
    slots[k].sends.push_back({StepKind::Send, mb, message.id});
    slots[waitPosition(k, message)].waitSends.push_back({StepKind::WaitSend, mb, message.id});
  }

  size_t waitPosition(size_t k, const Message &message) const {
    if (!message.gradient && hasGradient(message))
      for (size_t j = k + 1; j < compute.size(); ++j)
        if (isBackward(compute[j].kind) && compute[j].chunk == compute[k].chunk &&
            compute[j].microbatch == compute[k].microbatch)
          return j;
    return std::min(k + 3, compute.size());
  }

  bool hasGradient(const Message &message) const {
    for (const Message &other : messages)
      if (other.gradient && other.fromChunk == message.toChunk &&
          other.toChunk == message.fromChunk)
        return true;
    return false;
  }

  const std::vector<planner::Action> &compute;
  const std::vector<Message> &messages;
  int64_t stage;
  std::vector<Slot> slots;
};

} // namespace

std::vector<std::vector<Step>>
insertCommunication(const std::vector<std::vector<planner::Action>> &compute,
                    const std::vector<Message> &messages) {
  std::vector<std::vector<Step>> lists;
  for (size_t stage = 0; stage < compute.size(); ++stage)
    lists.push_back(StageExpansion(compute[stage], messages, static_cast<int64_t>(stage)).run());
  return lists;
}

} // namespace omnibal::schedule
