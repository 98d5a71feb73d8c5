//===- StepRunsSeeds.cpp - First inputs of fuzz-step-runs: step-runs-seeds FOLDER -----------===//
//
// The step problems and stages of the tiny program on one and two stages.
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/program/ProgramIO.h"
#include "test/support/TemporaryFolder.h"
#include "test/unit/runtime/program/PlannedTiny.h"
#include <cstdio>

int main(int count, char **arguments) {
  using namespace omnibal;
  if (count != 2) {
    std::fprintf(stderr, "step-runs-seeds FOLDER\n");
    return 2;
  }
  const std::string folder = arguments[1];
  std::filesystem::create_directories(folder);
  for (int32_t stages : {1, 2}) {
    const rt::Program program = rt::plannedTinyProgram({.stages = stages, .microbatches = 1});
    test::writeFile(folder + "/step-runs-" + std::to_string(stages),
                    program.stepProblem + "\n---\n" + rt::stagesToJson(program));
  }
  return 0;
}
