//===- StepPlansTest.cpp - Plans of coming steps, for several threads ------------------------===//
#include "runtime/schedule/StepPlans.h"
#include "test/unit/runtime/schedule/RandomPlannedStep.h"
#include <atomic>
#include <condition_variable>
#include <gtest/gtest.h>
#include <mutex>
#include <thread>

namespace omnibal::rt {
namespace {

constexpr int64_t tilesCap = 6, tokensCap = 40;

/// A chunk of pictures and two of text on two stages.
planner::StepProblem smallProblem() {
  planner::StepCaseKind kind{.mostStages = 2, .mostMicrobatches = 4, .mostChunks = 3};
  kind.hasParts = false;
  for (uint64_t seed = 0;; ++seed) {
    planner::StepProblem problem = planner::randomStepCase(seed, kind).problem;
    problem.tilesCap = tilesCap;
    problem.tokensCap = tokensCap;
    if (problem.microbatches > 2 && problem.chunks.size() == 3 && !messagesOf(problem).empty())
      return problem;
  }
}

planner::StepLoads loadsOf(const planner::StepProblem &problem, int64_t step) {
  planner::StepLoads loads{step, {}};
  for (int64_t m = 0; m < problem.microbatches; ++m) {
    planner::MicrobatchLoad &entry = loads.microbatches.emplace_back();
    entry.load.tiles = (step * 5 + m * 3) % (tilesCap + 1);
    entry.load.tokens = (step * 11 + m * 7) % (tokensCap + 1);
  }
  return loads;
}

/// Counts the plans that are made, and holds them back while it is shut.
class Gate {
public:
  explicit Gate(const planner::StepProblem &problem) : problem(problem) {}

  StepPlansOptions options(int64_t takers) {
    return {{1000, 10}, takers, [this](const planner::StepLoads &loads) {
              std::unique_lock<std::mutex> lock(mutex);
              steps.push_back(loads.step);
              changed.notify_all();
              changed.wait(lock, [&] { return isOpen; });
              lock.unlock();
              return planner::StepPlanner(problem, {1000, 10}).plan(loads);
            }};
  }
  void open(bool value = true) {
    std::lock_guard<std::mutex> lock(mutex);
    isOpen = value;
    changed.notify_all();
  }
  /// Waits until as many plans have begun; their steps.
  std::vector<int64_t> begun(size_t count) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return steps.size() >= count; });
    return steps;
  }
  std::vector<int64_t> begunNow() { return begun(0); }

private:
  const planner::StepProblem &problem;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int64_t> steps;
  bool isOpen = true;
};

TEST(StepPlans, RanksThatAreThreadsShareEachPlan) {
  planner::StepProblem problem = smallProblem();
  Gate gate(problem);
  constexpr int64_t ranks = 3, replicas = 2, steps = 30;
  StepPlans plans(problem, messagesOf(problem), gate.options(ranks));
  std::vector<const PlannedStep *> seen(ranks * replicas * steps);
  std::vector<std::shared_ptr<const PlannedStep>> kept(seen.size());
  std::vector<std::thread> threads;
  std::atomic<int> errors = 0;
  for (int64_t replica = 0; replica < replicas; ++replica)
    for (int64_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, replica, rank] {
        for (int64_t step = 0; step < steps; ++step) {
          for (int64_t next = step; next < std::min(step + 3, steps); ++next)
            errors += !plans.expect(replica, loadsOf(problem, next)).isOk();
          Result<TakenStep> taken = plans.take(replica, loadsOf(problem, step));
          errors += !taken.isOk();
          if (taken)
            kept[(replica * steps + step) * ranks + rank] = taken->step;
        }
      });
  for (std::thread &thread : threads)
    thread.join();
  ASSERT_EQ(errors, 0);
  for (size_t i = 0; i < kept.size(); ++i) {
    ASSERT_TRUE(kept[i]);
    const PlannedStep &step = *kept[i];
    EXPECT_EQ(step.plan.step, static_cast<int64_t>(i) / ranks % steps);
    EXPECT_EQ(step.plan.actions, kept[i - i % ranks]->plan.actions);
    Status status = checkStep(problem, loadsOf(problem, step.plan.step), step, messagesOf(problem));
    EXPECT_TRUE(status) << status.message();
    ASSERT_EQ(step.times.starts.size(), step.plan.actions.size());
    int64_t end = 0;
    for (const std::vector<int64_t> &ends : step.times.ends)
      for (int64_t at : ends)
        end = std::max(end, at);
    EXPECT_EQ(end, step.plan.stepNs);
  }
  // A rank may be more than four steps behind and has its plan made again; not as a rule.
  EXPECT_GE(gate.begunNow().size(), static_cast<size_t>(replicas * steps));
}

TEST(StepPlans, EachPlanIsMadeOnceForRanksThatGoTogether) {
  planner::StepProblem problem = smallProblem();
  Gate gate(problem);
  StepPlans plans(problem, messagesOf(problem), gate.options(2));
  for (int64_t step = 0; step < 10; ++step) {
    for (int rank = 0; rank < 2; ++rank)
      ASSERT_TRUE(plans.expect(0, loadsOf(problem, step)));
    auto first = plans.take(0, loadsOf(problem, step)),
         second = plans.take(0, loadsOf(problem, step));
    ASSERT_TRUE(first && second);
    EXPECT_EQ(first->step, second->step);
    EXPECT_GE(first->waitMs, 0);
  }
  EXPECT_EQ(gate.begunNow().size(), 10u);
}

TEST(StepPlans, StepsArePlannedTwoAhead) {
  planner::StepProblem problem = smallProblem();
  Gate gate(problem);
  StepPlans plans(problem, messagesOf(problem), gate.options(1));
  for (int64_t step : {7, 5, 6, 8, 9})
    ASSERT_TRUE(plans.expect(0, loadsOf(problem, step)));
  // 5 need not have been the first to be announced.
  EXPECT_GE(gate.begun(2).size(), 2u);
  EXPECT_EQ(std::ranges::count(gate.begunNow(), 9), 0);
  ASSERT_TRUE(plans.take(0, loadsOf(problem, 5)));
  gate.begun(3);
  EXPECT_EQ(std::ranges::count(gate.begunNow(), 9), 0);
  ASSERT_TRUE(plans.take(0, loadsOf(problem, 6)));
  ASSERT_TRUE(plans.take(0, loadsOf(problem, 7)));
  std::vector<int64_t> steps = gate.begun(5);
  std::ranges::sort(steps);
  EXPECT_EQ(steps, (std::vector<int64_t>{5, 6, 7, 8, 9}));
}

TEST(StepPlans, StepsThatNobodyAnnouncedAreMadeByWhoTakesThem) {
  planner::StepProblem problem = smallProblem();
  Gate gate(problem);
  StepPlans plans(problem, messagesOf(problem), gate.options(1));
  auto taken = plans.take(3, loadsOf(problem, 100));
  ASSERT_TRUE(taken);
  EXPECT_GE(taken->waitMs, taken->step->planMs);
  // Once more than there are takers, and long after: the same plan.
  auto again = plans.take(3, loadsOf(problem, 100));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->step->plan.actions, taken->step->plan.actions);
  ASSERT_TRUE(plans.take(3, loadsOf(problem, 110)));
  EXPECT_TRUE(plans.expect(3, loadsOf(problem, 100)));
  again = plans.take(3, loadsOf(problem, 100));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->step->plan.actions, taken->step->plan.actions);
  EXPECT_EQ(gate.begunNow(), (std::vector<int64_t>{100, 100, 110, 100}));
}

TEST(StepPlans, WhoTakesAStepDoesNotWaitForLaterOnes) {
  planner::StepProblem problem = smallProblem();
  Gate gate(problem);
  gate.open(false);
  StepPlans plans(problem, messagesOf(problem), gate.options(1));
  ASSERT_TRUE(plans.expect(0, loadsOf(problem, 1)));
  gate.begun(1);
  std::thread rank([&] { EXPECT_TRUE(plans.take(0, loadsOf(problem, 0))); });
  // Its plan begins although the other thread is at work.
  EXPECT_EQ(gate.begun(2), (std::vector<int64_t>{1, 0}));
  gate.open();
  rank.join();
}

TEST(StepPlans, PlansAreDroppedWhenAllHaveThemOrTheyAreOld) {
  planner::StepProblem problem = smallProblem();
  Gate gate(problem);
  StepPlans plans(problem, messagesOf(problem), gate.options(2));
  std::weak_ptr<const PlannedStep> first, second;
  first = plans.take(0, loadsOf(problem, 0))->step;
  second = plans.take(0, loadsOf(problem, 1))->step;
  EXPECT_FALSE(first.expired());
  ASSERT_TRUE(plans.take(0, loadsOf(problem, 0)));
  EXPECT_TRUE(first.expired());
  ASSERT_TRUE(plans.take(0, loadsOf(problem, 5)));
  EXPECT_FALSE(second.expired());
  ASSERT_TRUE(plans.take(0, loadsOf(problem, 6)));
  EXPECT_TRUE(second.expired());
}

TEST(StepPlans, LoadsThatDoNotFitAreErrors) {
  planner::StepProblem problem = smallProblem();
  StepPlans plans(problem, messagesOf(problem), {{1000, 10}, 1, {}});
  planner::StepLoads loads = loadsOf(problem, 7);
  loads.microbatches[1].load.tiles = tilesCap + 1;
  for (const Status &status : {plans.expect(2, loads), plans.take(2, loads).status()}) {
    EXPECT_EQ(status.code(), Code::InvalidArgument);
    EXPECT_EQ(
        status.message(),
        "step 7 of replica 2: micro-batch 1 has 7 tiles; the cap is 6; compose batches within "
        "the caps and the micro-batches of the program, or compile it for these (--tiles, "
        "--tokens, --microbatches)");
  }
  loads = loadsOf(problem, 7);
  loads.microbatches.pop_back();
  EXPECT_NE(plans.take(0, loads).status().message().find("micro-batches, the problem"),
            std::string::npos);
}

TEST(StepPlans, RanksThatDisagreeAboutAStepAreAnError) {
  planner::StepProblem problem = smallProblem();
  StepPlans plans(problem, messagesOf(problem), {{1000, 10}, 2, {}});
  planner::StepLoads loads = loadsOf(problem, 8);
  loads.step = 7;
  // What was announced only does not count: a sample may have been left out since.
  ASSERT_TRUE(plans.expect(0, loads));
  ASSERT_TRUE(plans.take(0, loadsOf(problem, 7)));
  for (const Status &status : {plans.expect(0, loads), plans.take(0, loads).status()})
    EXPECT_NE(status.message().find("step 7 of replica 0 is announced with two kinds of loads"),
              std::string::npos)
        << status.message();
  // Another replica has loads of its own.
  EXPECT_TRUE(plans.take(1, loads));
  // A step that all have taken may begin anew.
  ASSERT_TRUE(plans.take(0, loadsOf(problem, 7)));
  EXPECT_TRUE(plans.take(0, loads));
}

TEST(StepPlans, WhatPlanningThrowsIsTheErrorOfEveryTake) {
  planner::StepProblem problem = smallProblem();
  StepPlansOptions options{{}, 2, [](const planner::StepLoads &loads) -> planner::StepPlan {
                             if (loads.step == 1)
                               throw std::bad_alloc();
                             throw std::runtime_error("no such list");
                           }};
  StepPlans plans(problem, messagesOf(problem), options);
  ASSERT_TRUE(plans.expect(0, loadsOf(problem, 0)));
  for (int rank = 0; rank < 3; ++rank) {
    Status status = plans.take(0, loadsOf(problem, 0)).status();
    EXPECT_EQ(status.code(), Code::Internal);
    EXPECT_EQ(status.message(), "step 0 of replica 0: planning it failed: no such list");
    EXPECT_EQ(plans.take(0, loadsOf(problem, 1)).status().code(), Code::OutOfMemory);
  }
}

TEST(StepPlans, DestructionEndsAfterThePlanThatIsBeingMade) {
  planner::StepProblem problem = smallProblem();
  for (int round = 0; round < 50; ++round) {
    Gate gate(problem);
    gate.open(round % 2);
    std::thread opener;
    {
      StepPlans plans(problem, messagesOf(problem), gate.options(1));
      for (int64_t step = 0; step < 6; ++step)
        ASSERT_TRUE(plans.expect(0, loadsOf(problem, step)));
      if (round % 2 == 0) {
        gate.begun(1);
        opener = std::thread([&] { gate.open(); });
      }
    }
    if (opener.joinable())
      opener.join();
    EXPECT_LE(gate.begunNow().size(), 2u);
  }
}

TEST(CheckStep, RandomPlansPassAndBrokenOnesDoNot) {
  int checked = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    auto random = RandomPlannedStep::make(seed);
    if (!random)
      continue;
    PlannedStep planned{random->plan, random->times,
                        insertCommunication(random->plan.actions, random->times, random->messages),
                        0};
    auto check = [&](const PlannedStep &step) {
      return checkStep(random->problem, random->loads, step, random->messages).message();
    };
    ASSERT_EQ(check(planned), "") << seed;
    size_t stage = 0;
    while (planned.lists[stage].empty() ||
           planned.lists[stage].back().kind <= ActionKind::WeightGrad)
      if (++stage == planned.lists.size())
        break;
    if (stage == planned.lists.size())
      continue;
    ++checked;
    std::string where = "the plan of step " + std::to_string(random->loads.step) + ": ";
    PlannedStep broken = planned;
    broken.lists[stage].pop_back();
    EXPECT_EQ(check(broken).substr(0, where.size() + 3), where + "p7:") << seed;
    broken = planned;
    std::erase_if(broken.lists[stage],
                  [](const Action &action) { return action.kind == ActionKind::Forward; });
    EXPECT_NE(check(broken).find("computing action"), std::string::npos) << seed;
    broken = planned;
    broken.plan.stepNs += 1;
    EXPECT_EQ(check(broken).substr(0, where.size() + 8), where + "step_s7:") << seed;
    broken = planned;
    broken.lists.pop_back();
    EXPECT_NE(check(broken).find("it has lists of"), std::string::npos) << seed;
  }
  EXPECT_GT(checked, 50);
}

} // namespace
} // namespace omnibal::rt
