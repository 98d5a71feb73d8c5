//===- Communication.cpp -----------------------------------------------------------------===//
#include "passes/schedule/Communication.h"
#include <map>

namespace omnibal::schedule {
namespace {

using Lists = std::vector<std::vector<planner::Action>>;
/// Forward or the part of the backward that messages wait for, chunk, micro-batch.
using Key = std::tuple<bool, int64_t, int64_t>;

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

/// Where every action stands: rank and position in its list.
using Places = std::map<Key, std::pair<size_t, size_t>>;

Places findPlaces(const Lists &compute) {
  Places places;
  for (size_t rank = 0; rank < compute.size(); ++rank)
    for (size_t k = 0; k < compute[rank].size(); ++k)
      if (const planner::Action &action = compute[rank][k];
          action.kind != planner::ActionKind::WeightGrad)
        places[{isBackward(action.kind), action.chunk, action.microbatch}] = {rank, k};
  return places;
}

/// By chunk, the messages that the forward (0) or the backward (1) there needs or makes.
using ByChunk = std::map<std::pair<bool, int64_t>, std::vector<const Message *>>;

/// The longest chain of actions that must be over before each action, counting those before it in
/// its list; -1 where it never starts.
std::vector<std::vector<int64_t>> findLevels(const Lists &compute, const Places &places,
                                             const std::vector<Message> &dependencies) {
  ByChunk needed;
  for (const Message &message : dependencies)
    needed[{message.gradient, message.toChunk}].push_back(&message);
  std::vector<std::vector<int64_t>> levels;
  for (const std::vector<planner::Action> &list : compute)
    levels.emplace_back(list.size(), -1);
  auto levelAt = [&](const Key &key) -> int64_t {
    auto place = places.find(key);
    return place == places.end() ? -1 : levels[place->second.first][place->second.second];
  };
  /// -1: something that it needs has not been reached yet.
  auto levelOf = [&](size_t rank, size_t k) -> int64_t {
    const planner::Action &action = compute[rank][k];
    int64_t level = k == 0 ? 0 : levels[rank][k - 1] + 1;
    auto require = [&](const Key &key) {
      int64_t before = levelAt(key);
      level = before < 0 || level < 0 ? -1 : std::max(level, before + 1);
    };
    if (action.kind == planner::ActionKind::WeightGrad)
      require({true, action.chunk, action.microbatch});
    else if (isBackward(action.kind))
      require({false, action.chunk, action.microbatch});
    if (action.kind == planner::ActionKind::WeightGrad)
      return level;
    if (auto found = needed.find({isBackward(action.kind), action.chunk}); found != needed.end())
      for (const Message *message : found->second)
        require({message->gradient, message->fromChunk, action.microbatch});
    return level;
  };
  std::vector<size_t> next(compute.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < compute.size(); ++rank)
      while (next[rank] < compute[rank].size()) {
        int64_t level = levelOf(rank, next[rank]);
        if (level < 0)
          break;
        levels[rank][next[rank]++] = level;
        moved = true;
      }
  }
  return levels;
}

std::string describe(const planner::Action &action) {
  return std::string(1, "FBIW"[static_cast<size_t>(action.kind)]) +
         std::to_string(action.microbatch) + "." + std::to_string(action.chunk);
}

/// The communication of one stage, gathered per compute action and then written out in order.
class StageExpansion {
public:
  StageExpansion(const Lists &compute, const std::vector<std::vector<int64_t>> &levels,
                 const Places &places, const std::vector<Message> &messages, size_t stage)
      : compute(compute[stage]), levels(levels), places(places), messages(messages), stage(stage),
        slots(compute[stage].size() + 1) {}

  std::vector<Step> run() {
    ByChunk arriving, leaving;
    for (const Message &message : messages) {
      if (message.toStage == static_cast<int64_t>(stage))
        arriving[{message.gradient, message.toChunk}].push_back(&message);
      if (message.fromStage == static_cast<int64_t>(stage))
        leaving[{message.gradient, message.fromChunk}].push_back(&message);
    }
    for (size_t k = 0; k < compute.size(); ++k) {
      if (compute[k].kind == planner::ActionKind::WeightGrad)
        continue;
      std::pair<bool, int64_t> key{isBackward(compute[k].kind), compute[k].chunk};
      for (const Message *message : arriving[key])
        addReceive(k, *message);
      for (const Message *message : leaving[key])
        addSend(k, *message);
    }
    std::vector<Step> actions;
    auto append = [&](const std::vector<Step> &list) {
      actions.insert(actions.end(), list.begin(), list.end());
    };
    for (size_t k = 0; k <= compute.size(); ++k) {
      append(slots[k].posts);
      append(slots[k].waitSends);
      append(slots[k].waitReceives);
      if (k == compute.size())
        break;
      actions.push_back({convert(compute[k].kind), compute[k].microbatch, compute[k].chunk});
      append(slots[k].sends);
    }
    return actions;
  }

private:
  /// All but `sends` come before the compute action.
  struct Slot {
    std::vector<Step> posts, waitSends, waitReceives, sends;
  };

  /// Where the receive of what the action at `k` needs is posted.
  static size_t postPosition(size_t k) { return k > 0 ? k - 1 : 0; }

  void addReceive(size_t k, const Message &message) {
    int64_t mb = compute[k].microbatch;
    slots[postPosition(k)].posts.push_back({StepKind::PostRecv, mb, message.id});
    slots[k].waitReceives.push_back({StepKind::WaitRecv, mb, message.id});
  }

  void addSend(size_t k, const Message &message) {
    int64_t mb = compute[k].microbatch;
    slots[k].sends.push_back({StepKind::Send, mb, message.id});
    size_t wait = std::max(waitPosition(k, message), whenPosted(message, mb));
    slots[wait].waitSends.push_back({StepKind::WaitSend, mb, message.id});
  }

  size_t waitPosition(size_t k, const Message &message) const {
    if (!message.gradient && hasGradient(message))
      if (auto backward = places.find({true, compute[k].chunk, compute[k].microbatch});
          backward != places.end())
        return backward->second.second;
    return std::min(k + 3, compute.size());
  }

  /// The first place here that comes after the receiver's post in the order of all actions.
  size_t whenPosted(const Message &message, int64_t microbatch) const {
    auto reader = places.find({message.gradient, message.toChunk, microbatch});
    if (reader == places.end())
      return 0;
    auto [rank, k] = reader->second;
    std::pair<int64_t, size_t> posted{levels[rank][postPosition(k)], rank};
    const std::vector<int64_t> &mine = levels[stage];
    // Levels grow along a list.
    size_t first = std::partition_point(mine.begin(), mine.end(),
                                        [&](int64_t level) {
                                          return std::pair<int64_t, size_t>{level, stage} < posted;
                                        }) -
                   mine.begin();
    return first;
  }

  bool hasGradient(const Message &message) const {
    for (const Message &other : messages)
      if (other.gradient && other.fromChunk == message.toChunk &&
          other.toChunk == message.fromChunk)
        return true;
    return false;
  }

  const std::vector<planner::Action> &compute;
  const std::vector<std::vector<int64_t>> &levels;
  const Places &places;
  const std::vector<Message> &messages;
  size_t stage;
  std::vector<Slot> slots;
};

} // namespace

std::string findDeadlock(const Lists &compute, const std::vector<Message> &dependencies) {
  std::vector<std::vector<int64_t>> levels = findLevels(compute, findPlaces(compute), dependencies);
  std::string stuck;
  for (size_t rank = 0; rank < compute.size(); ++rank)
    for (size_t k = 0; k < compute[rank].size(); ++k)
      if (levels[rank][k] < 0) {
        stuck += (stuck.empty() ? "rank " : "; rank ") + std::to_string(rank) + " at " +
                 describe(compute[rank][k]);
        break;
      }
  return stuck;
}

std::vector<std::vector<Step>> insertCommunication(const Lists &compute,
                                                   const std::vector<Message> &messages) {
  Places places = findPlaces(compute);
  std::vector<std::vector<int64_t>> levels = findLevels(compute, places, messages);
  std::vector<std::vector<Step>> lists;
  for (size_t stage = 0; stage < compute.size(); ++stage)
    lists.push_back(StageExpansion(compute, levels, places, messages, stage).run());
  return lists;
}

} // namespace omnibal::schedule
