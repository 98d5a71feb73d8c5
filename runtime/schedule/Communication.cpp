//===- Communication.cpp -----------------------------------------------------------------===//
#include "runtime/schedule/Communication.h"
#include "runtime/schedule/ActionKinds.h"
#include <algorithm>
#include <map>
#include <ranges>
#include <tuple>

namespace omnibal::rt {
namespace {

using Lists = std::vector<std::vector<planner::Action>>;
/// Forward or the part of the backward that messages wait for, chunk, micro-batch.
using Key = std::tuple<bool, int64_t, int64_t>;

bool isBackward(planner::ActionKind kind) {
  return kind == planner::ActionKind::Backward || kind == planner::ActionKind::InputGrad;
}

Action makeAction(ActionKind kind, int64_t microbatch, int64_t index) {
  return {kind, static_cast<int32_t>(microbatch), static_cast<int32_t>(index)};
}

/// Says where every action stands: stage and position in its list.
using Places = std::map<Key, std::pair<size_t, size_t>>;

Places findPlaces(const Lists &compute) {
  Places places;
  for (size_t stage = 0; stage < compute.size(); ++stage)
    for (size_t k = 0; k < compute[stage].size(); ++k)
      if (const planner::Action &action = compute[stage][k];
          action.kind != planner::ActionKind::WeightGrad)
        places[{isBackward(action.kind), action.chunk, action.microbatch}] = {stage, k};
  return places;
}

/// For each chunk, the messages that the forward (0) or the backward (1) there needs or makes.
using ByChunk = std::map<std::pair<bool, int64_t>, std::vector<const Message *>>;

/// How long an action takes for the order of messages: recomputation and imbalance are not known
/// here, but that a backward is twice a forward nearly always holds.
int64_t durationOf(planner::ActionKind kind) {
  return kind == planner::ActionKind::Backward ? 2 : 1;
}

/// When each action ends if it starts as soon as it can; -1 where it never does.
std::vector<std::vector<int64_t>> findEnds(const Lists &compute, const Places &places,
                                           const std::vector<Message> &dependencies) {
  ByChunk needed;
  for (const Message &message : dependencies)
    needed[{message.gradient, message.toChunk}].push_back(&message);
  std::vector<std::vector<int64_t>> ends;
  for (const std::vector<planner::Action> &list : compute)
    ends.emplace_back(list.size(), -1);
  auto endAt = [&](const Key &key) -> int64_t {
    auto place = places.find(key);
    return place == places.end() ? -1 : ends[place->second.first][place->second.second];
  };
  /// -1: something that it needs has not been reached yet.
  auto endOf = [&](size_t stage, size_t k) -> int64_t {
    const planner::Action &action = compute[stage][k];
    int64_t time = k == 0 ? 0 : ends[stage][k - 1];
    auto require = [&](const Key &key) {
      int64_t before = endAt(key);
      time = before < 0 || time < 0 ? -1 : std::max(time, before);
    };
    if (action.kind == planner::ActionKind::WeightGrad)
      require({true, action.chunk, action.microbatch});
    else if (isBackward(action.kind))
      require({false, action.chunk, action.microbatch});
    auto end = [&] { return time < 0 ? -1 : time + durationOf(action.kind); };
    if (action.kind == planner::ActionKind::WeightGrad)
      return end();
    if (auto found = needed.find({isBackward(action.kind), action.chunk}); found != needed.end())
      for (const Message *message : found->second)
        require({message->gradient, message->fromChunk, action.microbatch});
    return end();
  };
  std::vector<size_t> next(compute.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t stage = 0; stage < compute.size(); ++stage)
      while (next[stage] < compute[stage].size()) {
        int64_t time = endOf(stage, next[stage]);
        if (time < 0)
          break;
        ends[stage][next[stage]++] = time;
        moved = true;
      }
  }
  return ends;
}

std::string describe(const planner::Action &action) {
  return std::string(1, planner::letterOf(action.kind)) + std::to_string(action.microbatch) + "." +
         std::to_string(action.chunk);
}

/// The communication of one stage, gathered per compute action and then written out in order.
class StageExpansion {
public:
  StageExpansion(const Lists &compute, const std::vector<std::vector<int64_t>> &ends,
                 const Places &places, const std::vector<Message> &messages, size_t stage)
      : compute(compute[stage]), ends(ends), places(places), messages(messages), stage(stage),
        slots(compute[stage].size() + 1) {}

  std::vector<Action> run() {
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
    std::vector<Action> actions;
    auto append = [&](const std::vector<Action> &list) {
      actions.insert(actions.end(), list.begin(), list.end());
    };
    // One order at both ends of a pair.
    auto appendStarts = [&](std::vector<std::pair<int64_t, Action>> &list) {
      std::sort(list.begin(), list.end(), [](const auto &x, const auto &y) {
        return std::tuple(x.first, x.second.index, x.second.microbatch) <
               std::tuple(y.first, y.second.index, y.second.microbatch);
      });
      for (const auto &[time, action] : list)
        actions.push_back(action);
    };
    for (size_t k = 0; k <= compute.size(); ++k) {
      appendStarts(slots[k].posts);
      appendStarts(slots[k].sends);
      append(slots[k].waitSends);
      append(slots[k].waitReceives);
      if (k < compute.size())
        actions.push_back(
            makeAction(programKind(compute[k].kind), compute[k].microbatch, compute[k].chunk));
    }
    return actions;
  }

private:
  /// What comes before a compute action; the last one is the end of the list.
  struct Slot {
    std::vector<std::pair<int64_t, Action>> posts, sends; ///< with the message's time
    std::vector<Action> waitSends, waitReceives;
  };

  void addReceive(size_t k, const Message &message) {
    int64_t mb = compute[k].microbatch;
    size_t start = slotAt(whenBoth(message, mb));
    slots[start].posts.push_back(
        {whenBoth(message, mb), makeAction(ActionKind::PostRecv, mb, message.id)});
    slots[k].waitReceives.push_back(makeAction(ActionKind::WaitRecv, mb, message.id));
  }

  void addSend(size_t k, const Message &message) {
    int64_t mb = compute[k].microbatch;
    size_t start = slotAt(whenBoth(message, mb));
    slots[start].sends.push_back(
        {whenBoth(message, mb), makeAction(ActionKind::Send, mb, message.id)});
    size_t wait = std::max(waitPosition(k, message), std::min(start + 1, compute.size()));
    slots[wait].waitSends.push_back(makeAction(ActionKind::WaitSend, mb, message.id));
  }

  size_t waitPosition(size_t k, const Message &message) const {
    if (!message.gradient && hasGradient(message))
      if (auto backward = places.find({true, compute[k].chunk, compute[k].microbatch});
          backward != places.end())
        return backward->second.second;
    return std::min(k + 3, compute.size());
  }

  /// When the data are there and the receiver may hold them, the same for both ends.
  int64_t whenBoth(const Message &message, int64_t microbatch) const {
    int64_t time = 0;
    if (auto maker = places.find({message.gradient, message.fromChunk, microbatch});
        maker != places.end())
      time = ends[maker->second.first][maker->second.second];
    if (auto reader = places.find({message.gradient, message.toChunk, microbatch});
        reader != places.end() && reader->second.second >= 2)
      time = std::max(time, ends[reader->second.first][reader->second.second - 2]);
    return time;
  }

  /// Before the first compute action here that does not start earlier. They start in the order of
  /// the list.
  size_t slotAt(int64_t time) const {
    auto positions = std::views::iota(size_t(0), compute.size());
    auto startsEarlier = [&](size_t k) {
      return ends[stage][k] - durationOf(compute[k].kind) < time;
    };
    return std::ranges::partition_point(positions, startsEarlier) - positions.begin();
  }

  bool hasGradient(const Message &message) const {
    for (const Message &other : messages)
      if (other.gradient && other.fromChunk == message.toChunk &&
          other.toChunk == message.fromChunk)
        return true;
    return false;
  }

  const std::vector<planner::Action> &compute;
  const std::vector<std::vector<int64_t>> &ends;
  const Places &places;
  const std::vector<Message> &messages;
  size_t stage;
  std::vector<Slot> slots;
};

} // namespace

std::string findDeadlock(const Lists &compute, const std::vector<Message> &dependencies) {
  std::vector<std::vector<int64_t>> ends = findEnds(compute, findPlaces(compute), dependencies);
  std::string stuck;
  for (size_t stage = 0; stage < compute.size(); ++stage)
    for (size_t k = 0; k < compute[stage].size(); ++k)
      if (ends[stage][k] < 0) {
        stuck += (stuck.empty() ? "stage " : "; stage ") + std::to_string(stage) + " at " +
                 describe(compute[stage][k]);
        break;
      }
  return stuck;
}

std::vector<std::vector<Action>> insertCommunication(const Lists &compute,
                                                     const std::vector<Message> &messages) {
  Places places = findPlaces(compute);
  std::vector<std::vector<int64_t>> ends = findEnds(compute, places, messages);
  std::vector<std::vector<Action>> lists;
  for (size_t stage = 0; stage < compute.size(); ++stage)
    lists.push_back(StageExpansion(compute, ends, places, messages, stage).run());
  return lists;
}

} // namespace omnibal::rt
