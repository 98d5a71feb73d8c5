//===- ProgramSeeds.cpp - First inputs of fuzz-program: program-seeds FOLDER ----------------===//
//
// The tiny program in some layouts, with and without plans of single steps, and with two train
// modes, as ProgramFuzz.cpp takes it apart. They are made when they are needed, so that they follow
// the format.
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/program/ProgramIO.h"
#include "runtime/program/Verifier.h"
#include "test/support/TemporaryFolder.h"
#include "test/unit/runtime/program/PlannedTiny.h"
#include "test/unit/runtime/program/TinyModes.h"
#include <cstdio>

namespace omnibal::rt {
namespace {

std::string inputOf(const Program &program) {
  const std::string separator = "\n---\n";
  std::string input = settingsToJson(program).dump() + separator + functionsToJson(program) +
                      separator + stagesToJson(program) + separator + "{}";
  if (!program.stepProblem.empty())
    input += separator + program.stepProblem;
  return input;
}

} // namespace
} // namespace omnibal::rt

int main(int count, char **arguments) {
  using namespace omnibal;
  if (count != 2) {
    std::fprintf(stderr, "program-seeds FOLDER\n");
    return 2;
  }
  const std::string folder = arguments[1];
  std::filesystem::create_directories(folder);
  int number = 0;
  for (int32_t stages : {1, 2}) {
    const rt::TinyOptions layout{.stages = stages, .microbatches = 1};
    const rt::TinyOptions modes[] = {{.stages = stages, .microbatches = 1, .tokensCap = 8}, layout};
    for (const rt::Program &program :
         {rt::tinyProgram(layout), rt::plannedTinyProgram(layout), rt::tinyModes(modes)}) {
      if (rt::Status status = rt::verifyProgram(program); !status) {
        std::fprintf(stderr, "%s\n", status.message().c_str());
        return 1;
      }
      test::writeFile(folder + "/program-" + std::to_string(number++), rt::inputOf(program));
    }
  }
  return 0;
}
