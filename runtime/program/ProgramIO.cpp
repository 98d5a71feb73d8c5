#include "runtime/program/ProgramIO.h"
#include "runtime/program/Names.h"
#include "runtime/program/RankGrid.h"
#include "runtime/program/StagesText.h"
#include "runtime/program/Verifier.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/Checksum.h"
#include "runtime/support/Formats.h"
#include "runtime/support/Json.h"
#include "runtime/support/JsonField.h"
#include <algorithm>
#include <filesystem>
#include <set>

namespace omnibal::rt {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char *functionsFile = "functions.json", *stagesFile = "stages.json",
                     *constantsFile = "constants.safetensors",
                     *stepProblemFile = "step-problem.json";
constexpr const char *versions[] = {formats::program, formats::stepProgram, formats::modesProgram};
/// A program has at most one of these files.
constexpr const char *codeFiles[] = {"kernels.so", "kernels.fatbin", "kernels.ptx"};

json describeFile(const std::string &bytes) {
  return {{"bytes", bytes.size()}, {"checksum", checksumText(fnv1a(bytes))}};
}

const char *versionOf(const Program &program) {
  return program.hasLengthGroups()      ? formats::modesProgram
         : !program.stepProblem.empty() ? formats::stepProgram
                                        : formats::program;
}

/// Which fields a manifest has depends on its version.
Status checkManifest(JsonField root, const std::string &path) {
  const std::string version = root["version"].text();
  if (root.failed())
    return Status::ok();
  if (std::find(std::begin(versions), std::end(versions), version) == std::end(versions)) {
    std::string known;
    for (const char *each : versions)
      known += (known.empty()         ? "\""
                : each == versions[2] ? "\" and \""
                                      : "\", \"") +
               std::string(each);
    return {Code::InvalidArgument, path + ": version \"" + version +
                                       "\", but this omnibal-run reads " + known +
                                       "\"; compile the program again"};
  }
  if (version == formats::modesProgram) {
    root.onlyKeys({"version", "files", "target", "compute", "cpu", "model", "row_bucket", "stages",
                   "data_parallel", "model_parallel", "rank_order", "zero", "optimizer", "ema",
                   "train_modes", "info", "adapters"});
    (void)root["train_modes"]; // which says that it is missing
    return Status::ok();
  }
  root.onlyKeys({"version",       "files",          "target",     "compute",    "cpu",
                 "model",         "tiles_cap",      "tokens_cap", "row_bucket", "stages",
                 "data_parallel", "model_parallel", "rank_order", "zero",       "optimizer",
                 "ema",           "microbatches",   "schedule",   "info",       "adapters"});
  return Status::ok();
}

Status writeConstants(const std::vector<ConstantTensor> &constants, const std::string &path) {
  std::vector<TensorHeader> layout;
  for (const ConstantTensor &c : constants)
    layout.push_back({c.name, storedTypeOf(c.dtype), c.shape});
  OMNIBAL_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::create(path, layout));
  for (const ConstantTensor &c : constants)
    OMNIBAL_RETURN_IF_ERROR(writer.append(c.bytes.data(), c.bytes.size()));
  return writer.finish();
}

Status checkConstants(const LoadedProgram &loaded) {
  for (const Stage &stage : loaded.program.stageList)
    for (const Constant &c : stage.constants) {
      const StoredTensor *t = loaded.constants->find(c.name);
      std::string where = loaded.constants->path() + ": constant \"" + c.name + "\"";
      if (!t)
        return {Code::DataLoss, where + " is missing; compile the program again"};
      if (t->dtype != storedTypeOf(c.dtype) || t->shape != c.shape)
        return {Code::DataLoss, where + " has another type or shape than stages.json says; "
                                        "compile the program again"};
    }
  return Status::ok();
}

/// Reads a file that the manifest lists and compares size and checksum.
Result<std::string> readListed(const std::string &directory, const std::string &name,
                               JsonField files) {
  JsonField entry = files[name.c_str()];
  entry.onlyKeys({"bytes", "checksum"});
  int64_t bytes = entry["bytes"].integer(0);
  std::string checksum = entry["checksum"].text();
  if (entry.failed())
    return std::string();
  std::string path = directory + "/" + name;
  OMNIBAL_ASSIGN_OR_RETURN(std::string text, readWholeFile(path));
  if (static_cast<int64_t>(text.size()) != bytes)
    return Status(Code::DataLoss, path + ": " + std::to_string(text.size()) +
                                      " bytes, but the manifest says " + std::to_string(bytes) +
                                      "; compile the program again or copy it again");
  if (checksumText(fnv1a(text)) != checksum)
    return Status(Code::DataLoss, path + ": the contents do not match the manifest's checksum; "
                                         "compile the program again or copy it again");
  return text;
}

/// Which stages are read as a whole.
constexpr int everyStage = -1;

/// The number of a rank's entry in a list of `count`. Nothing of the manifest has been verified.
size_t entryOf(const Program &program, size_t count, int rank) {
  const RankGrid grid(std::max(program.dataParallel, 1), std::max(program.stages, 1),
                      std::max(program.modelParallel, 1), program.rankOrder);
  const int group = grid.parts > 1 ? grid.parts : std::max(program.largestDegree(), 1);
  const RankPlace place = grid.placeOf(rank);
  const auto stage = static_cast<size_t>(place.stage);
  if (group == 1 || count != static_cast<size_t>(grid.stages) * group) // all of a stage do the same
    return stage % count;
  return (stage * group + grid.partIn(place, group)) % count;
}

/// One stage after the other, so that the values of one stage's text are in memory at a time.
Status readStages(const std::string &text, const std::string &path, int rank, Program &program) {
  auto texts = elementsOfArray(text);
  if (!texts || texts->empty()) { // says what is wrong with it
    OMNIBAL_RETURN_IF_ERROR(parseJson(text, path).status());
    return {Code::DataLoss, path + ": an array of stages is expected; compile the program again"};
  }
  const size_t count = texts->size();
  // A rank's own entry, in whichever replica.
  const size_t own = rank == everyStage ? count : entryOf(program, count, rank);
  for (size_t s = 0; s < count; ++s) {
    const std::string where = "stages[" + std::to_string(s) + "]";
    const bool whole = rank == everyStage || s == own;
    const std::string needed =
        whole ? std::string() : withoutMembers((*texts)[s], {"actions", "regions"});
    OMNIBAL_ASSIGN_OR_RETURN(
        json stage, parseJson(whole ? (*texts)[s] : std::string_view(needed), path + ", " + where));
    auto read = stageFromJson(stage, where);
    if (!read)
      return std::move(read).status().context(path);
    program.stageList.push_back(*std::move(read));
  }
  return Status::ok();
}

} // namespace

Status writeProgram(const Program &program, std::vector<ConstantTensor> constants,
                    const GeneratedCode &code, const std::string &directory) {
  OMNIBAL_RETURN_IF_ERROR(verifyProgram(program).context("the program to be written"));
  std::error_code failure;
  fs::create_directories(directory, failure);
  if (failure)
    return {Code::Unavailable, directory + ": cannot create the folder: " + failure.message()};
  // Without a manifest the directory is no program: what follows may stop anywhere.
  fs::remove(directory + "/manifest.json", failure);

  std::sort(constants.begin(), constants.end(),
            [](const auto &a, const auto &b) { return a.name < b.name; });
  std::string functions = functionsToJson(program), stages = stagesToJson(program);
  OMNIBAL_RETURN_IF_ERROR(writeFileAtomically(directory + "/" + functionsFile, functions));
  OMNIBAL_RETURN_IF_ERROR(writeFileAtomically(directory + "/" + stagesFile, stages));
  std::string constantsPath = directory + "/" + constantsFile;
  OMNIBAL_RETURN_IF_ERROR(writeConstants(constants, constantsPath));
  OMNIBAL_ASSIGN_OR_RETURN(std::string constantBytes, readWholeFile(constantsPath));

  json files = {{functionsFile, describeFile(functions)},
                {stagesFile, describeFile(stages)},
                {constantsFile, describeFile(constantBytes)}};
  for (const char *file : codeFiles)
    if (file != code.file)
      fs::remove(directory + "/" + file, failure);
  fs::remove(directory + "/" + stepProblemFile, failure);
  if (!program.stepProblem.empty()) {
    OMNIBAL_RETURN_IF_ERROR(
        writeFileAtomically(directory + "/" + stepProblemFile, program.stepProblem));
    files[stepProblemFile] = describeFile(program.stepProblem);
  }
  if (!code.file.empty()) {
    OMNIBAL_RETURN_IF_ERROR(writeFileAtomically(directory + "/" + code.file, code.bytes));
    files[code.file] = describeFile(code.bytes);
  }
  json manifest = settingsToJson(program);
  manifest["version"] = versionOf(program);
  manifest["files"] = files;
  return writeFileAtomically(directory + "/manifest.json",
                             manifest.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

namespace {

Result<LoadedProgram> readProgram(const std::string &directory, int rank) {
  LoadedProgram loaded;
  loaded.directory = directory;
  std::string manifestPath = directory + "/manifest.json";
  std::error_code ignored;
  if (!fs::exists(manifestPath, ignored))
    return Status(Code::NotFound, directory + ": no manifest.json here; this is no program "
                                              "directory, or omnibal-compile did not finish it");
  OMNIBAL_ASSIGN_OR_RETURN(std::string text, readWholeFile(manifestPath));
  loaded.identity = fnv1a(text);
  OMNIBAL_ASSIGN_OR_RETURN(json manifest, parseJson(text, manifestPath));
  Status error;
  JsonField root(manifest, manifestPath, error);
  OMNIBAL_RETURN_IF_ERROR(checkManifest(root, manifestPath));
  JsonField files = root["files"];
  files.onlyKeys({functionsFile, stagesFile, constantsFile, stepProblemFile, codeFiles[0],
                  codeFiles[1], codeFiles[2]});
  OMNIBAL_RETURN_IF_ERROR(error);

  OMNIBAL_ASSIGN_OR_RETURN(std::string functionsText, readListed(directory, functionsFile, files));
  OMNIBAL_ASSIGN_OR_RETURN(std::string stagesText, readListed(directory, stagesFile, files));
  OMNIBAL_RETURN_IF_ERROR(readListed(directory, constantsFile, files).status());
  for (const char *file : codeFiles)
    if (files.has(file)) {
      if (!loaded.kernels.empty())
        return Status(Code::DataLoss, manifestPath + ": files lists generated code twice; compile "
                                                     "the program again");
      OMNIBAL_RETURN_IF_ERROR(readListed(directory, file, files).status());
      loaded.kernels = directory + "/" + file;
    }
  OMNIBAL_RETURN_IF_ERROR(error);
  OMNIBAL_ASSIGN_OR_RETURN(json functions,
                           parseJson(functionsText, directory + "/" + functionsFile));
  auto program = programFromJson(manifest, functions);
  if (!program)
    return std::move(program).status().context(directory);
  loaded.program = *std::move(program);
  if (files.has(stepProblemFile)) {
    OMNIBAL_ASSIGN_OR_RETURN(loaded.program.stepProblem,
                             readListed(directory, stepProblemFile, files));
    OMNIBAL_RETURN_IF_ERROR(error);
  }
  OMNIBAL_RETURN_IF_ERROR(
      readStages(stagesText, directory + "/" + stagesFile, rank, loaded.program));
  if (rank == everyStage)
    OMNIBAL_RETURN_IF_ERROR(verifyProgram(loaded.program).context(directory));
  OMNIBAL_ASSIGN_OR_RETURN(loaded.constants,
                           SafetensorsFile::open(directory + "/" + constantsFile));
  OMNIBAL_RETURN_IF_ERROR(checkConstants(loaded));
  return loaded;
}

} // namespace

Result<LoadedProgram> loadProgram(const std::string &directory) {
  return readProgram(directory, everyStage);
}

Result<LoadedProgram> loadProgramOfRank(const std::string &directory, int rank) {
  return readProgram(directory, rank);
}

} // namespace omnibal::rt
