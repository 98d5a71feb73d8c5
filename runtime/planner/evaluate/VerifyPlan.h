//===- VerifyPlan.h - Whether a plan is what it says ----------------------------------------===//
#ifndef RUNTIME_PLANNER_EVALUATE_VERIFYPLAN_H
#define RUNTIME_PLANNER_EVALUATE_VERIFYPLAN_H

#include "runtime/planner/json/PlanJson.h"
#include "runtime/planner/model/Problem.h"

namespace omnibal::planner {

/// How a plan breaks a rule, and where.
struct Violation {
  std::string rule;             ///< "plan_c1" ..
  std::optional<int64_t> stage; ///< that it is about, where it is about one
  std::optional<int64_t> layer; ///< the first one that it is about
  std::string text;             ///< a sentence

  /// Returns the violation as a text for people.
  std::string message() const { return rule + ": " + text; }
};

/// Checks a complete plan against its problem; shares no code with the searches. The rules
/// (docs/planner.md has them too):
///   plan_c1  cuts cover all layers, no chunk is empty
///   plan_c2  every chunk is on a stage of the cluster, the one that its schedule demands
///   plan_c3  every layer has one of its rematerialization options
///   plan_c4  cuts and options are the given ones where they may not vary
///   plan_c5  every chunk runs F and one backward (B, or I then W) once a micro-batch, on its stage
///   plan_c6  a fixed schedule's actions are in its order
///   plan_c7  the action lists finish
///   plan_c8  no stage exceeds its memory
///   plan_c9  step, bound, gap and the stages' figures are what the simulator finds
std::vector<Violation> verifyPlan(const Problem &problem, const Plan &plan,
                                  const PlanClaims &claims = {});

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_EVALUATE_VERIFYPLAN_H
