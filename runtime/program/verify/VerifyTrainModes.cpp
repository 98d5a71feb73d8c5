//===- VerifyTrainModes.cpp - Rules p15, p16: what train modes share, and their header -------===//
#include "runtime/program/verify/VerifierInternal.h"
#include <map>
#include <set>

namespace omnibal::rt {
namespace {

/// More than anybody has use for, as each has functions of its own.
constexpr size_t mostTrainModes = 64;

/// What a mode trains on a stage, and how.
struct TrainedParts {
  std::map<int32_t, std::vector<std::string>> layers; ///< by chunk
  std::set<int32_t> parameters, buckets, groups;
};

TrainedParts partsOf(const Mode &mode) {
  TrainedParts parts;
  for (const Chunk &chunk : mode.chunks)
    parts.layers[chunk.id] = chunk.layers;
  for (const Action &a : mode.actions) {
    if (reducesBucket(a.kind))
      parts.buckets.insert(a.index);
    if (a.kind == ActionKind::ReduceShared)
      parts.groups.insert(a.index);
  }
  for (const Chunk &chunk : mode.chunks)
    for (ActionKind kind : computeKinds)
      for (const LayerCall &call : chunk.calls(kind))
        for (const Location &l : call.bindings)
          if (l.space == Space::Gradient)
            parts.parameters.insert(l.index);
  return parts;
}

/// Everything that steps of different modes do with parameters is the same.
Status checkSharedParts(const Program &p, const Stage &stage) {
  const TrainedParts first = partsOf(stage.modes.at(trainModeName(0)));
  for (size_t i = 1; i < p.trainModes.size(); ++i) {
    const TrainedParts own = partsOf(stage.modes.at(trainModeName(i)));
    auto wrong = [&](const char *what) {
      return broken("p15", "stage " + std::to_string(stage.id) + ", mode " + trainModeName(i),
                    std::string(what) + " those of mode " + trainModeName(0));
    };
    if (own.layers != first.layers)
      return wrong("its chunks and their layers are not");
    if (own.parameters != first.parameters)
      return wrong("the parameters that get gradients are not");
    if (own.buckets != first.buckets || own.groups != first.groups)
      return wrong("the buckets and shared groups that it reduces are not");
  }
  return Status::ok();
}

Status checkModeList(const Program &p) {
  auto bad = [](const std::string &what) { return broken("p16", "manifest, train_modes", what); };
  if (p.trainModes.size() > mostTrainModes)
    return bad("there are more than " + std::to_string(mostTrainModes));
  std::set<std::string> names;
  const TrainMode *before = nullptr;
  for (const TrainMode &mode : p.trainModes) {
    const std::string which = "\"" + mode.name + "\"";
    if (mode.degree < 1 || p.dataParallel % mode.degree != 0)
      return bad("the degree " + std::to_string(mode.degree) + " of " + which +
                 " does not divide data_parallel, " + std::to_string(p.dataParallel));
    if (p.largestDegree() % mode.degree != 0)
      return bad("the degree " + std::to_string(mode.degree) + " of " + which +
                 " does not divide the largest, " + std::to_string(p.largestDegree()));
    if (mode.degree > 1 && p.modelParallel > 1)
      return bad("the degree of " + which + " is " + std::to_string(mode.degree) +
                 ", but with model_parallel above 1 there is none above 1");
    if (before && before->tokensCap > mode.tokensCap)
      return bad("the caps do not ascend: " + std::to_string(mode.tokensCap) + " tokens of " +
                 which + " come after " + std::to_string(before->tokensCap));
    if (p.hasLengthGroups() && (mode.name.empty() || !names.insert(mode.name).second))
      return bad("the name " + which + " is empty or occurs twice");
    before = &mode;
  }
  if (p.hasLengthGroups() && !p.stepProblem.empty())
    return bad("there are several, or a degree, but plans of single steps are for one without");
  return Status::ok();
}

} // namespace

Status verifyModeList(const Program &p) {
  OMNIBAL_RETURN_IF_ERROR(checkModeList(p));
  size_t present = 0;
  for (const auto &[name, mode] : p.stageList[0].modes)
    if (auto number = trainModeNumber(name)) {
      if (*number >= p.trainModes.size())
        return broken("p16", "mode " + name,
                      "the manifest has " + std::to_string(p.trainModes.size()) + " train modes");
      ++present;
    }
  const bool trains = present > 0 || p.trainModes.size() > 1;
  if (trains && present != p.trainModes.size())
    return broken("p16", "manifest, train_modes",
                  std::to_string(p.trainModes.size()) + " modes, but stages.json has " +
                      std::to_string(present));
  return Status::ok();
}

Status verifySharedParts(const Program &p) {
  for (const Stage &stage : p.stageList)
    if (p.trainModes.size() > 1)
      OMNIBAL_RETURN_IF_ERROR(checkSharedParts(p, stage));
  return Status::ok();
}

} // namespace omnibal::rt
