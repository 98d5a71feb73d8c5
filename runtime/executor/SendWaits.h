//===- SendWaits.h - Sends are awaited where their memory is needed ---------------------------===//
#ifndef RUNTIME_EXECUTOR_SENDWAITS_H
#define RUNTIME_EXECUTOR_SENDWAITS_H

#include "runtime/program/RunPlan.h"
#include <array>

namespace omnibal::rt {

/// Moves waits for sends of a step's list to where something else is first put into their memory,
/// or to the end of the list. A list that a plan gives waits as soon as it may: then a rank that is
/// a little late holds up those that it receives from, and they the next ones.
///
/// A later place is as safe: a wait there stands behind everything that it stood behind before, and
/// what it waits for does not depend on anything later in its own list (StepCommunication.h).
class SendWaits {
public:
  explicit SendWaits(const Mode &mode);

  /// `plan` says where regions lie, `loads` has V and N of each micro-batch.
  std::vector<Action> delayed(std::span<const Action> actions, const RunPlan &plan,
                              std::span<const RunLoad> loads) const;

private:
  const Mode &mode;
  /// By chunk and kind: regions with blocks that the action uses.
  std::vector<std::array<std::vector<int32_t>, std::size(computeKinds)>> used;
};

} // namespace omnibal::rt
#endif // RUNTIME_EXECUTOR_SENDWAITS_H
