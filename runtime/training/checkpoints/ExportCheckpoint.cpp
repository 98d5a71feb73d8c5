#include "runtime/training/checkpoints/ExportCheckpoint.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/ModelFolder.h"
#include "runtime/training/checkpoints/RunIdentity.h"
#include "runtime/training/checkpoints/SaveTrained.h"
#include <set>

namespace omnibal::rt {
namespace {

/// What the run trained in place of the model's own weights.
Result<Adapters> adaptersIn(const Checkpoint &checkpoint) {
  const nlohmann::json &settings = checkpoint.state().settings;
  if (!settings.contains(adaptersKey))
    return Adapters();
  Status error;
  Adapters adapters = adaptersFromJson(JsonField(
      settings[adaptersKey], checkpoint.path() + "/manifest.json, settings.adapters", error));
  OMNIBAL_RETURN_IF_ERROR(error);
  for (const AdapterTensor &tensor : adapterTensors(adapters))
    if (!checkpoint.find("weight/" + tensor.parameter))
      return Status(Code::DataLoss, checkpoint.path() + ": the parameter \"" + tensor.parameter +
                                        "\" of its adapters is missing");
  return adapters;
}

/// What was trained, or its moving averages, by the `prefix` of their names, in the mapped files of
/// the checkpoint.
Result<std::vector<NamedTensor>> trainedIn(const Checkpoint &checkpoint, const std::string &prefix,
                                           const Adapters &adapters, const TensorFiles &source) {
  std::set<std::string> added;
  for (const LinearAdapter &linear : adapters.linears)
    added.insert({linear.a, linear.b, linear.magnitude});
  std::vector<NamedTensor> list;
  for (const std::string &stored : checkpoint.tensors()) {
    if (!stored.starts_with(prefix))
      continue;
    const std::string name = stored.substr(prefix.size());
    const StoredTensor *tensor = checkpoint.find(stored), *base = source.find(name);
    if (!added.contains(name) && (!base || base->shape != tensor->shape))
      return invalid(source.path() + ": the parameter \"" + name + "\", which " +
                     checkpoint.path() + " has trained, is " +
                     (base ? "of another shape" : "missing") +
                     "; --weights takes what the run began with");
    if (tensor->dtype != StoredType::F32 ||
        reinterpret_cast<uintptr_t>(tensor->data) % alignof(float) != 0)
      return Status(Code::DataLoss,
                    checkpoint.path() + ": \"" + stored + "\" is not stored as checkpoints are");
    auto data = reinterpret_cast<float *>(const_cast<std::byte *>(tensor->data)); // only read
    list.push_back({name, tensor->shape, data});
  }
  return list;
}

} // namespace

Status exportCheckpoint(const RunOptions &options, std::vector<std::string> &notices) {
  std::vector<std::string> linkFolders;
  if (!options.linkRoot.empty())
    linkFolders.push_back(options.linkRoot);
  OMNIBAL_ASSIGN_OR_RETURN(const TensorFiles source,
                           TensorFiles::open(options.weights, linkFolders));
  OMNIBAL_RETURN_IF_ERROR(checkModelFolderSource(source));
  OMNIBAL_ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                           Checkpoint::open(options.exportCheckpoint, &notices));
  OMNIBAL_ASSIGN_OR_RETURN(const Adapters adapters, adaptersIn(checkpoint));
  OMNIBAL_RETURN_IF_ERROR(checkAdapterFlags(options, adapters, checkpoint.path()));
  OMNIBAL_RETURN_IF_ERROR(checkFrozen(checkpoint, source));
  if (!options.saveAverages.empty() && !checkpoint.state().settings.contains(averageKey))
    return invalid("--save-ema: " + checkpoint.path() +
                   " has no moving averages; its program was compiled without --ema");
  for (auto [folder, prefix, what] :
       {std::tuple{&options.save, "weight/", "weights"},
        std::tuple{&options.saveAverages, "average/", "moving averages"}}) {
    if (folder->empty())
      continue;
    OMNIBAL_ASSIGN_OR_RETURN(std::vector<NamedTensor> mine,
                             trainedIn(checkpoint, prefix, adapters, source));
    ParameterShapes shapes;
    for (const NamedTensor &tensor : mine)
      shapes[tensor.name] = tensor.shape;
    OMNIBAL_RETURN_IF_ERROR(saveTrained(options, *folder,
                                        {adapters, std::move(shapes), std::move(mine)}, source,
                                        true, Agreement(agreeAlone), notices));
    notices.push_back(what + (" of step " + std::to_string(checkpoint.state().step)) + " (" +
                      checkpoint.path() + ") saved in " + *folder);
  }
  return Status::ok();
}

} // namespace omnibal::rt
