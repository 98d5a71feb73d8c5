//===- StepJsonText.h - What the readers and writers of step files share ----------------------===//
#ifndef RUNTIME_PLANNER_STEP_STEPJSONTEXT_H
#define RUNTIME_PLANNER_STEP_STEPJSONTEXT_H

#include "runtime/planner/json/JsonText.h"
#include "runtime/planner/step/StepProblem.h"
#include "runtime/support/JsonField.h"
#include "runtime/support/JsonWriter.h"

namespace omnibal::planner {

/// An integer from `low` to `high`; 25e9 is one.
int64_t stepInteger(const rt::JsonField &field, int64_t low, int64_t high);

/// [kind, micro-batch, part, chunk] of an action; numbers may not be above int32.
StepAction readStepAction(const rt::JsonField &field);
void writeStepActions(rt::JsonWriter &out, const std::vector<std::vector<StepAction>> &actions);

/// The word at place `value` of `words`, or of a field that must hold one of them.
template <typename Enum, size_t N>
Enum wordOf(const rt::JsonField &field, const std::array<std::string_view, N> &words) {
  std::string text = field.text();
  for (size_t i = 0; i < N; ++i)
    if (text == words[i])
      return static_cast<Enum>(i);
  std::string known;
  for (std::string_view word : words)
    known += (known.empty() ? "" : ", ") + std::string(word);
  field.fail("one of " + known + " is expected");
  return Enum{};
}

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_STEP_STEPJSONTEXT_H
