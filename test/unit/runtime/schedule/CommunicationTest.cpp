//===- CommunicationTest.cpp - Posts, waits and sends around compute actions -------------===//
#include "runtime/schedule/Communication.h"
#include "runtime/planner/model/ScheduleRules.h"
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <random>
#include <set>

using namespace omnibal;
using rt::Message;
using Step = rt::Action;
using Kind = rt::ActionKind;

namespace {

/// Of a chain of chunks, chunk c on stage c mod stages; only what travels, or also what stays.
std::vector<Message> chainMessages(int64_t stages, bool gradients, int64_t chunks = 0,
                                   bool local = false) {
  std::vector<Message> messages;
  auto add = [&](bool gradient, int64_t from, int64_t to) {
    if (local || from % stages != to % stages)
      messages.push_back(
          {static_cast<int32_t>(messages.size()), gradient, from, to, from % stages, to % stages});
  };
  for (int64_t c = 0; c + 1 < (chunks ? chunks : stages); ++c)
    add(false, c, c + 1);
  for (int64_t c = 0; gradients && c + 1 < (chunks ? chunks : stages); ++c)
    add(true, c + 1, c);
  return messages;
}

/// Lists that can run, by running random actions of random stages that are ready; some
/// micro-batches split their backward.
std::vector<std::vector<planner::Action>> randomLists(std::mt19937 &random, int64_t stages,
                                                      int64_t chunks, int64_t microbatches) {
  using planner::ActionKind;
  std::vector<std::vector<planner::Action>> lists(stages);
  std::map<std::pair<int64_t, int64_t>, std::string> done;
  auto ready = [&] {
    std::vector<planner::Action> actions;
    for (int64_t c = 0; c < chunks; ++c)
      for (int64_t m = 0; m < microbatches; ++m) {
        const std::string &parts = done[{c, m}];
        if (parts.empty() && (c == 0 || !done[{c - 1, m}].empty()))
          actions.push_back({ActionKind::Forward, m, c});
        if (parts == "F" && (c + 1 == chunks || done[{c + 1, m}].size() > 1))
          actions.push_back({(c + m) % 3 ? ActionKind::InputGrad : ActionKind::Backward, m, c});
        if (parts == "FI")
          actions.push_back({ActionKind::WeightGrad, m, c});
      }
    return actions;
  };
  for (auto actions = ready(); !actions.empty(); actions = ready()) {
    const planner::Action &action = actions[random() % actions.size()];
    done[{action.chunk, action.microbatch}] += "FBIW"[static_cast<size_t>(action.kind)];
    lists[action.chunk % stages].push_back(action);
  }
  return lists;
}

/// Runs the lists under rendezvous semantics: a send is complete only once its receive is posted.
/// Returns the number of stages that finish.
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

/// Runs the lists with all messages of a stage on one queue, as NCCL does: what is started next to
/// each other is a group, which begins when the groups before it are over and the stage has come as
/// far, and is over when the groups at the other ends of all its messages have begun. A wait is for
/// the group. Returns the number of stages that finish; -1 if a pair's orders differ.
int64_t ranksThatFinishOnOneQueue(const std::vector<std::vector<Step>> &lists,
                                  const std::vector<Message> &messages) {
  using Name = std::pair<int64_t, int64_t>;
  struct Stage {
    std::vector<std::vector<Name>> groups;
    std::vector<size_t> needed;              ///< work before each group
    std::vector<std::optional<size_t>> work; ///< the group waited for, or none
    std::map<Name, size_t> groupOf;
    size_t begun = 0, over = 0, done = 0;
  };
  std::vector<Stage> stages(lists.size());
  std::map<std::tuple<bool, size_t, size_t>, std::vector<Name>> orders;
  for (size_t r = 0; r < lists.size(); ++r) {
    bool together = false;
    for (const Step &step : lists[r]) {
      Name name{step.index, step.microbatch};
      bool starts = step.kind == Kind::PostRecv || step.kind == Kind::Send;
      if (starts) {
        if (!together) {
          stages[r].groups.emplace_back();
          stages[r].needed.push_back(stages[r].work.size());
        }
        stages[r].groups.back().push_back(name);
        stages[r].groupOf[name] = stages[r].groups.size() - 1;
        const Message &m = messages[step.index];
        orders[{step.kind == Kind::Send, m.fromStage, m.toStage}].push_back(name);
      } else {
        bool waits = step.kind == Kind::WaitRecv || step.kind == Kind::WaitSend;
        stages[r].work.push_back(waits ? std::optional(stages[r].groupOf.at(name)) : std::nullopt);
      }
      together = starts;
    }
  }
  for (const auto &[key, order] : orders)
    if (order != orders[{!std::get<0>(key), std::get<1>(key), std::get<2>(key)}])
      return -1;
  auto hasBegun = [&](size_t stage, const Name &name) {
    return stages[stage].groupOf.at(name) < stages[stage].begun;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (Stage &stage : stages) {
      auto advance = [&](size_t &counter, bool may) {
        counter += may;
        moved |= may;
      };
      advance(stage.done, stage.done < stage.work.size() &&
                              (!stage.work[stage.done] || *stage.work[stage.done] < stage.over));
      advance(stage.begun, stage.begun < stage.groups.size() && stage.begun == stage.over &&
                               stage.done >= stage.needed[stage.begun]);
      bool all = stage.over < stage.begun;
      for (size_t i = 0; all && i < stage.groups[stage.over].size(); ++i) {
        const Name &name = stage.groups[stage.over][i];
        const Message &m = messages[name.first];
        all = hasBegun(m.fromStage, name) && hasBegun(m.toStage, name);
      }
      advance(stage.over, all);
    }
  }
  return std::count_if(stages.begin(), stages.end(), [](const Stage &stage) {
    return stage.done == stage.work.size() && stage.over == stage.groups.size();
  });
}

TEST(Communication, SchedulesDoNotDeadlockUnderRendezvous) {
  for (const char *schedule : {"1f1b", "gpipe"})
    for (int64_t stages : {1, 2, 3, 4, 8})
      for (int64_t microbatches : {1, 2, 5, 16})
        for (bool gradients : {true, false}) {
          auto lists =
              rt::insertCommunication(*planner::scheduleActions(schedule, stages, microbatches),
                                      chainMessages(stages, gradients));
          EXPECT_EQ(ranksThatFinish(lists), static_cast<size_t>(stages))
              << schedule << " " << stages << " x " << microbatches;
          EXPECT_EQ(ranksThatFinishOnOneQueue(lists, chainMessages(stages, gradients)), stages)
              << schedule << " " << stages << " x " << microbatches;
        }
}

TEST(Communication, SeveralChunksAndSplitBackwardsDoNotDeadlock) {
  for (auto [schedule, perStage] :
       {std::pair("interleaved:2", 2), {"interleaved:3", 3}, {"zb-h1", 1}})
    for (int64_t stages : {1, 2, 3, 4})
      for (int64_t microbatches : {1, 2, 5, 8}) {
        auto lists =
            rt::insertCommunication(*planner::scheduleActions(schedule, stages, microbatches),
                                    chainMessages(stages, true, stages * perStage));
        EXPECT_EQ(ranksThatFinish(lists), static_cast<size_t>(stages))
            << schedule << " " << stages << " x " << microbatches;
        EXPECT_EQ(ranksThatFinishOnOneQueue(lists, chainMessages(stages, true, stages * perStage)),
                  stages)
            << schedule << " " << stages << " x " << microbatches;
      }
}

TEST(Communication, AnyListsThatCanRunDoNotDeadlock) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    int64_t stages = 2 + round % 3, chunks = stages * (1 + round % 4), microbatches = 1 + round % 5;
    auto compute = randomLists(random, stages, chunks, microbatches);
    EXPECT_EQ(rt::findDeadlock(compute, chainMessages(stages, true, chunks, true)), "");
    auto lists = rt::insertCommunication(compute, chainMessages(stages, true, chunks));
    EXPECT_EQ(ranksThatFinish(lists), static_cast<size_t>(stages)) << "round " << round;
    EXPECT_EQ(ranksThatFinishOnOneQueue(lists, chainMessages(stages, true, chunks)), stages)
        << "round " << round;
    size_t actions = 0, kept = 0;
    for (int64_t r = 0; r < stages; ++r) {
      actions += compute[r].size();
      for (const Step &step : lists[r])
        kept += step.kind <= Kind::WeightGrad;
    }
    EXPECT_EQ(actions, kept);
  }
}

TEST(Communication, ListsThatWaitForEachOtherAreFound) {
  using planner::ActionKind;
  // Stage 1 wants micro-batch 1 first, stage 0 the gradient of micro-batch 0 before it sends that.
  std::vector<std::vector<planner::Action>> compute = {
      {{ActionKind::Forward, 0, 0}, {ActionKind::Backward, 0, 0}, {ActionKind::Forward, 1, 0}},
      {{ActionKind::Forward, 1, 1}, {ActionKind::Forward, 0, 1}, {ActionKind::Backward, 0, 1}}};
  EXPECT_EQ(rt::findDeadlock(compute, chainMessages(2, true)), "stage 0 at B0.0; stage 1 at F1.1");
  // On one stage: the second chunk before the first.
  compute = {{{ActionKind::Forward, 0, 1}, {ActionKind::Forward, 0, 0}}};
  EXPECT_EQ(rt::findDeadlock(compute, chainMessages(1, false, 2, true)), "stage 0 at F0.1");
}

TEST(Communication, EveryStartHasOneWaitAfterIt) {
  auto lists =
      rt::insertCommunication(*planner::scheduleActions("1f1b", 3, 4), chainMessages(3, true));
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
  auto lists =
      rt::insertCommunication(*planner::scheduleActions("1f1b", 2, 3), chainMessages(2, true));
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

/// In 1F1B's steady state a stage's gradient goes while its next activation comes: one group.
TEST(Communication, OppositeTransfersOfAPairStartTogether) {
  auto messages = chainMessages(2, true);
  auto lists = rt::insertCommunication(*planner::scheduleActions("1f1b", 2, 4), messages);
  int together = 0;
  for (const auto &list : lists)
    for (size_t i = 0; i + 1 < list.size(); ++i)
      together += list[i].kind == Kind::PostRecv && list[i + 1].kind == Kind::Send;
  EXPECT_GE(together, 2);
}

} // namespace
