//===- ActionKinds.h - What a chunk computes, in the IR, in plans and in programs -------------===//
#ifndef PASSES_COMMON_ACTIONKINDS_H
#define PASSES_COMMON_ACTIONKINDS_H

#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "runtime/planner/model/Plan.h"
#include "runtime/program/Program.h"
#include "llvm/Support/ErrorHandling.h"
#include <tuple>

namespace omnibal {

/// Each kind of computing action as an op, a plan and a program name it.
inline constexpr std::tuple<RunKind, planner::ActionKind, rt::ActionKind> namesOfKinds[] = {
    {RunKind::Forward, planner::ActionKind::Forward, rt::ActionKind::Forward},
    {RunKind::Backward, planner::ActionKind::Backward, rt::ActionKind::Backward},
    {RunKind::InputGrad, planner::ActionKind::InputGrad, rt::ActionKind::InputGrad},
    {RunKind::WeightGrad, planner::ActionKind::WeightGrad, rt::ActionKind::WeightGrad}};

/// Returns the `To` of the kind that is `from`, which must be a computing one.
template <typename To, typename From> To kindAs(From from) {
  for (const auto &kind : namesOfKinds)
    if (std::get<From>(kind) == from)
      return std::get<To>(kind);
  llvm_unreachable("only computing actions have a kind in the IR and in plans");
}

} // namespace omnibal

#endif // PASSES_COMMON_ACTIONKINDS_H
