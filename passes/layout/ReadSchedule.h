//===- ReadSchedule.h - Messages and actions of a module as data ------------------------------===//
#ifndef PASSES_LAYOUT_READSCHEDULE_H
#define PASSES_LAYOUT_READSCHEDULE_H

#include "dialects/omnibal/ir/OmnibalStageOps.h"
#include "passes/schedule/Messages.h"
#include "runtime/program/Program.h"
#include <map>
#include <set>

namespace omnibal::layout {

using schedule::Message;

/// The ops of omnibal-materialize-schedule, or the same ones written by hand.
struct Schedule {
  PlanAttr plan;
  std::vector<Message> messages;
  std::map<std::string, int32_t> messageIds;        ///< by the name of the transfer
  std::map<StageMode, std::vector<StageOp>> stages; ///< one a stage
  /// The kinds of runs of each chunk in a training step that some action runs.
  std::map<int64_t, std::set<rt::ActionKind>> runs;
  bool stepPlanned = false; ///< plans of single steps choose order and places
  /// By chunk: which of its calls' `omnibal.variants` its own actions run; empty: there are none.
  std::vector<int64_t> plannedVariant;
};

/// Reads the plan, transfers and stages of a module in form C. Reports where a stage has no list in
/// some mode and where the transfers are not just the values that chunks on different stages need
/// of each other; what the actions do with them is checked with the program.
llvm::FailureOr<Schedule> readSchedule(mlir::ModuleOp module, const analysis::CallGraph &graph);

/// Returns the actions of `op` in the program's terms: chunks and messages by their ids, shared
/// parameters by the groups and gradient reductions by the buckets of `stage`.
llvm::FailureOr<std::vector<rt::Action>> readActions(StageOp op, const Schedule &schedule,
                                                     const rt::Stage &stage);

} // namespace omnibal::layout
#endif // PASSES_LAYOUT_READSCHEDULE_H
