//===- TensorFiles.cpp - All tensors of a model: one file, or shards and an index --------===//
#include "runtime/support/Json.h"
#include "runtime/support/Safetensors.h"
#include <filesystem>

namespace omnibal::rt {
namespace {

namespace fs = std::filesystem;

constexpr const char *indexName = "model.safetensors.index.json";

/// The file of a folder that stands for the model: index, single file, or the only one of any name.
Result<std::string> chooseFile(const std::string &folder) {
  std::error_code error;
  // A link counts although it may lead nowhere: opening it then says so.
  for (const char *name : {indexName, "model.safetensors"})
    if (fs::symlink_status(fs::path(folder) / name, error).type() != fs::file_type::not_found)
      return std::string(name);
  std::vector<std::string> candidates;
  for (const auto &entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".safetensors")
      candidates.push_back(entry.path().filename().string());
  if (candidates.size() == 1)
    return candidates.front();
  return Status(Code::NotFound, folder +
                                    ": the folder holds neither model.safetensors nor "
                                    "model.safetensors.index.json, and " +
                                    std::to_string(candidates.size()) +
                                    " other .safetensors files (exactly one would do)");
}

} // namespace

Result<TensorFiles> TensorFiles::open(const std::string &path,
                                      const std::vector<std::string> &linkFolders) {
  TensorFiles all;
  all.given = path;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    all.around = FolderFiles(path, linkFolders);
    OMNIBAL_ASSIGN_OR_RETURN(std::string name, chooseFile(path));
    OMNIBAL_RETURN_IF_ERROR(name == indexName ? all.readIndex(name, all.around.read(name))
                                              : all.readSingle(all.openPart(name)));
    return all;
  }
  fs::path file = path;
  all.around = FolderFiles(file.parent_path().string(), linkFolders);
  // A snapshot of a cache is somebody's download, whether it or a file in it is named.
  const std::string name = file.filename().string();
  const bool download = !all.around.cache().empty();
  if (file.extension() == ".json")
    OMNIBAL_RETURN_IF_ERROR(
        all.readIndex(name, download ? all.around.read(name) : readWholeFile(path)));
  else
    OMNIBAL_RETURN_IF_ERROR(
        all.readSingle(download ? all.openPart(name) : SafetensorsFile::open(path)));
  return all;
}

Result<std::shared_ptr<const SafetensorsFile>>
TensorFiles::openPart(const std::string &name) const {
  auto file = around.open(name);
  if (!file)
    return Status(file.status().code(), around.pathOf(name) + " " + file.status().message());
  return SafetensorsFile::open(*std::move(file), around.pathOf(name));
}

Status TensorFiles::readSingle(Result<std::shared_ptr<const SafetensorsFile>> file) {
  if (!file)
    return std::move(file).status();
  for (const StoredTensor &tensor : (*file)->tensors())
    index.emplace(tensor.name, &tensor);
  parts.push_back(*std::move(file));
  return Status::ok();
}

Status TensorFiles::readIndex(const std::string &name, Result<std::string> text) {
  if (!text)
    return std::move(text).status();
  const std::string label = around.pathOf(name);
  OMNIBAL_ASSIGN_OR_RETURN(nlohmann::json root, parseJson(*text, label));
  if (!root.is_object() || !root.contains("weight_map") || !root["weight_map"].is_object())
    return {Code::DataLoss, label + ": weight_map is missing or not an object"};
  std::map<std::string, std::shared_ptr<const SafetensorsFile>> opened;
  for (const auto &[tensorName, where] : root["weight_map"].items()) {
    std::string part = where.is_string() ? where.get<std::string>() : "";
    if (part.empty() || part == ".." || part.find('/') != std::string::npos)
      return {Code::DataLoss, label + ": weight_map[\"" + tensorName +
                                  "\"] is not the name of a file in the same folder"};
    auto &shard = opened[part];
    if (!shard) {
      auto result = openPart(part);
      if (!result)
        return std::move(result).status().context(label);
      shard = *std::move(result);
      parts.push_back(shard);
    }
    const StoredTensor *tensor = shard->find(tensorName);
    if (!tensor)
      return {Code::DataLoss,
              label + ": weight_map puts \"" + tensorName + "\" into " + part + ", which lacks it"};
    index.emplace(tensorName, tensor);
  }
  return Status::ok();
}

const StoredTensor *TensorFiles::find(std::string_view name) const {
  auto it = index.find(name);
  return it == index.end() ? nullptr : it->second;
}

std::vector<std::string> TensorFiles::names() const {
  std::vector<std::string> all;
  for (const auto &[name, tensor] : index)
    all.push_back(name);
  return all;
}

} // namespace omnibal::rt
