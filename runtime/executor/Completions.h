//===- Completions.h - Where gradients are complete in a list of actions ----------------------===//
#ifndef RUNTIME_EXECUTOR_COMPLETIONS_H
#define RUNTIME_EXECUTOR_COMPLETIONS_H

#include "runtime/program/RunPlan.h"
#include <tuple>

namespace omnibal::rt {

/// A layer of a computing action after which a bucket's gradients change no more.
struct Completion {
  size_t layer;
  int32_t bucket;
};
/// The key is the action's kind, index and unit.
using Completions = std::map<std::tuple<ActionKind, int32_t, Unit>, std::vector<Completion>>;

/// Where a bucket's gradients are added to for the last time: positions of the action and of its
/// layer.
struct LastAddition {
  int64_t action = -1; ///< -1: nowhere, or on several stages, which add them up first
  size_t layer = 0;
  friend auto operator<=>(const LastAddition &, const LastAddition &) = default;
};
/// By bucket.
std::vector<LastAddition> lastAdditions(const Stage &stage, const Mode &mode,
                                        std::span<const Action> actions);
/// Finds where buckets are complete. Buckets with a parameter of several stages are left out,
/// because the stages add these up first.
Completions findCompletions(const Stage &stage, const Mode &mode, std::span<const Action> actions);

/// Puts the end of the mode's own list behind a step's actions of micro-batches, and its sums of
/// buckets, in ascending order on every replica, each where it and all before it are complete and
/// behind the messages that are started there.
std::vector<Action> withEpilogue(const Stage &stage, const Mode &mode, std::vector<Action> actions);

} // namespace omnibal::rt
#endif // RUNTIME_EXECUTOR_COMPLETIONS_H
