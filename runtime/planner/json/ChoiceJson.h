//===- ChoiceJson.h - Costs by parts, for ranks that nobody has divided, as JSON -------------===//
#ifndef RUNTIME_PLANNER_JSON_CHOICEJSON_H
#define RUNTIME_PLANNER_JSON_CHOICEJSON_H

#include "runtime/planner/model/PlanChoice.h"
#include "runtime/support/Status.h"
#include <string_view>
#include <variant>

namespace omnibal::planner {

/// Reads "omnibal.plan-choice/1" (docs/planner.md); `where` stands for the file in messages.
/// Checked: what is checked of a problem, no two costs for the same, as many layers in all, and the
/// usual costs wherever others are given.
rt::Result<PlanChoice> parseChoice(std::string_view text, const std::string &where);

using ProblemOrChoice = std::variant<Problem, PlanChoice>;
/// Reads a file whose `schema` says that it is a choice; any other has to be a problem.
rt::Result<ProblemOrChoice> readProblemOrChoice(const std::string &path);

/// The choice in the form of docs/planner.md, newline at the end.
std::string writeChoice(const PlanChoice &choice);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_JSON_CHOICEJSON_H
