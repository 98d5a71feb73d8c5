//===- ProblemJson.h - Planning problems as JSON --------------------------------------------===//
#ifndef RUNTIME_PLANNER_JSON_PROBLEMJSON_H
#define RUNTIME_PLANNER_JSON_PROBLEMJSON_H

#include "runtime/planner/model/Problem.h"
#include "runtime/support/JsonWriter.h"
#include "runtime/support/Status.h"
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace omnibal::planner {

/// Reads "omnibal.plan-problem/1" (docs/planner.md). Checked: every key known, integers at least 0,
/// edges forward, options that begin with "keep", factors one a micro-batch, `given` exactly for
/// what may not vary, all times and sizes small enough to be summed (ProblemSize.h). Messages name
/// the file and the key.
rt::Result<Problem> readProblem(const std::string &path);
/// The same from text; `where` stands for the file in messages.
rt::Result<Problem> parseProblem(std::string_view text, const std::string &where);
rt::Result<Problem> problemOf(const nlohmann::json &value, const std::string &where);

/// The problem in the form of docs/planner.md, newline at the end.
std::string writeProblem(const Problem &problem);

/// `layers` and `edges` of an object, for files with several; `where` stands for it in messages.
rt::Status readLayers(const nlohmann::json &object, const std::string &where, Problem &problem);
void writeLayers(rt::JsonWriter &out, const Problem &problem);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_JSON_PROBLEMJSON_H
