#include "runtime/training/session/GroupsOfRun.h"
#include "runtime/comm/Gather.h"
#include <set>

namespace omnibal::rt {
namespace {

using nlohmann::json;

/// For each parameter of a stage, the first layer that reads it in training.
std::vector<std::string> layersOfParameters(const Stage &stage) {
  std::vector<std::string> layers(stage.parameters.size());
  for (const Chunk &chunk : stage.modes.at(trainModeName(0)).chunks)
    for (const std::vector<LayerCall> *calls :
         {&chunk.forward, &chunk.backward, &chunk.inputGrad, &chunk.weightGrad})
      for (const LayerCall &call : *calls)
        for (const Location &location : call.bindings)
          if (location.space == Space::Parameter || location.space == Space::Gradient)
            if (std::string &layer = layers[location.index]; layer.empty())
              layer = call.layer;
  return layers;
}

json describeStage(const Stage &stage) {
  const std::vector<std::string> layers = layersOfParameters(stage);
  json parameters = json::array();
  for (size_t i = 0; i < layers.size(); ++i)
    if (const Parameter &q = stage.parameters[i]; q.trainable && q.counted)
      parameters.push_back({q.name, layers[i], q.wholeElements(), q.decay});
  std::set<std::string> blocks; // a chunk may be there in several variants
  for (const Chunk &chunk : stage.modes.at(trainModeName(0)).chunks)
    for (const std::string &layer : chunk.layers)
      if (layer.starts_with("vision.layers."))
        blocks.insert(layer);
  return {{"parameters", parameters}, {"vision_blocks", blocks.size()}};
}

Result<TrainedParts> modelOf(Session &s) {
  const bool tells = s.executor->isFirstHolder();
  OMNIBAL_ASSIGN_OR_RETURN(
      auto texts,
      gatherTexts(s.communicator, tells ? describeStage(s.executor->stageInfo()).dump() : ""));
  json all = json::array();
  for (const std::string &text : texts)
    if (!text.empty())
      all.push_back(json::parse(text));
  std::string told = s.leads() ? all.dump() : "";
  OMNIBAL_RETURN_IF_ERROR(s.communicator.broadcast(told, 0));
  TrainedParts model;
  for (const json &stage : json::parse(told)) {
    model.visionBlocks += stage["vision_blocks"].get<int64_t>();
    for (const json &q : stage["parameters"])
      model.parameters.push_back({q[0], q[1], q[2], q[3]});
  }
  return model;
}

constexpr const char *ratesKey = "lr_of", *decaysKey = "weight_decay_of", *warmupsKey = "warmup_of",
                     *layerDecayKey = "layer_decay";

} // namespace

Result<ParameterGroups> groupsOfRun(Session &s) {
  OMNIBAL_ASSIGN_OR_RETURN(const TrainedParts model, modelOf(s));
  auto groups = groupParameters(model, s.options.rate, s.options.weightDecay, s.options.groups);
  OMNIBAL_RETURN_IF_ERROR(s.agree(groups.status()));
  s.executor->assignRates([&](const Parameter &q) { return groups->ofParameter.at(q.name); });
  return groups;
}

void describeGroups(const GroupOptions &options, json &run) {
  for (auto [key, rules] :
       {std::pair{ratesKey, &options.rates}, std::pair{decaysKey, &options.decays},
        std::pair{warmupsKey, &options.warmups}})
    for (const GroupRule &rule : *rules)
      run[key][rule.pattern] = rule.value;
  if (options.layerDecay)
    run[layerDecayKey] = *options.layerDecay;
}

const std::vector<std::string> &groupKeys() {
  static const std::vector<std::string> keys = {ratesKey, decaysKey, warmupsKey, layerDecayKey};
  return keys;
}

} // namespace omnibal::rt
