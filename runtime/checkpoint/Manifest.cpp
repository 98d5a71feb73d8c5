#include "runtime/checkpoint/Manifest.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/Formats.h"
#include "runtime/support/Json.h"
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <sys/stat.h>

namespace omnibal::rt {
namespace {

bool isCount(const nlohmann::json &object, const char *field) {
  return object.contains(field) && object[field].is_number_unsigned() &&
         object[field].get<uint64_t>() <= uint64_t(INT64_MAX);
}

} // namespace

std::string stepName(int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%08lld", static_cast<long long>(step));
  return name;
}

int64_t stepOf(const std::string &name) {
  int64_t step = -1;
  const char *begin = name.data() + 5, *end = name.data() + name.size();
  if (!name.starts_with("step-") || name.size() < 13 ||
      std::from_chars(begin, end, step).ptr != end || step < 0)
    return -1;
  return step;
}

nlohmann::ordered_json toJson(const ManifestFile &file) {
  return {{"name", file.name}, {"bytes", file.bytes}, {"crc32", file.crc32}};
}

Result<ManifestFile> parseManifestFile(const nlohmann::json &item) {
  if (!item.is_object() || !item.contains("name") || !item["name"].is_string() ||
      !isCount(item, "bytes") || !isCount(item, "crc32") ||
      item["crc32"].get<uint64_t>() > UINT32_MAX)
    return Status(Code::DataLoss, "an entry of files lacks name, bytes or crc32");
  ManifestFile file{item["name"].get<std::string>(), item["bytes"].get<int64_t>(),
                    item["crc32"].get<uint32_t>()};
  if (file.name.empty() || file.name.find('/') != std::string::npos)
    return Status(Code::DataLoss,
                  "files names \"" + file.name + "\", which is not a file of this folder");
  return file;
}

std::string Manifest::print() const {
  nlohmann::ordered_json root;
  root["version"] = formats::checkpoint;
  root["step"] = state.step;
  root["data_position"] = state.dataPosition;
  root["seed"] = state.seed;
  root["settings"] = state.settings;
  root["files"] = nlohmann::ordered_json::array();
  for (const ManifestFile &file : files)
    root["files"].push_back(toJson(file));
  return root.dump(1) + "\n";
}

Result<Manifest> Manifest::parse(const std::string &text, const std::string &label) {
  OMNIBAL_ASSIGN_OR_RETURN(nlohmann::json root, parseJson(text, label));
  auto bad = [&](const std::string &what) { return Status(Code::DataLoss, label + ": " + what); };
  if (!root.is_object() || !isCount(root, "version"))
    return bad("not a checkpoint manifest (no version)");
  if (root["version"] != formats::checkpoint)
    return bad("version " + root["version"].dump() + " was written by another release; this one " +
               "reads version " + std::to_string(formats::checkpoint));
  if (!isCount(root, "step") || !isCount(root, "data_position") || !root.contains("seed") ||
      !root["seed"].is_number_unsigned() || !root.contains("settings"))
    return bad("step, data_position, seed or settings is missing or not a number");
  if (!root["settings"].is_object())
    return bad("settings is not an object");
  for (const char *field : {"epoch", "updates"}) // a run goes on from them
    if (root["settings"].contains(field) && !isCount(root["settings"], field))
      return bad(std::string("settings.") + field + " is not a whole number of at least 0");
  if (!root.contains("files") || !root["files"].is_array() || root["files"].empty())
    return bad("files is missing or empty");
  Manifest manifest;
  manifest.state.step = root["step"].get<int64_t>();
  manifest.state.dataPosition = root["data_position"].get<int64_t>();
  manifest.state.seed = root["seed"].get<uint64_t>();
  manifest.state.settings = root["settings"];
  for (const auto &item : root["files"]) {
    auto file = parseManifestFile(item);
    if (!file)
      return bad(file.status().message());
    manifest.files.push_back(*std::move(file));
  }
  return manifest;
}

Status verifySize(const std::string &folder, const ManifestFile &file) {
  const std::string path = folder + "/" + file.name;
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0)
    return {errno == ENOENT ? Code::DataLoss : Code::Unavailable,
            path + ": " + std::strerror(errno)};
  if (found.st_size != file.bytes)
    return {Code::DataLoss, path + ": has " + std::to_string(found.st_size) +
                                " bytes, the manifest says " + std::to_string(file.bytes) +
                                " (truncated?)"};
  return Status::ok();
}

Result<Manifest> readManifest(const std::string &folder) {
  std::string label = folder + "/manifest.json";
  auto text = readWholeFile(label);
  if (!text)
    return Status(Code::DataLoss, text.status().message() + " (the checkpoint is incomplete)");
  return Manifest::parse(*text, label);
}

} // namespace omnibal::rt
