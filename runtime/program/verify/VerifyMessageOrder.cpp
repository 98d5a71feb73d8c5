//===- VerifyMessageOrder.cpp - Rule p11: messages one after the other -----------------------===//
//
// A transport such as NCCL performs a rank's messages on one queue. Those that the list starts next
// to each other are a group: it begins when the rank's work before it is done and the groups before
// it are over, its messages move when both ends' groups have begun, and it is over when all have.
// A wait is for the whole group. Sums over stages stand in the same queue; those over replicas too,
// but all replicas run the same lists, so they only stand there.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/program/verify/VerifierInternal.h"
#include "runtime/program/verify/VerifyLists.h"
#include <algorithm>
#include <set>

namespace omnibal::rt {
namespace {

using Message = std::pair<int32_t, Unit>; ///< Transfer::id

struct Group {
  std::vector<Message> messages;
  int32_t shared = -1; ///< a sum over the stages of this group of parameters
  size_t workBefore = 0;
};

/// The two queues of a stage: groups, and work with waits for groups.
struct Queues {
  struct Work {
    const Action *action = nullptr;
    int64_t group = -1; ///< that must be over, with all before it; -1: none
  };
  std::vector<Group> groups;
  std::vector<Work> work;
  size_t groupsOver = 0, workDone = 0;
  bool begun = false; ///< groups[groupsOver]
};

class OneQueue {
public:
  OneQueue(const std::vector<StageActions> &stages, const std::string &where) : where(where) {
    for (size_t s = 0; s < stages.size(); ++s) {
      queues.push_back(fill(stages[s]));
      orders.push_back(orderOf(stages[s]));
      for (int32_t group : stages[s].sharedGroups)
        holders[group].insert(static_cast<int32_t>(s));
    }
  }

  Status run() {
    OMNIBAL_RETURN_IF_ERROR(checkPairs());
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t s = 0; s < queues.size(); ++s)
        while (step(s))
          moved = true;
    }
    std::string stuck;
    for (size_t s = 0; s < queues.size(); ++s)
      if (queues[s].groupsOver < queues[s].groups.size())
        stuck += (stuck.empty() ? "stage " : "; stage ") + std::to_string(s) + " at " +
                 describe(queues[s].groups[queues[s].groupsOver]);
    return stuck.empty()
               ? Status::ok()
               : broken("p11", where,
                        "messages performed in the order of the lists wait for each other: " +
                            stuck);
  }

private:
  static Queues fill(const StageActions &stage) {
    Queues q;
    std::map<Message, int64_t> groupOf;
    bool adjacent = false; // to the last group
    for (const Action &a : stage.actions) {
      bool starts = a.kind == ActionKind::PostRecv || a.kind == ActionKind::Send;
      bool waits = a.kind == ActionKind::WaitRecv || a.kind == ActionKind::WaitSend;
      if (starts) {
        if (!adjacent)
          q.groups.push_back({{}, -1, q.work.size()});
        Message message{stage.transfers[a.index].id, a.unit()};
        q.groups.back().messages.push_back(message);
        groupOf[message] = static_cast<int64_t>(q.groups.size()) - 1;
      } else if (waits) {
        q.work.push_back({&a, groupOf.at({stage.transfers[a.index].id, a.unit()})});
      } else if (a.kind == ActionKind::ReduceShared) {
        q.groups.push_back({{}, a.index, q.work.size()});
        q.work.push_back({&a, static_cast<int64_t>(q.groups.size()) - 1});
      } else if (isCompute(a.kind)) {
        q.work.push_back({&a, -1});
      }
      adjacent = starts;
    }
    return q;
  }

  /// The messages that the stage starts, by direction and the other end.
  using Order = std::map<std::pair<bool, int32_t>, std::vector<Message>>;
  static Order orderOf(const StageActions &stage) {
    Order order;
    for (const Action &a : stage.actions)
      if (a.kind == ActionKind::PostRecv || a.kind == ActionKind::Send) {
        const TransferEnds &t = stage.transfers[a.index];
        bool sends = a.kind == ActionKind::Send;
        order[{sends, sends ? t.toStage : t.fromStage}].push_back({t.id, a.unit()});
      }
    return order;
  }

  Status checkPairs() {
    for (size_t s = 0; s < orders.size(); ++s)
      for (const auto &[key, sent] : orders[s]) {
        auto [sends, peer] = key;
        if (sends && orders[peer][{false, static_cast<int32_t>(s)}] != sent)
          return broken("p11", where,
                        "stage " + std::to_string(peer) +
                            " starts receiving the messages of stage " + std::to_string(s) +
                            " in another order than they are sent");
      }
    return Status::ok();
  }

  bool step(size_t stage) {
    Queues &q = queues[stage];
    if (q.workDone < q.work.size() &&
        q.work[q.workDone].group < static_cast<int64_t>(q.groupsOver)) {
      ++q.workDone;
      return true;
    }
    if (q.groupsOver == q.groups.size())
      return false;
    const Group &group = q.groups[q.groupsOver];
    if (q.workDone < group.workBefore)
      return false;
    bool fresh = !q.begun;
    q.begun = true;
    if (fresh) {
      for (const Message &message : group.messages)
        ++ends[message];
      if (group.shared >= 0)
        arrived[group.shared].insert(static_cast<int32_t>(stage));
    }
    bool over = std::all_of(group.messages.begin(), group.messages.end(),
                            [&](const Message &message) { return ends[message] == 2; }) &&
                (group.shared < 0 || arrived[group.shared] == holders[group.shared]);
    if (!over)
      return fresh;
    ++q.groupsOver;
    q.begun = false;
    return true;
  }

  static std::string describe(const Group &group) {
    if (group.shared >= 0)
      return "reduce_shared of group " + std::to_string(group.shared);
    std::string text;
    for (const Message &message : group.messages)
      text += (text.empty() ? "transfer " : ", transfer ") + std::to_string(message.first) +
              " of " + nameOf(message.second);
    return text;
  }

  const std::string &where;
  std::vector<Queues> queues;
  std::vector<Order> orders;
  std::map<int32_t, std::set<int32_t>> holders, arrived;
  std::map<Message, int> ends; ///< whose group has begun
};

} // namespace

Status verifyOneQueue(const std::vector<StageActions> &stages, const std::string &where) {
  return OneQueue(stages, where).run();
}

} // namespace omnibal::rt
