#include "runtime/checkpoint/ModelFolder.h"
#include "runtime/checkpoint/Companions.h"
#include "runtime/checkpoint/HalfRange.h"
#include "runtime/checkpoint/SharedTensorFile.h"
#include "runtime/support/Json.h"
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string_view>

namespace omnibal::rt {
namespace {

namespace fs = std::filesystem;

constexpr const char *indexName = "model.safetensors.index.json";
constexpr const char *singleName = "model.safetensors";

/// The type of every tensor in the saved folder.
struct SavedTypes {
  std::optional<StoredType> all; ///< of floating point numbers; none: the source's
  bool halfTrained = true;       ///< trained numbers may be kept in float16

  StoredType of(const StoredTensor &tensor, bool trained) const {
    if (!isFloat(tensor.dtype))
      return tensor.dtype;
    const StoredType type = all.value_or(tensor.dtype);
    return type == StoredType::F16 && trained && !halfTrained ? StoredType::F32 : type;
  }
};

/// Names a number that float16 cannot hold although this rank would write it so; empty: there is
/// none.
Result<std::string> findTooLarge(const TensorFiles &source, const SavedTypes &types,
                                 const SharedTensors &tensors, bool leads) {
  std::vector<NamedTensor> halves;
  for (const NamedTensor &tensor : tensors.mine)
    if (types.of(*source.find(tensor.name), true) == StoredType::F16)
      halves.push_back(tensor);
  OMNIBAL_ASSIGN_OR_RETURN(std::string problem, findBeyondHalf(halves));
  for (const StoredTensor *tensor : tensors.copied) {
    if (!leads || tensor->dtype == StoredType::F16 || types.of(*tensor, false) != StoredType::F16)
      continue;
    std::vector<double> values;
    const int64_t step = elementsAtOnce(*tensor);
    for (int64_t first = 0; first < tensor->elements; first += step) {
      const int64_t count = std::min(step, tensor->elements - first);
      values.resize(static_cast<size_t>(count));
      OMNIBAL_RETURN_IF_ERROR(convertTensor(*tensor, DType::F64, values.data(), first, count));
      releasePages(*tensor, first, count);
      if (auto found = std::ranges::find_if(values, exceedsHalf); found != values.end())
        problem = beyondHalf(tensor->name, *found);
    }
  }
  return problem;
}

/// One file, or shards of at most so many bytes (a larger tensor has one for itself).
std::vector<SharedTensorFile> divide(const std::string &folder,
                                     const std::vector<TensorHeader> &tensors, int64_t shardBytes) {
  std::vector<SharedTensorFile> files(1);
  int64_t filled = 0;
  for (const TensorHeader &tensor : tensors) {
    int64_t bytes = byteSize(tensor.dtype);
    for (int64_t size : tensor.shape)
      bytes *= size;
    if (filled > 0 && bytes > shardBytes - filled) {
      files.emplace_back();
      filled = 0;
    }
    filled += bytes;
    files.back().layout.push_back(tensor);
  }
  for (size_t i = 0; i < files.size(); ++i) {
    char name[64];
    std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, files.size());
    files[i].path = (fs::path(folder) / (files.size() == 1 ? singleName : name)).string();
  }
  return files;
}

std::string indexText(const std::vector<SharedTensorFile> &files) {
  nlohmann::json map = nlohmann::json::object();
  int64_t total = 0;
  for (const SharedTensorFile &file : files)
    for (const TensorHeader &tensor : file.layout) {
      map[tensor.name] = fs::path(file.path).filename().string();
      int64_t bytes = byteSize(tensor.dtype);
      for (int64_t size : tensor.shape)
        bytes *= size;
      total += bytes;
    }
  return nlohmann::json({{"metadata", {{"total_size", total}}}, {"weight_map", map}}).dump(2) +
         "\n";
}

/// Shards that an index in the folder names.
std::set<std::string> shardsOfIndex(const fs::path &folder) {
  std::set<std::string> names;
  auto text = readWholeFile((folder / indexName).string());
  auto index = parseJson(text ? *text : "", indexName);
  if (!index || !index->is_object() || !index->contains("weight_map") ||
      !(*index)["weight_map"].is_object())
    return names;
  for (const auto &[tensor, where] : (*index)["weight_map"].items())
    if (where.is_string() && where.get<std::string>().find('/') == std::string::npos)
      names.insert(where.get<std::string>());
  return names;
}

Status removeFile(const fs::path &path) {
  std::error_code error;
  fs::remove(path, error);
  return error ? Status(Code::Unavailable, path.string() +
                                               ": removing the file that was replaced "
                                               "failed: " +
                                               error.message())
               : Status::ok();
}

/// Gives the complete files their names, in an order in which the folder holds a whole model or
/// none at any moment, and takes away what they replace.
Status replaceWeights(const std::string &folder, const std::vector<SharedTensorFile> &files) {
  const fs::path place = folder;
  std::set<std::string> old = shardsOfIndex(place);
  const bool sharded = files.size() > 1;
  bool collides = false;
  for (const SharedTensorFile &file : files)
    collides |= old.erase(fs::path(file.path).filename().string()) > 0;
  if (collides && sharded) {
    OMNIBAL_RETURN_IF_ERROR(removeFile(place / indexName));
    OMNIBAL_RETURN_IF_ERROR(syncFolder(folder));
  }
  OMNIBAL_RETURN_IF_ERROR(nameFinished(files));
  if (sharded)
    OMNIBAL_RETURN_IF_ERROR(writeFileAtomically((place / indexName).string(), indexText(files)));
  OMNIBAL_RETURN_IF_ERROR(removeFile(place / (sharded ? singleName : indexName)));
  for (const std::string &name : old)
    OMNIBAL_RETURN_IF_ERROR(removeFile(place / name));
  return syncFolder(folder);
}

/// Temporaries that a killed run left, perhaps of other numbers of shards.
void removeTemporaries(const std::string &folder) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const auto &entry : fs::directory_iterator(folder, ignored)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with("model") && name.ends_with(".safetensors.incomplete"))
      found.push_back(entry.path());
  }
  for (const fs::path &path : found)
    fs::remove(path, ignored);
}

} // namespace

Status checkModelFolderSource(const TensorFiles &source) {
  for (const std::string &name : companionsOf(source.beside()))
    OMNIBAL_RETURN_IF_ERROR(readCompanion(source.beside(), name, StoredType::F32).status());
  return Status::ok();
}

Status saveModelFolder(const ModelFolderOptions &options, const TensorFiles &source,
                       const std::vector<std::string> &trained,
                       const std::vector<NamedTensor> &mine, bool leads, const Agreement &agree,
                       std::vector<std::string> *notices) {
  const std::set<std::string_view> changed(trained.begin(), trained.end());
  SharedTensors tensors{mine, {}};
  Status status;
  if (leads || !mine.empty()) { // others need not have the source
    for (const std::string &name : source.names())
      if (!changed.contains(name))
        tensors.copied.push_back(source.find(name));
    for (std::string_view name : changed)
      if (!source.find(name))
        status = invalid(source.path() + ": the trained parameter \"" + std::string(name) +
                         "\" is not in the source weights");
  }
  status = agree(std::move(status));
  if (!status)
    return std::move(status).context("saving the model to " + options.folder);

  SavedTypes types{options.type, true};
  std::optional<StoredType> named = types.all; // by the configuration
  std::string problem;
  status = agree.after([&] {
    auto found = findTooLarge(source, types, tensors, leads);
    problem = found ? *found : "";
    return found.status();
  });
  OMNIBAL_RETURN_IF_ERROR(std::move(status).context("saving the model to " + options.folder));
  // No error, but something that all ranks must know; a rank that is lost shows at the next
  // meeting.
  if (Status fits = agree(problem.empty() ? Status::ok() : invalid(problem)); !fits) {
    if (notices)
      notices->push_back(fits.message() + "; what would be float16 is saved in float32 instead");
    types = options.type ? SavedTypes{StoredType::F32, true} : SavedTypes{std::nullopt, false};
    named = StoredType::F32;
  }

  std::vector<TensorHeader> layout;
  for (const std::string &name : source.names()) {
    const StoredTensor *tensor = source.find(name);
    layout.push_back({name, types.of(*tensor, changed.contains(name)), tensor->shape});
  }
  const auto files = divide(options.folder, layout, options.shardBytes);
  status = agree.after([&] {
    if (!leads)
      return Status::ok();
    removeTemporaries(options.folder);
    return copyCompanions(source.beside(), options.folder, named);
  });
  if (status) // weights last: a folder with weights is a complete one
    status = writeSharedTensorFiles(files, {{"format", "pt"}}, tensors, leads, agree,
                                    [&] { return replaceWeights(options.folder, files); });
  return std::move(status).context("saving the model to " + options.folder);
}

} // namespace omnibal::rt
