//===- ProgramIO.h - Program directories: write, load ------------------------------------===//
//
//   manifest.json          version "omnibal.program/1", settings, size and checksum of the rest
//   functions.json         one function a line
//   stages.json            one stage a line
//   constants.safetensors  the tensors that Stage::constants name
//   step-problem.json      what plans of single steps are made from (absent if there are none;
//                          the version is then "omnibal.program/2", and with several train modes
//                          "omnibal.program/3")
//   kernels.*              generated code (absent if no function calls "fused")
//
// The same input gives the same bytes. The manifest is written last, so that a directory without
// one was never finished.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PROGRAM_PROGRAMIO_H
#define RUNTIME_PROGRAM_PROGRAMIO_H

#include "runtime/program/Program.h"
#include "runtime/support/Safetensors.h"
#include "runtime/support/Status.h"
#include <memory>
#include <string>
#include <vector>

namespace omnibal::rt {

/// Data of one constant: what Stage::constants refers to by name.
struct ConstantTensor {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::string bytes; ///< dense, little endian
};

/// Generated code: kernels.so for the host, kernels.fatbin or kernels.ptx for CUDA devices. Without
/// a file name there is no code.
struct GeneratedCode {
  std::string file, bytes;
};

/// Verifies `program` (Verifier.h) and writes the directory, creating it if need be.
/// Constants are written sorted by name. An earlier program in the directory is replaced.
Status writeProgram(const Program &program, std::vector<ConstantTensor> constants,
                    const GeneratedCode &code, const std::string &directory);

struct LoadedProgram {
  Program program;
  std::string directory;
  std::string kernels; ///< path of the generated code; empty if there is none
  std::shared_ptr<const SafetensorsFile> constants;
  /// Identifies the program's bytes: the manifest holds the checksums of the other files.
  uint64_t identity = 0;
};

/// Reads a directory, checks versions, sizes and checksums, and verifies the program.
Result<LoadedProgram> loadProgram(const std::string &directory);

/// Reads what rank `rank` needs of it: of other stages neither actions nor regions. It checks
/// versions, sizes and checksums, and leaves it to a rank that reads all of it to verify a program
/// of the same identity before anything else is done with it.
Result<LoadedProgram> loadProgramOfRank(const std::string &directory, int rank);

/// The JSON of the two large files and of the manifest's own fields, and back. Reading checks types
/// and keys strictly and names the path of what is wrong; it does not verify the program.
std::string functionsToJson(const Program &program);
std::string stagesToJson(const Program &program);
nlohmann::json settingsToJson(const Program &program);
/// Everything but the stages.
Result<Program> programFromJson(const nlohmann::json &settings, const nlohmann::json &functions);
/// `where` names the stage in messages.
Result<Stage> stageFromJson(const nlohmann::json &stage, const std::string &where);

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_PROGRAMIO_H
