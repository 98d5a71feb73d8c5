//===- Manifest.h - What a step's folder must contain to be complete ---------------------===//
#ifndef RUNTIME_CHECKPOINT_MANIFEST_H
#define RUNTIME_CHECKPOINT_MANIFEST_H

#include "runtime/checkpoint/Checkpoint.h"
#include <cstdint>
#include <string>
#include <vector>

namespace omnibal::rt {

struct Manifest {
  RunState state;
  std::vector<ManifestFile> files;

  std::string print() const;
  static Result<Manifest> parse(const std::string &text, const std::string &label);
};

/// Returns a name such as "step-00000042".
std::string stepName(int64_t step);
/// Returns the number in such a name, or -1.
int64_t stepOf(const std::string &name);

/// An entry of the manifest's list of files.
nlohmann::ordered_json toJson(const ManifestFile &file);
Result<ManifestFile> parseManifestFile(const nlohmann::json &item);

/// Returns DataLoss unless the file of a step's folder has the size that is listed.
Status verifySize(const std::string &folder, const ManifestFile &file);
Result<Manifest> readManifest(const std::string &folder);

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_MANIFEST_H
