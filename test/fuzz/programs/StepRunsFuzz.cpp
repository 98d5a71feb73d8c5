//===- StepRunsFuzz.cpp - Step problems beside the stages that run their plans ----------------===//
//
// An input is a step problem and stages.json of the tiny program, whose settings and functions stay
// as they are. Of a program that the verifier accepts, every stage opens the plans of its steps.
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/executor/StepRuns.h"
#include "runtime/program/ProgramIO.h"
#include "runtime/program/Verifier.h"
#include "runtime/support/Json.h"
#include "test/fuzz/Fuzz.h"
#include "test/unit/runtime/program/PlannedTiny.h"

namespace omnibal::fuzz {

const Allowance allowance{size_t{16} << 20, 4096};

namespace {

using namespace rt;

constexpr size_t mostStages = 2;

const Program &tinyOf(size_t stages) {
  static const std::array<Program, mostStages> programs = {
      plannedTinyProgram({.stages = 1, .microbatches = 1}),
      plannedTinyProgram({.stages = 2, .microbatches = 1})};
  return programs.at(stages - 1);
}

/// The tiny program with these stages.
Result<Program> programOf(std::string_view stages) {
  OMNIBAL_ASSIGN_OR_RETURN(const nlohmann::json list, parseJson(stages, "stages.json"));
  if (!list.is_array() || list.empty() || list.size() > mostStages)
    return Status(Code::InvalidArgument, "stages.json has none or too many");
  Program program = tinyOf(list.size());
  program.stageList.clear();
  for (const nlohmann::json &each : list) {
    OMNIBAL_ASSIGN_OR_RETURN(Stage stage, stageFromJson(each, "stage"));
    program.stageList.push_back(std::move(stage));
  }
  return program;
}

} // namespace

void run(std::string_view input) {
  std::vector<std::string_view> parts = partsOf(input);
  if (parts.size() < 2)
    return;
  auto program = programOf(parts[1]);
  if (!program)
    return;
  program->stepProblem = parts[0];
  if (!verifyProgram(*program))
    return;
  for (const Stage &stage : program->stageList) {
    auto runs = StepRuns::open(*program, stage, 0, nullptr);
    require(runs || !runs.status().message().empty(), "a refusal says nothing");
  }
}

} // namespace omnibal::fuzz
