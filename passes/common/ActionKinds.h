//===- ActionKinds.h - What a chunk computes, in the IR, in plans and in programs -------------===//
#ifndef PASSES_COMMON_ACTIONKINDS_H
#define PASSES_COMMON_ACTIONKINDS_H

#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "runtime/schedule/ActionKinds.h"
#include "llvm/Support/ErrorHandling.h"
#include <tuple>

namespace omnibal {

/// Each kind of computing action as an op, a plan and a program name it.
inline constexpr auto namesOfKinds = [] {
  constexpr std::array ops{RunKind::Forward, RunKind::Backward, RunKind::InputGrad,
                           RunKind::WeightGrad};
  std::array<std::tuple<RunKind, planner::ActionKind, rt::ActionKind>, ops.size()> names{};
  for (size_t k = 0; k < ops.size(); ++k)
    names[k] = {ops[k], rt::plannedKind(rt::computingKinds[k]), rt::computingKinds[k]};
  return names;
}();

/// Returns the `To` of the kind that is `from`, which must be a computing one.
template <typename To, typename From> To kindAs(From from) {
  for (const auto &kind : namesOfKinds)
    if (std::get<From>(kind) == from)
      return std::get<To>(kind);
  llvm_unreachable("only computing actions have a kind in the IR and in plans");
}

} // namespace omnibal

#endif // PASSES_COMMON_ACTIONKINDS_H
