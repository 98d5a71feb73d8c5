//===- ProgramFuzz.cpp - Program directories, as omnibal-run opens them ----------------------===//
//
// The parts are manifest.json, functions.json, stages.json, the header of the constants and, where
// steps are planned one by one, step-problem.json. A manifest that does not list files gets its
// version and the files' sizes and checksums.
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/program/Printer.h"
#include "runtime/program/ProgramIO.h"
#include "runtime/program/Verifier.h"
#include "runtime/program/Workspace.h"
#include "runtime/support/Checksum.h"
#include "runtime/support/Formats.h"
#include "runtime/support/Json.h"
#include "test/fuzz/Fuzz.h"

namespace omnibal::fuzz {

const Allowance allowance{size_t{4} << 20, 2048};

namespace {

using namespace rt;
using nlohmann::json;

/// Files of a program whose steps are not planned.
constexpr size_t plainFiles = 3;

std::string sealed(std::string_view text,
                   const std::vector<std::pair<const char *, std::string>> &files) {
  auto manifest = parseJson(text, "manifest");
  if (!manifest || !manifest->is_object() || manifest->contains("files"))
    return std::string(text);
  if (!manifest->contains("version"))
    (*manifest)["version"] = manifest->contains("train_modes") ? formats::modesProgram
                             : files.size() > plainFiles       ? formats::stepProgram
                                                               : formats::program;
  for (const auto &[name, bytes] : files)
    (*manifest)["files"][name] = {{"bytes", bytes.size()},
                                  {"checksum", checksumText(fnv1a(bytes))}};
  return manifest->dump();
}

json parsed(const std::string &text) {
  auto value = parseJson(text, "written");
  require(value.status());
  return *std::move(value);
}

/// What others do with a program without looking at it first.
void use(const Program &program) {
  printProgram(program);
  for (const Stage &stage : program.stageList) {
    describe(workspaceOf(program, stage));
    batchBytesOfStep(program, stage);
  }
  const json settings = settingsToJson(program);
  const std::string functions = functionsToJson(program), stages = stagesToJson(program);
  auto again = programFromJson(settings, parsed(functions));
  require(again.status());
  again->stepProblem = program.stepProblem;
  for (const json &text : parsed(stages)) {
    auto stage = stageFromJson(text, "stage");
    require(stage.status());
    again->stageList.push_back(*std::move(stage));
  }
  require(verifyProgram(*again));
  require(settingsToJson(*again) == settings && functionsToJson(*again) == functions &&
              stagesToJson(*again) == stages,
          "the program changed when it was written and read");
}

std::string stageText(const Program &program, size_t stage) {
  Program alone;
  alone.stageList = {program.stageList.at(stage)};
  return stagesToJson(alone);
}

/// A rank reads of its own stage what it is, and of a sound program nothing else fails.
void readByRank(const std::string &folder, int rank, const rt::Result<LoadedProgram> &whole) {
  auto part = loadProgramOfRank(folder, rank);
  if (!whole || rank >= whole->program.stages)
    return;
  require(part.status());
  const auto stage = static_cast<size_t>(rank);
  require(part->identity == whole->identity && part->program.stageList.size() > stage &&
              stageText(part->program, stage) == stageText(whole->program, stage),
          "a rank reads another stage");
}

} // namespace

void run(std::string_view input) {
  std::vector<std::string_view> parts = partsOf(input);
  parts.resize(5);
  std::vector<std::pair<const char *, std::string>> files = {
      {"functions.json", std::string(parts[1])},
      {"stages.json", std::string(parts[2])},
      {"constants.safetensors", safetensorsOf(parts[3].empty() ? "{}" : parts[3], "", true)}};
  if (!parts[4].empty())
    files.emplace_back("step-problem.json", parts[4]);
  static const MemoryFolder folder;
  for (const auto &[name, bytes] : files)
    folder.write(name, bytes);
  folder.write("manifest.json", sealed(parts[0], files));
  auto loaded = loadProgram(folder.path());
  if (loaded)
    use(loaded->program);
  // Each rank reads most of what the others do, so one of them is enough for an input.
  constexpr size_t ranks = 3;
  readByRank(folder.path(), static_cast<int>(input.size() % ranks), loaded);
}

} // namespace omnibal::fuzz
