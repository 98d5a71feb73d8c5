#include "runtime/checkpoint/AdapterFolder.h"
#include "runtime/checkpoint/HalfRange.h"
#include "runtime/checkpoint/SharedTensorFile.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/Json.h"
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

namespace omnibal::rt {
namespace {

namespace fs = std::filesystem;

constexpr const char *configName = "adapter_config.json",
                     *weightsName = "adapter_model.safetensors";

std::string numberText(double number) { return nlohmann::json(number).dump(); }

/// Whether a field says nothing.
bool isNothing(const nlohmann::json &config, const char *field) {
  if (!config.contains(field))
    return true;
  const nlohmann::json &value = config[field];
  return value.is_null() || value == false || value == "none" || value.empty();
}

/// Kinds of LoRA whose numbers mean something else.
constexpr const char *variants[] = {"rank_pattern", "alpha_pattern", "bias",
                                    "lora_bias",    "use_qalora",    "use_bdlora"};

Status checkConfig(const nlohmann::json &config, const std::string &path,
                   const Adapters &adapters) {
  if (!config.is_object() || config.value("peft_type", nlohmann::json()) != "LORA")
    return invalid(path + ": peft_type is not \"LORA\"; other adapters are not supported");
  for (const char *field : variants)
    if (!isNothing(config, field))
      return invalid(path + ": " + field + " is " + config[field].dump() +
                     "; adapters of this kind are not supported");
  if (const bool dora = !isNothing(config, "use_dora"); dora != adapters.dora)
    return invalid(
        path + ": use_dora is " + (dora ? "true" : "false") + ", but the program's adapters have " +
        (dora ? "no magnitudes; compile it with --dora" : "magnitudes; compile it without --dora"));
  for (const char *field : {"r", "lora_alpha"})
    if (!config.contains(field) || !config[field].is_number())
      return invalid(path + ": " + field + " is missing or not a number");
  Adapters given;
  given.rank = integerOf(config["r"]).value_or(0);
  given.alpha = config["lora_alpha"].get<double>();
  given.rankStabilized = !isNothing(config, "use_rslora");
  if (given.rank != adapters.rank)
    return invalid(path + ": r is " + config["r"].dump() +
                   ", but the program's adapters have rank " + std::to_string(adapters.rank) +
                   "; compile it with --lora-rank " + config["r"].dump());
  if (std::abs(given.scale() - adapters.scale()) > 1e-9 * adapters.scale())
    return invalid(path + ": lora_alpha is " + numberText(given.alpha) +
                   (given.rankStabilized ? " with use_rslora" : "") + ", the scale " +
                   numberText(given.scale()) + ", but the program's adapters have the scale " +
                   numberText(adapters.scale()) + "; compile it with --lora-alpha " +
                   numberText(given.alpha) + (given.rankStabilized ? " --rslora" : ""));
  return Status::ok();
}

Status checkTensors(const TensorFiles &files, const Adapters &adapters) {
  std::set<std::string> wanted;
  for (const AdapterTensor &tensor : adapterTensors(adapters)) {
    wanted.insert(tensor.key);
    if (!files.find(tensor.key))
      return invalid(files.path() + ": the tensor \"" + tensor.key +
                     "\" is missing, which the program trains; compile it with --lora and "
                     "--modules-to-save for the folder's target_modules and modules_to_save");
  }
  for (const std::string &name : files.names())
    if (!wanted.contains(name))
      return invalid(files.path() + ": the tensor \"" + name +
                     "\" is not of the program's adapters and would be lost; compile it with "
                     "--lora and --modules-to-save for the folder's target_modules and "
                     "modules_to_save");
  return Status::ok();
}

/// A model of the Hugging Face cache has its name on the Hub, another its folder.
void nameBase(nlohmann::ordered_json &config, const FolderFiles &source) {
  std::error_code ignored;
  const fs::path folder = fs::weakly_canonical(source.folder(), ignored);
  std::string name = fs::path(source.cache()).filename().string();
  constexpr const char *cachePrefix = "models--";
  config["revision"] = nullptr;
  if (!name.starts_with(cachePrefix)) {
    config["base_model_name_or_path"] = folder.string();
    return;
  }
  name.erase(0, std::string(cachePrefix).size());
  if (const size_t dashes = name.find("--"); dashes != std::string::npos)
    name.replace(dashes, 2, "/");
  config["base_model_name_or_path"] = name;
  config["revision"] = folder.filename().string();
}

std::string configText(const Adapters &adapters, const FolderFiles &source) {
  nlohmann::ordered_json config;
  config["peft_type"] = "LORA";
  config["task_type"] = "CAUSAL_LM";
  nameBase(config, source);
  config["inference_mode"] = true;
  config["r"] = adapters.rank;
  if (adapters.alpha == std::floor(adapters.alpha) && adapters.alpha < 1e15)
    config["lora_alpha"] = static_cast<int64_t>(adapters.alpha);
  else
    config["lora_alpha"] = adapters.alpha;
  config["use_rslora"] = adapters.rankStabilized;
  config["lora_dropout"] = adapters.dropout;
  config["bias"] = "none";
  config["fan_in_fan_out"] =
      std::ranges::all_of(adapters.linears, [](const LinearAdapter &each) { return each.inOut; });
  config["init_lora_weights"] = true;
  config["use_dora"] = adapters.dora;
  config["target_modules"] = nlohmann::ordered_json::array();
  for (const LinearAdapter &linear : adapters.linears)
    config["target_modules"].push_back(linear.module);
  std::set<std::string> saved;
  for (const SavedParameter &each : adapters.saved)
    saved.insert(each.module);
  config["modules_to_save"] = nullptr;
  if (!saved.empty())
    config["modules_to_save"] = saved;
  return config.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

/// The folder holds adapters with their configuration or, for a moment, none.
Status replaceAdapters(const std::string &folder, const SharedTensorFile &file,
                       const std::string &config) {
  std::error_code error;
  fs::remove(file.path, error);
  if (error)
    return {Code::Unavailable,
            file.path + ": removing the file that is replaced failed: " + error.message()};
  OMNIBAL_RETURN_IF_ERROR(writeFileAtomically((fs::path(folder) / configName).string(), config));
  return nameFinished({file});
}

} // namespace

Result<TensorFiles> openAdapterFolder(const std::string &folder, const Adapters &adapters,
                                      const std::vector<std::string> &linkFolders) {
  const FolderFiles files(folder, linkFolders);
  OMNIBAL_ASSIGN_OR_RETURN(std::string text, files.read(configName));
  OMNIBAL_ASSIGN_OR_RETURN(nlohmann::json config, parseJson(text, files.pathOf(configName)));
  OMNIBAL_RETURN_IF_ERROR(checkConfig(config, files.pathOf(configName), adapters));
  OMNIBAL_ASSIGN_OR_RETURN(TensorFiles tensors,
                           TensorFiles::open(files.pathOf(weightsName), linkFolders));
  OMNIBAL_RETURN_IF_ERROR(checkTensors(tensors, adapters));
  return tensors;
}

Status saveAdapterFolder(const AdapterFolderOptions &options, const Adapters &adapters,
                         const ParameterShapes &shapes, const TensorFiles &source,
                         const std::vector<NamedTensor> &mine, bool leads, const Agreement &agree,
                         std::vector<std::string> &notices) {
  StoredType type = options.type.value_or(StoredType::F32);
  const std::string what = "saving the adapters to " + options.folder;
  if (type == StoredType::F16) {
    std::string problem;
    Status status = agree.after([&] {
      auto found = findBeyondHalf(mine);
      problem = found ? *found : "";
      return found.status();
    });
    OMNIBAL_RETURN_IF_ERROR(std::move(status).context(what));
    // No error, but something that all ranks must know.
    if (Status fits = agree(problem.empty() ? Status::ok() : invalid(problem)); !fits) {
      notices.push_back(fits.message() + "; the adapters are saved in float32 instead");
      type = StoredType::F32;
    }
  }
  SharedTensorFile file{(fs::path(options.folder) / weightsName).string(), {}};
  std::map<std::string, std::string> keyOf;
  for (const AdapterTensor &tensor : adapterTensors(adapters)) {
    keyOf[tensor.parameter] = tensor.key;
    file.layout.push_back({tensor.key, type, shapes.at(tensor.parameter)});
  }
  std::ranges::sort(file.layout, {}, &TensorHeader::name);
  SharedTensors tensors{mine, {}};
  for (NamedTensor &tensor : tensors.mine)
    tensor.name = keyOf.at(tensor.name);
  Status status = writeSharedTensorFiles({file}, {{"format", "pt"}}, tensors, leads, agree, [&] {
    return replaceAdapters(options.folder, file, configText(adapters, source.beside()));
  });
  return std::move(status).context(what);
}

} // namespace omnibal::rt
