//===- Train.cpp - The training loop of one rank --------------------------------------------===//
#include "runtime/batching/steps/Steps.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/CheckpointFolder.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/ModelFolder.h"
#include "runtime/checkpoint/SharedTensorFile.h"
#include "runtime/comm/Gather.h"
#include "runtime/data/DataLoader.h"
#include "runtime/support/StopSignals.h"
#include "runtime/training/Report.h"
#include "runtime/training/RunIdentity.h"
#include "runtime/training/Session.h"
#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <iostream>
#include <optional>
#include <set>

namespace omnibal::rt {
namespace {

using nlohmann::json;

/// What this rank writes of the trained tensors: the first replica writes each counted one.
std::vector<NamedTensor> writtenHere(Session &s) {
  std::vector<NamedTensor> mine;
  for (const Parameter &q : s.executor->stageInfo().parameters)
    if (q.trainable && q.counted && s.executor->replica() == 0)
      mine.push_back({q.name, q.shape, s.executor->at(q.weightOffset()), q.transposed,
                      &s.executor->backend()});
  return mine;
}

double secondsBetween(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
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

class Training {
public:
  Training(Session &session, const DataSource &data)
      : s(session), data(data), trace(session.communicator.rank(), session.executor->stage()) {}

  Status run(bool &stopped) {
    int64_t listed = (*data.steps)->steps();
    total = s.options.steps > 0 ? s.options.steps : listed;
    OMNIBAL_RETURN_IF_ERROR(s.communicator.checkEqual(
        (*data.steps)->fingerprint(), "groups of samples; give all ranks the same files"));
    if (!s.options.checkpoint.empty() || !s.options.resume.empty())
      described = describeRun(s, data, total);
    OMNIBAL_RETURN_IF_ERROR(s.agree(s.leads() ? claimFolder() : Status::ok()));
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
    OMNIBAL_RETURN_IF_ERROR(trainSteps(stopped));
    if (stopped)
      return Status::ok();
    reporter->summarise();
    if (!s.options.save.empty())
      OMNIBAL_RETURN_IF_ERROR(saveWeights());
    return s.agree(reporter->health());
  }

private:
  /// Reads ahead from the step on.
  void openFeeder(int64_t step, DataPosition from) {
    DataLoaderOptions options;
    options.microbatches = s.program().microbatches;
    options.dataParallel = s.program().dataParallel;
    options.replica = s.executor->replica();
    options.pixels = readsPixels(s.executor->stageInfo(), "train");
    options.threads = loaderThreads(s, "train");
    options.deadline = deadlineFromEnvironment();
    options.firstStep = step;
    options.lastStep = total;
    options.position = from;
    options.leftOut = leftOut;
    options.standIns = true;
    feeder.reset(); // its threads end before others begin
    feeder = std::make_unique<DataLoader>(data.dataset, data.preprocess, s.program(), *data.steps,
                                          options);
  }

  Status trainSteps(bool &stopped) {
    openFeeder(first, position);
    for (int64_t step = first; step < total; ++step) {
      OMNIBAL_RETURN_IF_ERROR(agreeOnEpoch(*feeder));
      OMNIBAL_RETURN_IF_ERROR(runStep(step));
      feeder->nextStep();
      bool last = step + 1 == total;
      bool due = s.options.checkpointEvery > 0 && (step + 1) % s.options.checkpointEvery == 0;
      if (!s.options.checkpoint.empty() && (last || due || stop || save)) {
        OMNIBAL_RETURN_IF_ERROR(finishSteps(0));
        OMNIBAL_RETURN_IF_ERROR(checkpoint(step + 1, feeder->position()));
      }
      if (stop && !last) {
        stopped = true;
        return endEarly(step + 1);
      }
    }
    return finishSteps(0);
  }

  Status saveWeights() {
    std::vector<std::string> names;
    for (const Parameter *q : trainedParameters(s.program()))
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

  /// The steps so far are in a checkpoint.
  Status endEarly(int64_t completed) {
    OMNIBAL_RETURN_IF_ERROR(s.agree(reporter->health())
                                .context("the run ends after step " + std::to_string(completed) +
                                         ", of which " + s.options.checkpoint +
                                         " has a checkpoint"));
    reporter->summarise();
    const std::string signal = stopSignalName();
    reporter->note("stopped after step " + std::to_string(completed) + " of " +
                   std::to_string(total) + " (" +
                   (outOfTime        ? "--time-limit"
                    : signal.empty() ? "another rank's signal"
                                     : signal) +
                   "); the same command line with --resume auto goes on from its checkpoint");
    return Status::ok();
  }

  /// The leader keeps other runs out of the folder, and this one away from what it does not
  /// continue.
  Status claimFolder() {
    if (s.options.checkpoint.empty())
      return Status::ok();
    std::vector<std::string> notices;
    OMNIBAL_ASSIGN_OR_RETURN(folder, CheckpointFolder::claim(s.options.checkpoint, &notices));
    for (const std::string &notice : notices)
      std::cerr << "omnibal-run: notice: " << notice << "\n";
    const std::vector<std::string> present = folder.checkpoints();
    if (present.empty() || continuesFolder())
      return Status::ok();
    if (!s.options.overwrite)
      return invalid("--checkpoint: " + s.options.checkpoint +
                     " holds checkpoints of another run, the newest of step " +
                     std::to_string(stepOf(present.front())) +
                     "; go on from it with --resume auto, choose another folder, or let this run "
                     "replace them with --overwrite");
    replaced = present;
    return Status::ok();
  }

  /// Whether the run goes on from what its folder of checkpoints holds.
  bool continuesFolder() const {
    namespace fs = std::filesystem;
    if (s.options.resume.empty())
      return false;
    std::error_code ignored;
    const fs::path from = fs::weakly_canonical(s.options.resumesFrom(), ignored);
    const fs::path here = fs::weakly_canonical(s.options.checkpoint, ignored);
    return from == here || from.parent_path() == here;
  }

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
    if (s.options.resumesIfPresent()) {
      std::string found = s.leads() && !folder.checkpoints().empty() ? "yes" : "";
      OMNIBAL_RETURN_IF_ERROR(s.communicator.broadcast(found, 0));
      if (found.empty())
        return Status::ok();
    }
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
    OMNIBAL_ASSIGN_OR_RETURN(saved, Checkpoint::open(s.options.resumesFrom(), &notices));
    for (const std::string &notice : notices)
      std::cerr << "omnibal-run: notice: " << notice << "\n";
    OMNIBAL_RETURN_IF_ERROR(checkSameModel(*saved, s.program(), described));
    const RunState &state = saved->state();
    path = saved->path();
    text = json({{"step", state.step},
                 {"data_position", state.dataPosition},
                 {"settings", state.settings}})
               .dump();
    return Status::ok();
  }

  /// What the user changed since is told and taken; where the data is other, it begins anew.
  Status takeState(const std::string &path, const json &told) {
    const json then = told["settings"];
    const RunDifferences found = compareRuns(then, described);
    first = told["step"].get<int64_t>();
    position = {then.value("epoch", int64_t{0}), first - told["data_position"].get<int64_t>()};
    if (position.epoch < 0 || position.firstStep < 0)
      return {Code::DataLoss, path + ": the position in the data is damaged"};
    if (found.data)
      position = {0, first};
    if (first > total)
      return invalid(path + ": the checkpoint is of step " + std::to_string(first) +
                     ", this run has only " + std::to_string(total) + " (--steps)");
    s.executor->setAdamStep(then.value("updates", first));
    if (!s.leads())
      return Status::ok();
    if (found.data)
      std::cerr << "omnibal-run: notice: the groups of samples are other ones than the "
                   "checkpoint's; they are read from their beginning\n";
    for (const std::string &change : found.settings)
      std::cerr << "omnibal-run: notice: changed since the checkpoint: " << change << "\n";
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

  /// Runs the step, again as long as some rank could not read all of its samples and they may be
  /// left out.
  Status runStep(int64_t step) {
    for (;;) {
      OMNIBAL_ASSIGN_OR_RETURN(const bool dropped, tryStep(step));
      if (!dropped)
        return Status::ok();
      const DataPosition here = feeder->position();
      OMNIBAL_RETURN_IF_ERROR(finishSteps(0));
      OMNIBAL_RETURN_IF_ERROR(leaveOut(step, here));
      openFeeder(step, here);
    }
  }

  /// The samples that any rank could not read, if so many may be left out; else the run ends with a
  /// checkpoint of the steps before.
  Status leaveOut(int64_t step, DataPosition here) {
    json mine = json::array();
    for (const BadSample &bad : feeder->bad())
      mine.push_back({bad.sample, bad.reason.message()});
    OMNIBAL_ASSIGN_OR_RETURN(
        auto texts,
        gatherTexts(s.communicator, mine.dump(-1, ' ', false, json::error_handler_t::replace)));
    std::string all = s.leads() ? json(texts).dump() : "";
    OMNIBAL_RETURN_IF_ERROR(s.communicator.broadcast(all, 0));
    std::map<int64_t, std::string> found; // the reason of the lowest rank counts
    for (const auto &text : json::parse(all))
      for (const auto &bad : json::parse(text.get<std::string>()))
        found.emplace(bad[0].get<int64_t>(), bad[1].get<std::string>());
    if (static_cast<int64_t>(leftOut.size() + found.size()) > s.options.skipBadSamples) {
      Status reason(Code::DataLoss, stepForPeople(step) + ": " + found.begin()->second);
      if (s.options.skipBadSamples > 0)
        reason = std::move(reason).context("more than --skip-bad-samples " +
                                           std::to_string(s.options.skipBadSamples));
      return endWith(std::move(reason), step, here);
    }
    for (const auto &[sample, reason] : found) {
      leftOut.insert(sample);
      reporter->leaveOut(data.dataset->key(sample));
      reporter->note("warning: " + stepForPeople(step) + ": a sample is left out (" +
                     std::to_string(leftOut.size()) + " of at most " +
                     std::to_string(s.options.skipBadSamples) + "): " + reason);
    }
    return Status::ok();
  }

  /// An error that all ranks found alike, after which the parameters are those of the steps before
  /// `step`: these are kept.
  Status endWith(Status error, int64_t step, DataPosition here) {
    if (s.options.checkpoint.empty() || step == first)
      return error;
    if (step != savedStep)
      OMNIBAL_RETURN_IF_ERROR(checkpoint(step, here));
    return {error.code(), error.message() + "\n" + s.options.checkpoint +
                              " has a checkpoint of the " + std::to_string(step) +
                              " steps before it, from which --resume auto goes on"};
  }

  /// Whether nothing was learnt of it, because some rank could not read its samples.
  Result<bool> tryStep(int64_t step) {
    StepOptions options;
    options.adamW = s.options.adamW;
    options.adamW.learningRate = learningRateAt(s.options, step, total);
    options.clip = s.options.clip;
    options.step = step;
    options.stop = wantsStop();
    options.save = wantsCheckpoint();
    if (step == 0 && !s.options.saveGradients.empty())
      options.beforeUpdate = [&](double count) { return saveGradients(count); };
    const bool traced = !s.options.trace.empty() && step >= firstTraced && step < endTraced;
    if (traced && step == firstTraced) {
      OMNIBAL_RETURN_IF_ERROR(finishSteps(0));
      OMNIBAL_RETURN_IF_ERROR(s.communicator.barrier(s.communicator.everyone()));
      trace.start();
      s.executor->setTrace(&trace);
    }
    const int64_t updates = s.executor->adamStep();
    OMNIBAL_RETURN_IF_ERROR(explained(s.executor->startStep(*feeder, options)));
    const bool dropped = s.executor->wasDropped();
    started.push_back({step, options.adamW.learningRate, updates, feeder->position()});
    // Where work is only enqueued, the next step comes before this one's numbers.
    OMNIBAL_RETURN_IF_ERROR(
        finishSteps(traced || s.executor->backend().isSynchronous() ? 0 : stepsAhead));
    if (traced && step + 1 == endTraced && !dropped) {
      s.executor->setTrace(nullptr);
      OMNIBAL_RETURN_IF_ERROR(writeTrace(s, trace));
    }
    return dropped;
  }

  /// Reports steps until only so many are under way.
  Status finishSteps(size_t left) {
    while (started.size() > left) {
      auto [step, learningRate, updates, here] = started.front();
      started.pop_front();
      auto result = s.executor->finishStep();
      OMNIBAL_RETURN_IF_ERROR(explained(result.status()));
      if (!result->undefined.empty()) {
        for (; !started.empty(); started.pop_front())
          OMNIBAL_RETURN_IF_ERROR(explained(s.executor->finishStep().status()));
        s.executor->setAdamStep(updates);
        return endWith(invalid(result->undefined), step, here);
      }
      if (result->dropped)
        continue;
      stop |= result->stop;
      save |= result->save;
      longestStep = std::max(longestStep, result->stepSeconds);
      reporter->step(step, *result, learningRate);
    }
    return Status::ok();
  }

  /// Whether this rank wants the step that it is about to start to be the run's last one.
  bool wantsStop() {
    if (s.options.checkpoint.empty())
      return false;
    if (s.leads() && s.options.timeLimit > 0) {
      // The step that starts now, and the next one if this is not the last.
      const double used = secondsBetween(s.options.started, Clock::now());
      outOfTime |= used + 2 * longestStep + longestSave > s.options.timeLimit;
    }
    return outOfTime || stopWasRequested() || !reporter->health();
  }

  /// Whether the leader finds that it is time for a checkpoint.
  bool wantsCheckpoint() const {
    const double seconds = s.options.checkpointMinutes * 60;
    return s.leads() && !s.options.checkpoint.empty() && s.options.checkpointEvery == 0 &&
           seconds > 0 && secondsBetween(lastSave, Clock::now()) >= seconds;
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
    for (const Parameter *q : trainedParameters(s.program()))
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
    const Clock::time_point begin = Clock::now();
    RunState state;
    state.step = completed;
    state.dataPosition = completed - epoch.firstStep;
    state.settings = described;
    state.settings["updates"] = s.executor->adamStep();
    state.settings["epoch"] = epoch.epoch;
    CheckpointWriteOptions options;
    options.folder = s.options.checkpoint;
    options.stage = s.executor->stage();
    options.stages = s.program().stages;
    options.writes = s.executor->replica() == 0;
    options.leads = s.leads();
    options.retention = {s.options.keepCheckpoints, s.options.keepEvery};
    options.obsolete = replaced;
    OMNIBAL_RETURN_IF_ERROR(
        saveCheckpoint(options, state, stateTensors(s, StateOf::Written), s.agree));
    replaced.clear();
    savedStep = completed;
    save = false;
    lastSave = Clock::now();
    longestSave = std::max(longestSave, secondsBetween(begin, lastSave));
    return Status::ok();
  }

  Session &s;
  const DataSource &data;
  int64_t first = 0, total = 0;
  json described;          ///< of checkpoints' manifests: reads frozen weights, so it is made once
  DataPosition position;   ///< the epoch that holds `first`
  int64_t agreedEpoch = 0; ///< all ranks have the same groups for it
  struct Started {
    int64_t step;
    double learningRate;
    int64_t updates;   ///< before it
    DataPosition here; ///< of its samples
  };
  static constexpr size_t stepsAhead = 1;
  std::deque<Started> started; ///< steps under way
  std::unique_ptr<DataLoader> feeder;
  std::set<int64_t> leftOut;         ///< samples that could not be read
  int64_t savedStep = -1;            ///< of the last checkpoint
  CheckpointFolder folder;           ///< the leader's
  std::vector<std::string> replaced; ///< checkpoints of an earlier run that this one replaces
  bool stop = false, save = false;   ///< what a rank asked for in a step that has ended
  bool outOfTime = false;
  Clock::time_point lastSave = Clock::now();
  double longestStep = 0, longestSave = 0; ///< seconds
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

Status train(Session &session, const DataSource &data, bool &stopped) {
  return Training(session, data).run(stopped);
}

} // namespace omnibal::rt
