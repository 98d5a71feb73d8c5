#include "runtime/training/checkpoints/SaveTrained.h"
#include "runtime/checkpoint/MergedWeights.h"
#include "runtime/checkpoint/ModelFolder.h"

namespace omnibal::rt {

Status saveTrained(const RunOptions &options, const std::string &folder,
                   const TrainedModel &trained, const TensorFiles &source, bool leads,
                   const Agreement &agree, std::vector<std::string> &notices) {
  const ModelFolderOptions saving{folder, options.saveType, options.shardBytes};
  if (trained.adapters.empty()) {
    std::vector<std::string> names;
    for (const auto &[name, shape] : trained.shapes)
      names.push_back(name);
    return saveModelFolder(saving, source, names, trained.mine, leads, agree, &notices);
  }
  if (!options.mergeAdapters)
    return saveAdapterFolder({folder, options.saveType}, trained.adapters, trained.shapes, source,
                             trained.mine, leads, agree, notices);
  Result<MergedWeights> merged = MergedWeights();
  OMNIBAL_RETURN_IF_ERROR(agree.after([&] {
    if (!trained.mine.empty()) // others need not have the source
      merged = MergedWeights::of(trained.adapters, source, trained.mine);
    return merged.status();
  }));
  return saveModelFolder(saving, source, mergedNames(trained.adapters), merged->tensors(), leads,
                         agree, &notices);
}

Status checkAverageFlags(const RunOptions &options, const Program &program) {
  if (program.averages)
    return Status::ok();
  for (auto [given, flag] : {std::pair{options.update.averageDecay.has_value(), "--ema-decay"},
                             std::pair{!options.saveAverages.empty(), "--save-ema"},
                             std::pair{options.evaluateAverages, "--evaluate-ema"}})
    if (given)
      return invalid(std::string(flag) + ": " + options.program +
                     " keeps no moving averages; omnibal-compile --ema makes a program that does");
  return Status::ok();
}

/// Merging needs all of an adapter on one rank.
Status checkMergeFlag(const RunOptions &options, const Program &program) {
  if (!options.mergeAdapters)
    return Status::ok();
  for (const Stage &stage : program.stageList)
    for (const Parameter &q : stage.parameters)
      if (q.trainable && q.held)
        return invalid("--merge-adapters: the parts of a stage of " + options.program +
                       " have shares of \"" + q.name +
                       "\"; leave the flag out, and give it to --export-checkpoint");
  return Status::ok();
}

Status checkAdapterFlags(const RunOptions &options, const Adapters &adapters,
                         const std::string &what) {
  if (!adapters.empty())
    return Status::ok();
  for (auto [given, flag] : {std::pair{!options.adapter.empty(), "--adapter"},
                             std::pair{options.mergeAdapters, "--merge-adapters"}})
    if (given)
      return invalid(std::string(flag) + ": " + what +
                     " has no adapters; omnibal-compile --lora makes a program with some");
  return Status::ok();
}

} // namespace omnibal::rt
