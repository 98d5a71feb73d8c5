//===- PlanAttributes.cpp ----------------------------------------------------------------===//
#include "passes/common/PlanAttributes.h"
#include "passes/common/ActionKinds.h"
#include "runtime/planner/model/ScheduleRules.h"
#include "llvm/ADT/StringRef.h"

using namespace mlir;

namespace omnibal {
namespace {

bool sameLists(const ActionLists &a, const ActionLists &b) {
  auto same = [](const planner::Action &x, const planner::Action &y) {
    return x.kind == y.kind && x.microbatch == y.microbatch && x.chunk == y.chunk;
  };
  return llvm::equal(a, b, [&](const auto &x, const auto &y) { return llvm::equal(x, y, same); });
}

SmallVector<ActionsAttr> writeActions(MLIRContext *context, const ActionLists &lists) {
  SmallVector<ActionsAttr> written;
  for (const std::vector<planner::Action> &list : lists) {
    SmallVector<PlannedAction> actions;
    for (const planner::Action &action : list)
      actions.push_back({kindAs<RunKind>(action.kind), action.microbatch, action.chunk});
    written.push_back(ActionsAttr::get(context, actions));
  }
  return written;
}

ActionLists readActions(ArrayRef<ActionsAttr> lists) {
  ActionLists read;
  for (ActionsAttr actions : lists) {
    std::vector<planner::Action> &list = read.emplace_back();
    for (const PlannedAction &action : actions.getList())
      list.push_back({kindAs<planner::ActionKind>(action.kind), action.microbatch, action.chunk});
  }
  return read;
}

/// The rules give the chunk at a position of the pipeline to stage position mod stages; the plan
/// says which stage that is.
llvm::Expected<ActionLists> expandSchedule(PlanAttr plan) {
  std::string schedule = plan.getSchedule().str();
  auto rule = planner::scheduleActions(schedule, plan.getStages(), plan.getMicrobatches());
  if (!rule)
    return llvm::createStringError("unknown schedule `" + schedule +
                                   "` in omnibal.plan, which has no actions of its own");
  int64_t chunks = 0, stages = plan.getStages();
  for (const std::vector<planner::Action> &list : *rule)
    for (const planner::Action &action : list)
      chunks = std::max(chunks, action.chunk + 1);
  ArrayRef<int64_t> placed = plan.getChunkStages();
  bool fits = static_cast<int64_t>(placed.size()) == chunks;
  for (size_t c = 0; fits && c < placed.size(); ++c)
    fits = placed[c] == placed[c % stages];
  if (!fits)
    return llvm::createStringError(
        "schedule `" + schedule + "` runs " + llvm::Twine(chunks) + " chunks in turn on " +
        llvm::Twine(stages) + " stages; omnibal.plan has " + llvm::Twine(placed.size()) +
        (static_cast<int64_t>(placed.size()) == chunks ? " in another order" : ""));
  ActionLists lists(stages);
  for (int64_t position = 0; position < stages; ++position)
    lists[placed[position]] = std::move((*rule)[position]);
  return lists;
}

} // namespace

llvm::Expected<ActionLists> computeActions(PlanAttr plan) {
  if (!plan.getActions().empty())
    return readActions(plan.getActions());
  return expandSchedule(plan);
}

PlanAttr makePlanAttr(MLIRContext *context, const planner::Plan &plan,
                      const planner::Cluster &cluster, int64_t microbatches) {
  auto make = [&](ArrayRef<ActionsAttr> actions) {
    return PlanAttr::get(context, plan.schedule, cluster.stages, microbatches, cluster.dataParallel,
                         cluster.zero, cluster.parts, plan.chunkStage, actions);
  };
  llvm::Expected<ActionLists> rule = computeActions(make({}));
  bool implied = rule && sameLists(*rule, plan.actions);
  if (!rule)
    llvm::consumeError(rule.takeError());
  return make(implied ? SmallVector<ActionsAttr>() : writeActions(context, plan.actions));
}

std::vector<bool> splitChunks(const ActionLists &lists, int64_t chunks) {
  std::vector<bool> split(chunks, false);
  for (const std::vector<planner::Action> &list : lists)
    for (const planner::Action &action : list)
      if (action.kind == planner::ActionKind::InputGrad)
        split[action.chunk] = true;
  return split;
}

} // namespace omnibal
