//===- Train.cpp - The training loop of one rank --------------------------------------------===//
#include "runtime/batching/steps/Steps.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/ModelFolder.h"
#include "runtime/checkpoint/SharedTensorFile.h"
#include "runtime/data/DataLoader.h"
#include "runtime/support/Checksum.h"
#include "runtime/training/Report.h"
#include "runtime/training/Session.h"
#include <algorithm>
#include <cstring>
#include <deque>
#include <iostream>
#include <optional>

namespace omnibal::rt {
namespace {

using nlohmann::json;

/// The trainable parameters of all stages, each once, in stage order.
std::vector<const Parameter *> trained(const Program &program) {
  std::vector<const Parameter *> list;
  for (const Stage &stage : program.stageList)
    for (const Parameter &q : stage.parameters)
      if (q.trainable && q.counted)
        list.push_back(&q);
  return list;
}

/// What this rank writes of the trained tensors: the first replica writes each counted one.
std::vector<NamedTensor> writtenHere(Session &s) {
  std::vector<NamedTensor> mine;
  for (const Parameter &q : s.executor->stageInfo().parameters)
    if (q.trainable && q.counted && s.executor->replica() == 0)
      mine.push_back({q.name, q.shape, s.executor->at(q.weightOffset()), q.transposed,
                      &s.executor->backend()});
  return mine;
}

enum class StateOf { Written, Read };

/// State that this stage's shard has, or that this rank reads for others, under the checkpoint's
/// names.
std::vector<NamedTensor> stateTensors(Session &s, StateOf which) {
  std::vector<NamedTensor> list;
  for (const Parameter &q : s.executor->stageInfo().parameters) {
    if (!q.trainable || !(which == StateOf::Written ? q.counted : s.executor->reads(q)))
      continue;
    for (auto [kind, offset] :
         {std::pair{"weight/", q.weightOffset()}, std::pair{"moment1/", q.moment1Offset},
          std::pair{"moment2/", q.moment2Offset}})
      list.push_back(
          {kind + q.name, q.shape, s.executor->at(offset), q.transposed, &s.executor->backend()});
  }
  return list;
}

/// Settings whose change would break a continuation bit by bit.
json settingsOf(const Session &s, const DataSource &data, int64_t steps) {
  const RunOptions &o = s.options;
  json settings = {{"stages", s.program().stages},
                   {"data_parallel", s.program().dataParallel},
                   {"microbatches", s.program().microbatches},
                   {"steps", steps},
                   {"lr", o.learningRate},
                   {"schedule_lr", static_cast<int>(o.schedule)},
                   {"warmup_steps", o.warmupSteps},
                   {"min_lr_ratio", o.minLearningRateRatio},
                   {"betas", {o.adamW.beta1, o.adamW.beta2}},
                   {"eps", o.adamW.epsilon},
                   {"weight_decay", o.adamW.weightDecay},
                   {"clip", o.clip},
                   {"samples", checksumText((*data.steps)->fingerprint())}};
  if (double coefficient = s.program().info.routerLossCoefficient; coefficient != 0)
    settings["router_loss_coefficient"] = coefficient;
  return settings;
}

class Training {
public:
  Training(Session &session, const DataSource &data)
      : s(session), data(data), trace(session.communicator.rank(), session.executor->stage()) {}

  Status run() {
    int64_t listed = (*data.steps)->steps();
    total = s.options.steps > 0 ? s.options.steps : listed;
    OMNIBAL_RETURN_IF_ERROR(s.communicator.checkEqual(
        (*data.steps)->fingerprint(), "groups of samples; give all ranks the same files"));
    OMNIBAL_RETURN_IF_ERROR(resume());
    // The third step is past all first-use costs.
    firstTraced = std::min(first + 2, std::max(first, total - s.options.traceSteps));
    endTraced = std::min(firstTraced + s.options.traceSteps, total);
    reporter = std::make_unique<Reporter>(s, first, total);
    OMNIBAL_RETURN_IF_ERROR(s.agree(reporter->open()));
    if (total > listed && (*data.steps)->repeats())
      reporter->note("the list has " + std::to_string(listed) +
                     " steps; after them it begins again with the same groups" +
                     (s.options.batches.empty() ? ""
                                                : " (new ones each epoch need lengths.npy and the "
                                                  "settings of omnibal-batch in the folder)"));
    DataLoaderOptions options;
    options.microbatches = s.program().microbatches;
    options.dataParallel = s.program().dataParallel;
    options.replica = s.executor->replica();
    options.pixels = readsPixels(s.executor->stageInfo(), "train");
    options.threads = loaderThreads(s, "train");
    options.deadline = deadlineFromEnvironment();
    options.firstStep = first;
    options.lastStep = total;
    options.position = position;
    DataLoader feeder(data.dataset, data.preprocess, s.program(), *data.steps, options);
    for (int64_t step = first; step < total; ++step) {
      OMNIBAL_RETURN_IF_ERROR(agreeOnEpoch(feeder));
      OMNIBAL_RETURN_IF_ERROR(runStep(feeder, step));
      feeder.nextStep();
      bool last = step + 1 == total;
      bool due = s.options.checkpointEvery > 0 && (step + 1) % s.options.checkpointEvery == 0;
      if (!s.options.checkpoint.empty() && (last || due)) {
        OMNIBAL_RETURN_IF_ERROR(finishSteps(0));
        OMNIBAL_RETURN_IF_ERROR(checkpoint(step + 1, feeder.position()));
      }
    }
    OMNIBAL_RETURN_IF_ERROR(finishSteps(0));
    reporter->summarise();
    if (s.options.save.empty())
      return Status::ok();
    std::vector<std::string> names;
    for (const Parameter *q : trained(s.program()))
      names.push_back(q->name);
    ModelFolderOptions saving{s.options.save, s.options.saveType, s.options.shardBytes};
    std::vector<std::string> notices;
    OMNIBAL_RETURN_IF_ERROR(
        saveModelFolder(saving, s.weights, names, writtenHere(s), s.leads(), s.agree, &notices));
    for (const std::string &notice : notices)
      reporter->note("warning: " + notice);
    reporter->note("weights saved in " + s.options.save);
    return Status::ok();
  }

private:
  /// Every rank composes later epochs by itself; different ones would train on wrong samples.
  Status agreeOnEpoch(DataLoader &feeder) {
    int64_t epoch = feeder.position().epoch;
    if (epoch == agreedEpoch || (*data.steps)->repeats())
      return Status::ok();
    agreedEpoch = epoch;
    auto checksum = feeder.checksum();
    OMNIBAL_RETURN_IF_ERROR(s.agree(checksum.status()));
    return s.communicator.checkEqual(*checksum, "groups in epoch " + std::to_string(epoch) +
                                                    "; run the same omnibal-run on all machines");
  }

  /// The leader finds the checkpoint and tells all of it; those ranks read it that tell the others
  /// what they hold too.
  Status resume() {
    if (s.options.resume.empty())
      return Status::ok();
    std::optional<Checkpoint> saved;
    std::string path, state; // names of files are bytes, which JSON cannot hold
    OMNIBAL_RETURN_IF_ERROR(s.agree(s.leads() ? findCheckpoint(saved, path, state) : Status::ok()));
    OMNIBAL_RETURN_IF_ERROR(s.communicator.broadcast(path, 0));
    OMNIBAL_RETURN_IF_ERROR(s.communicator.broadcast(state, 0));
    OMNIBAL_RETURN_IF_ERROR(s.agree(takeState(path, json::parse(state))));
    OMNIBAL_RETURN_IF_ERROR(s.agree(readState(saved, path)));
    OMNIBAL_RETURN_IF_ERROR(s.executor->shareParameters(true));
    OMNIBAL_RETURN_IF_ERROR(s.executor->refreshCopies());
    if (s.leads())
      std::cerr << "omnibal-run: continuing after step " << first << " from " << path << "\n";
    return Status::ok();
  }

  Status findCheckpoint(std::optional<Checkpoint> &saved, std::string &path, std::string &text) {
    std::vector<std::string> notices;
    OMNIBAL_ASSIGN_OR_RETURN(saved, Checkpoint::open(s.options.resume, &notices));
    for (const std::string &notice : notices)
      std::cerr << "omnibal-run: notice: " << notice << "\n";
    const RunState &state = saved->state();
    path = saved->path();
    text = json({{"step", state.step},
                 {"data_position", state.dataPosition},
                 {"settings", state.settings}})
               .dump();
    return Status::ok();
  }

  /// What this rank was started with must be what the checkpoint was written with.
  Status takeState(const std::string &path, const json &told) {
    json now = settingsOf(s, data, total), then = told["settings"];
    std::string written = then.contains("samples") ? then["samples"].dump() : "unknown";
    if (written != now["samples"].dump())
      return invalid(path + ": the checkpoint was written with other groups of samples (" +
                     written + ") than " +
                     (s.options.batches.empty() ? s.options.stepsFile : s.options.batches) +
                     " gives for this data (" + now["samples"].dump() +
                     "); continue with the same --data and steps file or batches folder");
    for (const auto &[key, value] : now.items())
      if (!then.contains(key) || then[key] != value)
        return invalid(path + ": the checkpoint was written with " + key + " = " +
                       (then.contains(key) ? then[key].dump() : "nothing") + ", but this run has " +
                       value.dump() + "; use the same program and flags to continue bit by bit");
    first = told["step"].get<int64_t>();
    position = {then.value("epoch", int64_t{0}), first - told["data_position"].get<int64_t>()};
    if (position.epoch < 0 || position.firstStep < 0)
      return {Code::DataLoss, path + ": the position in the data is damaged"};
    s.executor->setAdamStep(then.value("updates", first));
    return Status::ok();
  }

  Status readState(std::optional<Checkpoint> &saved, const std::string &path) {
    for (const NamedTensor &tensor : stateTensors(s, StateOf::Read)) {
      if (!saved) {
        OMNIBAL_ASSIGN_OR_RETURN(saved, Checkpoint::openVerified(path));
      }
      OMNIBAL_RETURN_IF_ERROR(saved->read(tensor));
    }
    return Status::ok();
  }

  Status runStep(DataLoader &feeder, int64_t step) {
    StepOptions options;
    options.adamW = s.options.adamW;
    options.adamW.learningRate = learningRateAt(s.options, step, total);
    options.clip = s.options.clip;
    options.step = step;
    if (step == 0 && !s.options.saveGradients.empty())
      options.beforeUpdate = [&](double count) { return saveGradients(count); };
    const bool traced = !s.options.trace.empty() && step >= firstTraced && step < endTraced;
    if (traced && step == firstTraced) {
      OMNIBAL_RETURN_IF_ERROR(finishSteps(0));
      OMNIBAL_RETURN_IF_ERROR(s.communicator.barrier(s.communicator.everyone()));
      trace.start();
      s.executor->setTrace(&trace);
    }
    OMNIBAL_RETURN_IF_ERROR(explained(s.executor->startStep(feeder, options)));
    started.push_back({step, options.adamW.learningRate});
    // Where work is only enqueued, the next step comes before this one's numbers.
    OMNIBAL_RETURN_IF_ERROR(
        finishSteps(traced || s.executor->backend().isSynchronous() ? 0 : stepsAhead));
    if (!traced || step + 1 < endTraced)
      return Status::ok();
    s.executor->setTrace(nullptr);
    return writeTrace(s, trace);
  }

  /// Reports steps until only so many are under way.
  Status finishSteps(size_t left) {
    while (started.size() > left) {
      auto [step, learningRate] = started.front();
      started.pop_front();
      auto result = s.executor->finishStep();
      OMNIBAL_RETURN_IF_ERROR(explained(result.status()));
      OMNIBAL_RETURN_IF_ERROR(reporter->step(step, *result, learningRate));
    }
    return Status::ok();
  }

  Status explained(Status status) const {
    if (status.code() != Code::DeadlineExceeded)
      return status;
    return {status.code(), status.message() + "; last actions of rank " +
                               std::to_string(s.communicator.rank()) + ": " +
                               s.executor->recentActions()};
  }

  Status saveGradients(double count) {
    std::vector<TensorHeader> layout;
    for (const Parameter *q : trained(s.program()))
      layout.push_back({q->name, StoredType::F32, q->shape});
    // Copies: the sums themselves stay as they are for the update.
    std::vector<std::vector<float>> copies;
    std::vector<NamedTensor> mine;
    double factor = count > 0 ? 1.0 / count : 0;
    for (const Parameter &q : s.executor->stageInfo().parameters) {
      if (!q.trainable || !q.counted || s.executor->replica() != 0)
        continue;
      auto &copy = copies.emplace_back(q.elements());
      OMNIBAL_RETURN_IF_ERROR(s.executor->backend().read(
          s.executor->at(q.gradOffset), q.elements() * int64_t{sizeof(float)},
          [&](const std::byte *sums) {
            std::memcpy(copy.data(), sums, copy.size() * sizeof(float));
            return Status::ok();
          }));
      for (float &value : copy)
        value = static_cast<float>(value * factor);
      mine.push_back({q.name, q.shape, copy.data(), q.transposed});
    }
    return writeSharedTensorFile({s.options.saveGradients, layout}, mine, s.leads(), s.agree);
  }

  Status checkpoint(int64_t completed, DataPosition epoch) {
    RunState state;
    state.step = completed;
    state.dataPosition = completed - epoch.firstStep;
    state.settings = settingsOf(s, data, total);
    state.settings["updates"] = s.executor->adamStep();
    state.settings["epoch"] = epoch.epoch;
    CheckpointWriteOptions options;
    options.folder = s.options.checkpoint;
    options.stage = s.executor->stage();
    options.stages = s.program().stages;
    options.writes = s.executor->replica() == 0;
    options.leads = s.leads();
    return saveCheckpoint(options, state, stateTensors(s, StateOf::Written), s.agree);
  }

  Session &s;
  const DataSource &data;
  int64_t first = 0, total = 0;
  DataPosition position;   ///< the epoch that holds `first`
  int64_t agreedEpoch = 0; ///< all ranks have the same groups for it
  struct Started {
    int64_t step;
    double learningRate;
  };
  static constexpr size_t stepsAhead = 1;
  std::deque<Started> started; ///< steps under way
  Trace trace;
  int64_t firstTraced = 0, endTraced = 0;
  std::unique_ptr<Reporter> reporter;
};

} // namespace

Result<std::shared_ptr<StepSource>> openSteps(const RunOptions &options, const Program &program,
                                              const Dataset &dataset) {
  StepSource::Layout layout{program.microbatches, program.dataParallel};
  if (options.batches.empty())
    return readStepsFile(options.stepsFile, layout,
                         [&](std::string_view key) { return dataset.find(key); });
  BatchesUse use;
  use.layout = layout;
  use.tilesCap = program.tilesCap;
  use.tokensCap = program.tokensCap;
  use.samples = dataset.size();
  use.units = program.info.grid.has_value();
  use.tilesOf = [&](int64_t sample) { return dataset.tiles(sample); };
  use.nameOf = [&](int64_t sample) { return dataset.describe(sample); };
  return openBatches(options.batches, use);
}

Status train(Session &session, const DataSource &data) { return Training(session, data).run(); }

} // namespace omnibal::rt
