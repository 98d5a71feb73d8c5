#include "runtime/training/RunIdentity.h"
#include "runtime/support/Checksum.h"
#include <algorithm>
#include <map>
#include <set>

namespace omnibal::rt {
namespace {

using nlohmann::json;

/// Bytes at each end of a tensor that stand for all of it: reading whole models at every start
/// would take minutes, and weights of other training differ everywhere.
constexpr int64_t endBytes = 4096;

uint64_t checksumOf(const StoredTensor &tensor, uint64_t state) {
  auto bytes = reinterpret_cast<const char *>(tensor.data);
  const int64_t part = std::min(tensor.bytes, endBytes);
  state = fnv1a({bytes, static_cast<size_t>(part)}, state);
  return fnv1a({bytes + tensor.bytes - part, static_cast<size_t>(part)}, state);
}

/// Of the parameters that the program does not train, where the weights have them by name.
std::string frozenChecksum(const Session &s) {
  std::set<std::string> names;
  for (const Stage &stage : s.program().stageList)
    for (const Parameter &q : stage.parameters)
      if (!q.trainable)
        names.insert(q.name);
  uint64_t state = fnv1a("");
  for (const std::string &name : names)
    if (const StoredTensor *tensor = s.weights.find(name))
      state = checksumOf(*tensor, fnv1a(name, state));
  return checksumText(state);
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

const std::map<LearningRateSchedule, const char *> scheduleNames = {
    {LearningRateSchedule::Constant, "constant"},
    {LearningRateSchedule::Linear, "linear"},
    {LearningRateSchedule::Cosine, "cosine"}};

} // namespace

std::vector<const Parameter *> trainedParameters(const Program &program) {
  std::vector<const Parameter *> list;
  for (const Stage &stage : program.stageList)
    for (const Parameter &q : stage.parameters)
      if (q.trainable && q.counted)
        list.push_back(&q);
  return list;
}

json describeRun(const Session &s, const DataSource &data, int64_t steps) {
  const RunOptions &o = s.options;
  json run = {{"stages", s.program().stages},
              {"data_parallel", s.program().dataParallel},
              {"microbatches", s.program().microbatches},
              {"target", s.program().target},
              {"dtype", s.program().compute},
              {"steps", steps},
              {"lr", o.learningRate},
              {"schedule_lr", scheduleNames.at(o.schedule)},
              {"warmup_steps", o.warmupSteps},
              {"min_lr_ratio", o.minLearningRateRatio},
              {"betas", {o.adamW.beta1, o.adamW.beta2}},
              {"eps", o.adamW.epsilon},
              {"weight_decay", o.adamW.weightDecay},
              {"clip", o.clip},
              {"samples", checksumText((*data.steps)->fingerprint())}};
  if (double coefficient = s.program().info.routerLossCoefficient; coefficient != 0)
    run["router_loss_coefficient"] = coefficient;
  if (s.leads())
    run["frozen"] = frozenChecksum(s);
  return run;
}

RunDifferences compareRuns(const json &written, const json &now) {
  RunDifferences found;
  for (const auto &[key, value] : now.items()) {
    if (key == "frozen" || (written.contains(key) && written[key] == value))
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
    if (name.compare(0, prefix.size(), prefix) == 0)
      saved.insert(name.substr(prefix.size()));
  std::set_difference(saved.begin(), saved.end(), trained.begin(), trained.end(),
                      std::inserter(lost, lost.end()));
  std::set_difference(trained.begin(), trained.end(), saved.begin(), saved.end(),
                      std::inserter(fresh, fresh.end()));
  const std::string advice =
      "; compile the program with the checkpoint's --freeze, or train on from the weights of a "
      "finished run (--save)";
  if (!lost.empty())
    return invalid(checkpoint.path() + ": the run trained " + listed(lost) +
                   ", which this program does not train: the trained values would be lost" +
                   advice);
  if (!fresh.empty())
    return invalid(checkpoint.path() + ": the run did not train " + listed(fresh) +
                   ", which this program trains" + advice);
  const json &written = checkpoint.state().settings;
  if (written.contains("frozen") && written["frozen"] != now["frozen"])
    return invalid(checkpoint.path() + ": the weights that stay frozen are other ones in --weights "
                                       "than when the checkpoint was written; give the same "
                                       "--weights");
  return Status::ok();
}

} // namespace omnibal::rt
