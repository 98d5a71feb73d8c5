//===- StepCommunication.cpp -------------------------------------------------------------===//
#include "runtime/schedule/StepCommunication.h"
#include "runtime/schedule/ActionKinds.h"
#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace omnibal::rt {
namespace {

/// A time, and the order within it: actions have even numbers from 2 on.
using Moment = std::pair<int64_t, int64_t>;

struct ListPlace {
  size_t stage = 0, position = 0;
};

/// A message of one unit.
struct UnitMessage {
  const Message *message = nullptr;
  ListPlace maker, reader;
  Unit unit;
};

/// Starts and waits for sends, in their order within a gap.
struct ListEvent {
  Moment at;
  int rank = 0; ///< among events of one moment: receives, sends, waits for sends
  Action action;

  bool operator<(const ListEvent &other) const {
    return std::tuple(at, rank, action.index, action.unit()) <
           std::tuple(other.at, other.rank, other.action.index, other.action.unit());
  }
};

class StepExpansion {
public:
  StepExpansion(const std::vector<std::vector<planner::StepAction>> &compute,
                const ActionTimes &times, const std::vector<Message> &messages,
                TransportOrder transport)
      : compute(compute), times(times), transport(transport), events(compute.size()),
        waits(compute.size()) {
    for (size_t s = 0; s < compute.size(); ++s) {
      waits[s].resize(compute[s].size());
      order.emplace_back(compute[s].size(), 0);
    }
    collect(messages);
    findOrder();
  }

  std::vector<std::vector<Action>> run() {
    for (const UnitMessage &one : all)
      addEvents(one);
    std::vector<std::vector<Action>> lists;
    for (size_t s = 0; s < compute.size(); ++s)
      lists.push_back(merged(s));
    return lists;
  }

private:
  /// Forward or the part of the backward that messages wait for, chunk, micro-batch.
  using Key = std::tuple<bool, int64_t, int64_t>;

  static bool isBackwardKind(planner::ActionKind kind) {
    return kind == planner::ActionKind::Backward || kind == planner::ActionKind::InputGrad;
  }

  void collect(const std::vector<Message> &messages) {
    std::map<Key, std::map<int32_t, ListPlace>> places; // of each part
    for (size_t s = 0; s < compute.size(); ++s)
      for (size_t k = 0; k < compute[s].size(); ++k)
        if (const planner::StepAction &action = compute[s][k];
            action.kind != planner::ActionKind::WeightGrad)
          places[{isBackwardKind(action.kind), action.chunk, action.microbatch}][action.part] = {s,
                                                                                                 k};
    for (const Message &message : messages)
      for (auto reader = places.lower_bound({message.gradient, message.toChunk, 0});
           reader != places.end() && std::get<0>(reader->first) == message.gradient &&
           std::get<1>(reader->first) == message.toChunk;
           ++reader)
        if (auto maker =
                places.find({message.gradient, message.fromChunk, std::get<2>(reader->first)});
            maker != places.end())
          connect(message, maker->second, reader->second);
  }

  /// Messages between the parts of one micro-batch: each part's own, or one for each part of the
  /// side that is divided.
  void connect(const Message &message, const std::map<int32_t, ListPlace> &makers,
               const std::map<int32_t, ListPlace> &readers) {
    for (const auto &[part, maker] : makers)
      for (const auto &[other, reader] : readers) {
        if (makers.size() == readers.size() && part != other)
          continue;
        const Unit unit{compute[reader.stage][reader.position].microbatch, std::max(part, other)};
        all.push_back({&message, maker, reader, unit});
        waits[reader.stage][reader.position].push_back(all.size() - 1);
      }
  }

  /// Numbers actions in an order in which the lists can run.
  void findOrder() {
    int64_t last = 0;
    std::vector<size_t> next(compute.size(), 0);
    auto isReady = [&](size_t stage) {
      return std::ranges::all_of(waits[stage][next[stage]], [&](size_t one) {
        return next[all[one].maker.stage] > all[one].maker.position;
      });
    };
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t s = 0; s < compute.size(); ++s)
        for (; next[s] < compute[s].size() && isReady(s); ++next[s], moved = true)
          order[s][next[s]] = last += 2;
    }
  }

  Moment startOf(const ListPlace &at) const {
    return {times.starts[at.stage][at.position], order[at.stage][at.position]};
  }
  /// Before everything that starts together with the action, but after the one before it.
  Moment beforeStartOf(const ListPlace &at) const {
    Moment start = startOf(at);
    bool isFirst = at.position == 0 || startOf({at.stage, at.position - 1}).first < start.first;
    return {start.first, isFirst ? 0 : start.second - 1};
  }
  /// Before everything that starts when the action ends, but after the action.
  Moment endOf(const ListPlace &at) const {
    int64_t end = times.ends[at.stage][at.position];
    if (end > times.starts[at.stage][at.position])
      return {end, 0};
    return {end, order[at.stage][at.position] + 1};
  }

  void addEvents(const UnitMessage &one) {
    Moment made = endOf(one.maker), post = {0, 0};
    if (one.reader.position > 0)
      post = beforeStartOf({one.reader.stage, one.reader.position - 1});
    if (transport == TransportOrder::OneQueue)
      made = post = std::max(made, post);
    auto add = [&](const ListPlace &at, Moment moment, int rank, ActionKind kind) {
      events[at.stage].push_back({moment, rank, messageAction(kind, one)});
    };
    add(one.reader, post, 0, ActionKind::PostRecv);
    add(one.maker, made, 1, ActionKind::Send);
    add(one.maker, {startOf(one.reader).first, std::numeric_limits<int64_t>::max()}, 2,
        ActionKind::WaitSend);
  }

  Action messageAction(ActionKind kind, const UnitMessage &one) const {
    return {kind, one.unit.microbatch, one.message->id, one.unit.part};
  }

  /// One stage's actions with the events before each.
  std::vector<Action> merged(size_t stage) {
    std::vector<ListEvent> &own = events[stage];
    std::sort(own.begin(), own.end());
    std::vector<Action> list;
    auto event = own.begin();
    for (size_t k = 0; k < compute[stage].size(); ++k) {
      for (; event != own.end() && event->at < startOf({stage, k}); ++event)
        list.push_back(event->action);
      for (size_t one : waits[stage][k])
        list.push_back(messageAction(ActionKind::WaitRecv, all[one]));
      const planner::StepAction &action = compute[stage][k];
      list.push_back({programKind(action.kind), action.microbatch, action.chunk, action.part});
    }
    for (; event != own.end(); ++event)
      list.push_back(event->action);
    return list;
  }

  const std::vector<std::vector<planner::StepAction>> &compute;
  const ActionTimes &times;
  const TransportOrder transport;
  std::vector<UnitMessage> all;
  std::vector<std::vector<ListEvent>> events;          ///< by stage
  std::vector<std::vector<std::vector<size_t>>> waits; ///< [stage][action]: what it reads, in `all`
  std::vector<std::vector<int64_t>> order;             ///< [stage][action]
};

} // namespace

ActionTimes plannedTimes(const planner::StepUnits &units, const planner::StepLists &lists,
                         const planner::StepTimes &times) {
  return {times.starts, planner::endsOf(units, lists, times)};
}

std::vector<std::vector<Action>>
insertCommunication(const std::vector<std::vector<planner::StepAction>> &compute,
                    const ActionTimes &times, const std::vector<Message> &messages,
                    TransportOrder order) {
  return StepExpansion(compute, times, messages, order).run();
}

} // namespace omnibal::rt
