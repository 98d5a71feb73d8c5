//===- CommunicationTest.cpp - Posts, waits and sends around compute actions -------------===//
#include "passes/schedule/Communication.h"
#include "passes/planner/ScheduleRules.h"
#include <gtest/gtest.h>
#include <map>
#include <set>

using namespace omnibal;
using schedule::Message;
using schedule::Step;
using Kind = schedule::StepKind;

namespace {

std::vector<Message> chainMessages(int64_t stages, bool gradients) {
  std::vector<Message> messages;
  for (int64_t s = 0; s + 1 < stages; ++s)
    messages.push_back({static_cast<int32_t>(messages.size()), false, s, s + 1, s, s + 1});
  for (int64_t s = 0; gradients && s + 1 < stages; ++s)
    messages.push_back({static_cast<int32_t>(messages.size()), true, s + 1, s, s + 1, s});
  return messages;
}

/// Runs the lists under rendezvous semantics: a send is complete only once its receive is posted.
/// Returns the number of ranks that finish.
size_t ranksThatFinish(const std::vector<std::vector<Step>> &lists) {
  std::vector<size_t> next(lists.size(), 0);
  std::set<std::pair<int64_t, int64_t>> posted, sent;
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t r = 0; r < lists.size(); ++r)
      while (next[r] < lists[r].size()) {
        const Step &action = lists[r][next[r]];
        std::pair<int64_t, int64_t> key{action.index, action.microbatch};
        if ((action.kind == Kind::WaitRecv && !sent.count(key)) ||
            (action.kind == Kind::WaitSend && !posted.count(key)))
          break;
        if (action.kind == Kind::PostRecv)
          posted.insert(key);
        if (action.kind == Kind::Send)
          sent.insert(key);
        ++next[r];
        progress = true;
      }
  }
  size_t finished = 0;
  for (size_t r = 0; r < lists.size(); ++r)
    finished += next[r] == lists[r].size();
  return finished;
}

TEST(Communication, SchedulesDoNotDeadlockUnderRendezvous) {
  for (const char *schedule : {"1f1b", "gpipe"})
    for (int64_t stages : {1, 2, 3, 4, 8})
      for (int64_t microbatches : {1, 2, 5, 16})
        for (bool gradients : {true, false}) {
          auto lists = schedule::insertCommunication(
              *planner::scheduleActions(schedule, stages, microbatches),
              chainMessages(stages, gradients));
          EXPECT_EQ(ranksThatFinish(lists), static_cast<size_t>(stages))
              << schedule << " " << stages << " x " << microbatches;
        }
}

TEST(Communication, EveryStartHasOneWaitAfterIt) {
  auto lists = schedule::insertCommunication(*planner::scheduleActions("1f1b", 3, 4),
                                             chainMessages(3, true));
  for (const auto &list : lists) {
    std::map<std::tuple<bool, int64_t, int64_t>, int> open;
    for (const Step &action : list) {
      bool send = action.kind == Kind::Send || action.kind == Kind::WaitSend;
      auto key = std::make_tuple(send, action.index, action.microbatch);
      if (action.kind == Kind::Send || action.kind == Kind::PostRecv) {
        EXPECT_EQ(open[key]++, 0);
      }
      if (action.kind == Kind::WaitSend || action.kind == Kind::WaitRecv) {
        EXPECT_EQ(open[key]--, 1);
      }
    }
    for (const auto &[key, count] : open)
      EXPECT_EQ(count, 0);
  }
}

TEST(Communication, ReceivesArePostedOneComputeActionAhead) {
  auto lists = schedule::insertCommunication(*planner::scheduleActions("1f1b", 2, 3),
                                             chainMessages(2, true));
  // Stage 1 computes F0 B0 F1 B1 F2 B2: the activation of micro-batch 1 is posted before B0.
  std::vector<std::string> text;
  for (const Step &action : lists[1]) {
    const char *names[] = {"F", "B", "I", "W", "post", "recv", "send", "sent"};
    text.push_back(names[static_cast<int>(action.kind)] + std::to_string(action.microbatch));
  }
  auto at = [&](const char *name) {
    return std::find(text.begin(), text.end(), name) - text.begin();
  };
  EXPECT_LT(at("F0"), at("post1"));
  EXPECT_LT(at("post1"), at("B0"));
  EXPECT_LT(at("B0"), at("recv1"));
  EXPECT_LT(at("recv1"), at("F1"));
  EXPECT_EQ(at("send0"), at("B0") + 1);
}

} // namespace
