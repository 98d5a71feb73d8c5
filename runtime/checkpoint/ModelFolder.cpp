#include "runtime/checkpoint/ModelFolder.h"
#include "runtime/checkpoint/SharedTensorFile.h"
#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

namespace omnibal::rt {
namespace {

namespace fs = std::filesystem;

/// The files beside the weights that Transformers reads to build model, tokenizer and processor.
constexpr std::string_view companions[] = {
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "image_processor_config.json",
    "video_preprocessor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "spiece.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.json",
    "chat_template.jinja",
};

Status copyCompanions(const std::string &from, const std::string &to) {
  std::error_code error;
  fs::create_directories(to, error);
  if (error)
    return {Code::Unavailable, to + ": creating the folder failed: " + error.message()};
  if (fs::equivalent(from, to, error))
    return Status::ok();
  for (std::string_view name : companions) {
    fs::path source = fs::path(from) / name;
    if (!fs::is_regular_file(source, error))
      continue;
    OMNIBAL_ASSIGN_OR_RETURN(std::string contents, readWholeFile(source.string()));
    OMNIBAL_RETURN_IF_ERROR(writeFileAtomically((fs::path(to) / name).string(), contents));
  }
  return Status::ok();
}

} // namespace

Status saveModelFolder(const std::string &folder, const TensorFiles &source,
                       const std::vector<std::string> &trained,
                       const std::vector<NamedTensor> &mine, bool leads, const Agreement &agree) {
  std::set<std::string_view> changed(trained.begin(), trained.end());
  std::vector<TensorHeader> layout;
  std::vector<const StoredTensor *> copied;
  Status status;
  const bool writes = leads || !mine.empty(); // others need not have the source
  for (const std::string &name : source.names()) {
    const StoredTensor *tensor = source.find(name);
    bool rewritten = changed.erase(name);
    layout.push_back({name, rewritten ? StoredType::F32 : tensor->dtype, tensor->shape});
    if (!rewritten)
      copied.push_back(tensor);
  }
  if (writes && !changed.empty())
    status = invalid(source.path() + ": the trained parameter \"" + std::string(*changed.begin()) +
                     "\" is not in the source weights");
  if (leads && status)
    status = copyCompanions(source.folder(), folder);
  status = agree(std::move(status));
  if (status) // weights last: a folder with weights is a complete one
    status = writeSharedTensorFile((fs::path(folder) / "model.safetensors").string(), layout,
                                   {{"format", "pt"}}, mine, copied, leads, agree);
  return std::move(status).context("saving the model to " + folder);
}

} // namespace omnibal::rt
