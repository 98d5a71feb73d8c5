#include "runtime/checkpoint/Companions.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/Json.h"
#include <algorithm>
#include <filesystem>
#include <string_view>

namespace omnibal::rt {
namespace {

namespace fs = std::filesystem;

/// Code of a model is read where the user trusts it (trust_remote_code).
constexpr std::string_view endings[] = {"_config.json", ".model", ".tiktoken", ".jinja", ".py"};
constexpr std::string_view names[] = {
    "config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",      "vocab.txt",
    "merges.txt",  "chat_template.json",      "tekken.json",       "normalizer.json",
};
constexpr std::string_view templates = "additional_chat_templates";

bool isCompanion(const std::string &name) {
  if (name.starts_with("tokenizer") && name.ends_with(".json")) // tokenizer.4.0.0.json too
    return true;
  return std::ranges::find(names, name) != std::end(names) ||
         std::ranges::any_of(endings, [&](auto ending) { return name.ends_with(ending); });
}

std::string_view typeName(StoredType type) {
  switch (type) {
  case StoredType::BF16:
    return "bfloat16";
  case StoredType::F16:
    return "float16";
  case StoredType::F64:
    return "float64";
  default:
    return "float32";
  }
}

/// Transformers loads weights in the type that the configuration names, whatever their file says.
void setType(nlohmann::ordered_json &config, StoredType type) {
  for (auto &[key, value] : config.items())
    if (value.is_object())
      setType(value, type);
    else if ((key == "dtype" || key == "torch_dtype") && value.is_string())
      value = typeName(type);
}

} // namespace

std::vector<std::string> companionsOf(const FolderFiles &source) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto &entry : fs::directory_iterator(source.folder(), error))
    if (std::string name = entry.path().filename().string(); isCompanion(name))
      found.push_back(std::move(name));
  for (const auto &entry : fs::directory_iterator(source.pathOf(std::string(templates)), error))
    if (entry.path().extension() == ".jinja")
      found.push_back(std::string(templates) + "/" + entry.path().filename().string());
  std::sort(found.begin(), found.end());
  return found;
}

Result<std::string> readCompanion(const FolderFiles &source, const std::string &name,
                                  std::optional<StoredType> type) {
  OMNIBAL_ASSIGN_OR_RETURN(std::string contents, source.read(name));
  if (!type || name != "config.json")
    return contents;
  OMNIBAL_ASSIGN_OR_RETURN(nlohmann::json checked, parseJson(contents, source.pathOf(name)));
  // As it was read, but with its keys in the order of the file.
  auto config = nlohmann::ordered_json::parse(contents);
  if (!checked.is_object())
    return invalid(source.pathOf(name) + ": not a JSON object; the model's configuration is needed "
                                         "to name the type of the saved weights");
  setType(config, *type);
  return config.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Status copyCompanions(const FolderFiles &source, const std::string &to,
                      std::optional<StoredType> type) {
  std::error_code error;
  fs::create_directories(to, error);
  if (error)
    return {Code::Unavailable, to + ": creating the folder failed: " + error.message()};
  const bool same = fs::equivalent(source.folder(), to, error);
  for (const std::string &name : companionsOf(source)) {
    if (same && !(type && name == "config.json"))
      continue;
    OMNIBAL_ASSIGN_OR_RETURN(std::string contents, readCompanion(source, name, type));
    const fs::path target = fs::path(to) / name;
    fs::create_directories(target.parent_path(), error);
    OMNIBAL_RETURN_IF_ERROR(writeFileAtomically(target.string(), contents));
  }
  return Status::ok();
}

} // namespace omnibal::rt
