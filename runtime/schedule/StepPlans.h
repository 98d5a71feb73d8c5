//===- StepPlans.h - Plans of coming steps, made beside the training ----------------------===//
#ifndef RUNTIME_SCHEDULE_STEPPLANS_H
#define RUNTIME_SCHEDULE_STEPPLANS_H

#include "runtime/planner/step/StepSearch.h"
#include "runtime/schedule/StepCommunication.h"
#include "runtime/support/Status.h"
#include <functional>
#include <memory>

namespace omnibal::rt {

/// The messages of a step problem: one an edge between stages, and one for its gradient. Ids are
/// their numbers.
std::vector<Message> messagesOf(const planner::StepProblem &problem);

/// The plan of one step of one replica.
struct PlannedStep {
  planner::StepPlan plan;
  ActionTimes times; ///< of plan.actions
  /// plan.actions with their messages, by stage; none for a static plan, whose lists are those of
  /// its program.
  std::vector<std::vector<Action>> lists;
  double recomputed = 0; ///< what its variants take more than the fastest ones, as a share of these
  double planMs = 0;     ///< that making it took
};

struct TakenStep {
  std::shared_ptr<const PlannedStep> step;
  double waitMs = 0; ///< that this call waited for it, or made it itself
};

struct StepPlansOptions {
  planner::StepSearchOptions search; ///< micro-batches stay whole, whatever it says
  /// How many times each plan is taken in this process: once a stage that it runs of a replica.
  int64_t takers = 1;
  /// Makes a plan; the planner's search if empty. Called by several threads at once.
  std::function<planner::StepPlan(const planner::StepLoads &)> plan = {};
  TransportOrder order = TransportOrder::OneQueue;
};

/// Plans the steps that were announced, on a thread of its own. Ranks that are threads of a process
/// share one of these, so that each plan is made once; processes make their own, which are the same
/// because a plan is a function of problem and loads. All functions may be called by any thread.
///
/// A replica's plans are made for at most two steps beyond the last one that anybody has taken, and
/// are dropped when all have taken them, or when somebody takes a plan that is more than four steps
/// later.
class StepPlans {
public:
  /// `problem` is one that parseStepProblem accepts; `messages` are those of the program's mode.
  StepPlans(planner::StepProblem problem, std::vector<Message> messages, StepPlansOptions options);
  /// Ends after the plan that is being made. Nobody may be in take() then.
  ~StepPlans();
  StepPlans(const StepPlans &) = delete;
  StepPlans &operator=(const StepPlans &) = delete;

  const planner::StepProblem &problem() const;
  const std::vector<Message> &messages() const;

  /// Announces a step (StepLoads::step) of a replica. Every rank of the replica may do so. Other
  /// loads for a step that only some of its ranks have taken are an error, as are loads that do not
  /// fit the problem; before and afterwards they replace what was announced. Does not wait.
  Status expect(int64_t replica, const planner::StepLoads &loads);

  /// Waits for the plan of a step, or makes it on this thread if nobody has begun to. An error of
  /// the planner is the error of every take of this step.
  Result<TakenStep> take(int64_t replica, const planner::StepLoads &loads);

private:
  class State;
  std::unique_ptr<State> state;
};

/// Checks the plan of a step in full, for all stages: the rules of checkStepPlan, then p7, p8 and
/// where messages are performed in order, p11 on its lists with messages. The error is Internal and
/// names step, rule and place.
Status checkStep(const planner::StepProblem &problem, const planner::StepLoads &loads,
                 const PlannedStep &planned, const std::vector<Message> &messages,
                 TransportOrder order = TransportOrder::OneQueue);

} // namespace omnibal::rt
#endif // RUNTIME_SCHEDULE_STEPPLANS_H
