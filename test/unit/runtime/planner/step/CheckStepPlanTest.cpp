//===- CheckStepPlanTest.cpp - Each way to break a plan is named by its rule ------------------===//
#include "runtime/planner/step/CheckStepPlan.h"
#include "runtime/planner/step/StepSearch.h"
#include "test/unit/runtime/planner/step/RandomStepProblem.h"
#include <functional>
#include <gtest/gtest.h>
#include <map>

namespace omnibal::planner {
namespace {

bool isNamed(const std::vector<StepViolation> &violations, const std::string &rule) {
  return std::any_of(violations.begin(), violations.end(),
                     [&](const StepViolation &violation) { return violation.rule == rule; });
}

/// A way to break a plan, and the rule that it breaks. False where the plan has nothing of the
/// kind.
struct Break {
  const char *rule, *name;
  std::function<bool(StepPlan &, const StepCase &, Draw &)> apply;
};

template <typename T> T *oneOf(std::vector<std::vector<T>> &lists, Draw &draw) {
  std::vector<T *> all;
  for (std::vector<T> &list : lists)
    for (T &element : list)
      all.push_back(&element);
  return all.empty() ? nullptr : all[draw(0, static_cast<int64_t>(all.size()) - 1)];
}

template <typename T> std::vector<T> *oneList(std::vector<std::vector<T>> &lists, Draw &draw) {
  std::vector<std::vector<T> *> all;
  for (std::vector<T> &list : lists)
    if (!list.empty())
      all.push_back(&list);
  return all.empty() ? nullptr : all[draw(0, static_cast<int64_t>(all.size()) - 1)];
}

template <typename T> bool dropOne(std::vector<std::vector<T>> &lists, Draw &draw) {
  std::vector<T> *list = oneList(lists, draw);
  if (list)
    list->erase(list->begin() + draw(0, static_cast<int64_t>(list->size()) - 1));
  return list;
}

template <typename T> bool repeatOne(std::vector<std::vector<T>> &lists, Draw &draw) {
  std::vector<T> *list = oneList(lists, draw);
  if (list)
    list->push_back((*list)[draw(0, static_cast<int64_t>(list->size()) - 1)]);
  return list;
}

/// Moves the last element of a list to the end of the next one.
template <typename T> bool moveOne(std::vector<std::vector<T>> &lists, Draw &draw) {
  std::vector<T> *list = oneList(lists, draw);
  if (!list || lists.size() < 2)
    return false;
  lists[(static_cast<size_t>(list - lists.data()) + 1) % lists.size()].push_back(list->back());
  list->pop_back();
  return true;
}

bool setOffset(StepPlan &plan, Draw &draw, const std::function<int64_t(int64_t)> &to) {
  BlockPlace *place = oneOf(plan.places, draw);
  if (place)
    place->offset = to(place->offset);
  return place;
}

std::vector<Break> breaks() {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  return {
      {"step_s1", "borders of one micro-batch are missing",
       [](StepPlan &plan, const StepCase &, Draw &) { return plan.borders.pop_back(), true; }},
      {"step_s1", "the last part is longer than the micro-batch",
       [](StepPlan &plan, const StepCase &, Draw &draw) {
         std::vector<int64_t> *borders = oneList(plan.borders, draw);
         return borders && ++borders->back();
       }},
      {"step_s2", "an action is missing",
       [](StepPlan &plan, const StepCase &, Draw &draw) { return dropOne(plan.actions, draw); }},
      {"step_s2", "an action runs twice",
       [](StepPlan &plan, const StepCase &, Draw &draw) { return repeatOne(plan.actions, draw); }},
      {"step_s2", "an action runs on another rank",
       [](StepPlan &plan, const StepCase &, Draw &draw) { return moveOne(plan.actions, draw); }},
      {"step_s2", "an action is of another kind",
       [](StepPlan &plan, const StepCase &, Draw &draw) {
         StepAction *action = oneOf(plan.actions, draw);
         if (action)
           action->kind =
               static_cast<ActionKind>((static_cast<int>(action->kind) + draw(1, 3)) % 4);
         return action != nullptr;
       }},
      {"step_s2", "an action is of a part that does not exist",
       [](StepPlan &plan, const StepCase &, Draw &draw) {
         StepAction *action = oneOf(plan.actions, draw);
         return action && (action->part += 64);
       }},
      {"step_s3", "a chunk has no variants",
       [](StepPlan &plan, const StepCase &, Draw &) { return plan.variants.pop_back(), true; }},
      {"step_s3", "a unit has a variant that does not exist",
       [](StepPlan &plan, const StepCase &random, Draw &draw) {
         int64_t chunk = draw(0, static_cast<int64_t>(plan.variants.size()) - 1);
         int64_t *variant = oneOf(plan.variants[chunk], draw);
         if (variant)
           *variant = static_cast<int64_t>(random.problem.chunks[chunk].variants.size());
         return variant != nullptr;
       }},
      {"step_s6", "a block has no offset",
       [](StepPlan &plan, const StepCase &, Draw &draw) { return dropOne(plan.places, draw); }},
      {"step_s6", "a block has two offsets",
       [](StepPlan &plan, const StepCase &, Draw &draw) { return repeatOne(plan.places, draw); }},
      {"step_s6", "a block lies on another rank",
       [](StepPlan &plan, const StepCase &, Draw &draw) { return moveOne(plan.places, draw); }},
      {"step_s6", "a block lies below the memory",
       [](StepPlan &plan, const StepCase &random, Draw &draw) {
         return setOffset(plan, draw, [&](int64_t) { return -random.problem.alignment; });
       }},
      {"step_s6", "a block is not aligned",
       [](StepPlan &plan, const StepCase &random, Draw &draw) {
         return random.problem.alignment > 1 &&
                setOffset(plan, draw, [](int64_t offset) { return offset + 1; });
       }},
      {"step_s6", "a block lies above the memory",
       [](StepPlan &plan, const StepCase &random, Draw &draw) {
         return !random.problem.memoryBytes.empty() &&
                setOffset(plan, draw, [&](int64_t) { return most - most % 16; });
       }},
      {"step_s6", "a static plan has offsets",
       [](StepPlan &plan, const StepCase &, Draw &) {
         bool isStatic = plan.method == StepMethod::Static;
         if (isStatic)
           plan.places = {{BlockPlace()}};
         return isStatic;
       }},
      {"step_s7", "the time of the step is another one",
       [](StepPlan &plan, const StepCase &, Draw &) { return plan.stepNs -= 1, true; }},
      {"step_s7", "the bound is another one",
       [](StepPlan &plan, const StepCase &, Draw &) { return plan.boundNs += 1, true; }},
      {"step_s7", "the time of the static plan is another one",
       [](StepPlan &plan, const StepCase &, Draw &) { return plan.staticNs += 1, true; }},
  };
}

TEST(CheckStepPlan, EachWayToBreakAPlanIsNamed) {
  std::map<std::string, int> broken;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    StepCase random = randomStepCase(seed);
    StepPlan valid = StepPlanner(random.problem, {1000, 20}).plan(random.loads);
    ASSERT_TRUE(checkStepPlan(random.problem, random.loads, valid).empty()) << seed;
    Draw draw(seed);
    for (const Break &way : breaks()) {
      StepPlan plan = valid;
      if (!way.apply(plan, random, draw))
        continue;
      EXPECT_TRUE(isNamed(checkStepPlan(random.problem, random.loads, plan), way.rule))
          << "seed " << seed << ": " << way.name;
      ++broken[way.name];
    }
  }
  for (const Break &way : breaks())
    EXPECT_GE(broken[way.name], 20) << way.name;
}

} // namespace
} // namespace omnibal::planner
