#include "runtime/training/checkpoints/RunIdentity.h"
#include "runtime/comm/Gather.h"
#include "runtime/program/Names.h"
#include "runtime/support/Checksum.h"
#include "runtime/support/TensorFingerprint.h"
#include "runtime/training/checkpoints/MixOfRun.h"
#include "runtime/training/session/GroupsOfRun.h"
#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace omnibal::rt {
namespace {

using nlohmann::json;

constexpr const char *seedKey = "seed", *dropoutKey = "lora_dropout"; ///< left out where 0

/// What the readers of all stages found, at the leader.
Result<json> gatherFrozen(const Session &s) {
  OMNIBAL_ASSIGN_OR_RETURN(
      auto texts, gatherTexts(s.communicator, json(s.executor->frozenFingerprints()).dump()));
  json all = json::object();
  for (const std::string &text : texts)
    all.update(json::parse(text));
  return all;
}

constexpr const char *quantizedKey = "quantized", *nothingQuantized = "none";

/// "42 weights in int8".
std::string describeQuantized(const Program &program) {
  std::map<Quantization, int64_t> weights;
  for (const Stage *stage : program.firstParts())
    for (const Parameter &q : stage->parameters)
      if (q.counted && q.quantization != Quantization::None)
        ++weights[q.quantization];
  std::string text;
  for (auto [kind, count] : weights)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " weights in " + nameOf(kind);
  return text.empty() ? nothingQuantized : text;
}

std::string listed(const std::set<std::string> &names) {
  constexpr size_t most = 3;
  std::string text;
  size_t count = 0;
  for (const std::string &name : names)
    if (count++ < most)
      text += (text.empty() ? "" : ", ") + name;
  return names.size() > most ? text + " and " + std::to_string(names.size() - most) + " more"
                             : text;
}

Status otherFrozen(const std::string &path, const std::set<std::string> &names) {
  return invalid(path +
                 ": the weights that stay frozen are other ones in --weights than when the "
                 "checkpoint was written: " +
                 listed(names) + "; give the same --weights");
}

const std::map<LossNormalizer, const char *> normalizerNames = {
    {LossNormalizer::Step, "step"},
    {LossNormalizer::Epoch, "epoch"},
    {LossNormalizer::Samples, "samples"}};
constexpr const char *normalizerKey = "loss_normalizer";

/// A number, or where there are several train modes theirs by name.
json microbatchesOf(const Program &program) {
  if (program.trainModes.size() == 1)
    return program.trainModes[0].microbatches;
  json all = json::object();
  for (const TrainMode &mode : program.trainModes)
    all[mode.name] = mode.microbatches;
  return all;
}

/// What only some schedules have, as flags are called.
void describeSchedule(const LearningRateOptions &rate, json &run) {
  if (rate.decaySteps)
    run["decay_steps"] = *rate.decaySteps;
  if (rate.decayShape)
    run["decay_shape"] = nameOf(*rate.decayShape);
  if (rate.cycles)
    run["lr_cycles"] = *rate.cycles;
  if (rate.power)
    run["lr_power"] = *rate.power;
}

} // namespace

std::vector<const Parameter *> trainedParameters(const Program &program) {
  std::vector<const Parameter *> list;
  for (const Stage *stage : program.firstParts())
    for (const Parameter &q : stage->parameters)
      if (q.trainable && q.counted)
        list.push_back(&q);
  return list;
}

Result<json> describeRun(const Session &s, const DataSource &data, int64_t steps) {
  const RunOptions &o = s.options;
  json run = {{"stages", s.program().stages},
              {"data_parallel", s.program().dataParallel},
              {"microbatches", microbatchesOf(s.program())},
              {"target", s.program().target},
              {"dtype", s.program().compute},
              {"steps", steps},
              {"lr", o.rate.peak},
              {"schedule_lr", nameOf(o.rate.schedule)},
              {"warmup_steps", o.rate.warmupSteps},
              {"min_lr_ratio", o.rate.leastRatio},
              {"weight_decay", o.weightDecay},
              {"clip", o.clip},
              {normalizerKey, normalizerNames.at(o.lossNormalizer)},
              {"samples", checksumText((*data.steps)->fingerprint())}};
  OMNIBAL_ASSIGN_OR_RETURN(const UpdateOptions update,
                           updateOptions(o.update, s.program().optimizer));
  describeUpdate(update, run);
  if (s.program().averages)
    run[averageKey] = o.averageDecay();
  describeSchedule(o.rate, run);
  describeGroups(o.groups, run);
  describeMix(o, run);
  if (o.accumulate > 1)
    run["accumulate"] = o.accumulate;
  if (double coefficient = s.program().info.routerLossCoefficient; coefficient != 0)
    run["router_loss_coefficient"] = coefficient;
  if (o.seed != 0)
    run[seedKey] = o.seed;
  if (s.program().info.learnsFromPairs())
    run["preference_beta"] = s.program().info.preferenceBeta;
  if (s.program().modelParallel > 1)
    run["model_parallel"] = s.program().modelParallel;
  if (s.program().zero > 0)
    run["zero"] = s.program().zero;
  if (const Adapters &adapters = s.program().adapters; !adapters.empty()) {
    run[adaptersKey] = adaptersToJson(adapters);
    run["lora_scale"] = adapters.scale(); // as settings, which may be changed
    if (adapters.dropout > 0)
      run[dropoutKey] = adapters.dropout;
  }
  if (std::string quantized = describeQuantized(s.program()); quantized != nothingQuantized)
    run[quantizedKey] = quantized;
  run["program"] = checksumText(s.loaded.identity);
  json &trained = run["trained"] = json::object();
  for (const Parameter *q : trainedParameters(s.program()))
    trained[q->name] = q->shape;
  OMNIBAL_ASSIGN_OR_RETURN(json frozen, gatherFrozen(s));
  if (s.leads())
    run["frozen"] = std::move(frozen);
  return run;
}

RunDifferences compareRuns(const json &before, const json &after) {
  RunDifferences found;
  json written = before, now = after;
  if (!written.contains(normalizerKey)) // of a time when there was no other
    written[normalizerKey] = normalizerNames.at(LossNormalizer::Step);
  for (auto [key, usual] :
       {std::pair{"zero", 0}, std::pair{"model_parallel", 1}, std::pair{"accumulate", 1},
        std::pair{seedKey, 0}, std::pair{dropoutKey, 0}})
    if (now.contains(key) || written.contains(key)) { // left out where it is as usual
      now.emplace(key, usual);
      written.emplace(key, usual);
    }
  if (now.contains(quantizedKey) || written.contains(quantizedKey)) {
    now.emplace(quantizedKey, nothingQuantized);
    written.emplace(quantizedKey, nothingQuantized);
  }
  std::vector<std::string> optional = groupKeys();
  optional.push_back(averageKey);
  optional.push_back(mixAtKey);
  for (const std::string &key : optional)
    if (now.contains(key) || written.contains(key)) {
      now.emplace(key, json());
      written.emplace(key, json());
    }
  for (const auto &[key, value] : now.items()) {
    if (key == "frozen" || key == "trained" || key == adaptersKey ||
        (written.contains(key) && written[key] == value))
      continue;
    if (key == "samples")
      found.data = true;
    else
      found.settings.push_back(key + " " +
                               (written.contains(key) ? written[key].dump() : "unknown") + " -> " +
                               value.dump());
  }
  return found;
}

Status checkSameModel(const Checkpoint &checkpoint, const Program &program, const json &now) {
  std::set<std::string> trained, saved, lost, fresh;
  for (const Parameter *q : trainedParameters(program))
    trained.insert(q->name);
  const std::string prefix = "weight/";
  for (const std::string &name : checkpoint.tensors())
    if (name.starts_with(prefix))
      saved.insert(name.substr(prefix.size()));
  std::set_difference(saved.begin(), saved.end(), trained.begin(), trained.end(),
                      std::inserter(lost, lost.end()));
  std::set_difference(trained.begin(), trained.end(), saved.begin(), saved.end(),
                      std::inserter(fresh, fresh.end()));
  const std::string advice = "; compile the program with the checkpoint's --freeze or --lora, or "
                             "train on from the weights "
                             "of a finished run (--save)";
  if (!lost.empty())
    return invalid(checkpoint.path() + ": the run trained " + listed(lost) +
                   ", which this program does not train: the trained values would be lost" +
                   advice);
  if (!fresh.empty())
    return invalid(checkpoint.path() + ": the run did not train " + listed(fresh) +
                   ", which this program trains" + advice);
  std::set<std::string> reshaped;
  for (const Parameter *q : trainedParameters(program))
    if (checkpoint.find(prefix + q->name)->shape != q->shape)
      reshaped.insert(q->name);
  if (!reshaped.empty())
    return invalid(checkpoint.path() + ": the program has other shapes for " + listed(reshaped) +
                   "; the checkpoint belongs to another model");
  const json &settings = checkpoint.state().settings;
  const std::string before = settings.value(optimizerKey, nameOf(OptimizerKind::AdamW));
  if (before != nameOf(program.optimizer))
    return invalid(checkpoint.path() + ": its moments are those of " + before +
                   ", and the program's optimizer is " + nameOf(program.optimizer) +
                   "; compile the program with --optimizer " + before +
                   ", or train on from the weights (--export-checkpoint)");
  const json frozen = settings.value("frozen", json::object());
  std::set<std::string> others;
  for (const auto &[name, fingerprint] : now["frozen"].items())
    if (frozen.contains(name) && frozen[name] != fingerprint)
      others.insert(name);
  return others.empty() ? Status::ok() : otherFrozen(checkpoint.path(), others);
}

Status checkFrozen(const Checkpoint &checkpoint, const TensorFiles &weights) {
  std::set<std::string> others;
  const json frozen = checkpoint.state().settings.value("frozen", json::object());
  for (const auto &[name, fingerprint] : frozen.items()) {
    const StoredTensor *tensor = weights.find(name);
    if (!tensor || fingerprint != fingerprintOf(*tensor))
      others.insert(name);
  }
  return others.empty() ? Status::ok() : otherFrozen(checkpoint.path(), others);
}

} // namespace omnibal::rt
