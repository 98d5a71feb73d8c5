//===- Train.cpp - The training loop of one rank --------------------------------------------===//
#include "runtime/comm/Gather.h"
#include "runtime/data/DataLoader.h"
#include "runtime/support/StopSignals.h"
#include "runtime/training/LabelCounts.h"
#include "runtime/training/PartNorms.h"
#include "runtime/training/Recordings.h"
#include "runtime/training/answers/Answers.h"
#include "runtime/training/checkpoints/MixOfRun.h"
#include "runtime/training/checkpoints/RunCheckpoints.h"
#include "runtime/training/checkpoints/RunIdentity.h"
#include "runtime/training/checkpoints/RunResults.h"
#include "runtime/training/evaluation/Evaluations.h"
#include "runtime/training/report/Report.h"
#include "runtime/training/session/GroupsOfRun.h"
#include "runtime/training/session/Session.h"
#include <algorithm>
#include <cstring>
#include <deque>
#include <set>

namespace omnibal::rt {
namespace {

using nlohmann::json;

double secondsBetween(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

class Training {
public:
  Training(Session &session, const DataSource &data)
      : s(session), data(data), evaluations(session, data), answers(session, data),
        mix(session.options, **data.steps),
        trace(session.communicator.rank(), session.executor->stage(),
              session.program().modelParallel > 1 ? session.executor->part() : -1) {}

  Status run(bool &stopped) {
    Status ended = runAll(stopped);
    if (reporter)
      reporter->enter(!ended ? RunPhase::Failed : stopped ? RunPhase::Stopped : RunPhase::Finished);
    return ended;
  }

private:
  Status runAll(bool &stopped) {
    int64_t listed = (*data.steps)->steps();
    const int64_t each = s.options.accumulate;
    total = s.options.steps > 0 ? s.options.steps : (listed + each - 1) / each;
    OMNIBAL_RETURN_IF_ERROR(checkAccumulation());
    OMNIBAL_RETURN_IF_ERROR(s.communicator.checkEqual(
        (*data.steps)->fingerprint(), "groups of samples; give all ranks the same files"));
    OMNIBAL_RETURN_IF_ERROR(mix.check(s, total));
    if (std::string problem = problemOf(s.options.rate, total); !problem.empty())
      return invalid(problem);
    OMNIBAL_ASSIGN_OR_RETURN(update, updateOptions(s.options.update, s.program().optimizer));
    OMNIBAL_ASSIGN_OR_RETURN(groups, groupsOfRun(s));
    auto kept = std::make_shared<RunCheckpoints>(s, data, total);
    checkpoints = kept.get();
    s.kept = std::move(kept);
    OMNIBAL_RETURN_IF_ERROR(checkpoints->open());
    if (data.evaluation)
      OMNIBAL_RETURN_IF_ERROR(s.agree(checkEvaluates(s)));
    OMNIBAL_RETURN_IF_ERROR(answers.open());
    OMNIBAL_ASSIGN_OR_RETURN(const RunCheckpoints::Start start, checkpoints->resume());
    first = start.step;
    firstEntry = start.entry;
    position = start.position;
    mix.begin(start);
    if (mix.isOther())
      agreedEpoch = -1; // the first one may not be the folder's either
    const bool sameEvaluations = evaluations.take(start.kept.value(evaluationKey, json::object()));
    for (int64_t step : s.options.profileAt)
      if (step > total)
        return invalid("--profile-at " + std::to_string(step) + ": the run has only " +
                       std::to_string(total) + " steps");
    recordings.emplace(s.options, first, total);
    seen = SamplesSeen::of(start.kept);
    reporter = std::make_unique<Reporter>(s, first, total);
    OMNIBAL_RETURN_IF_ERROR(s.agree.after([&] {
      OMNIBAL_RETURN_IF_ERROR(checkpoints->writeConfig());
      return reporter->open();
    }));
    if (first > 0 && !start.kept.contains(SamplesSeen::key))
      reporter->note("notice: the checkpoint does not say how much the run has seen; "
                     "`samples_seen` and `tokens_seen` count from here");
    if (!sameEvaluations)
      reporter->note("notice: --evaluate-data has other samples than when the checkpoint was "
                     "written; the best one is looked for anew");
    reporter->note(groups.table());
    if (each > 1)
      reporter->note("an update takes the micro-batches of " + std::to_string(each) +
                     " steps of the list (--accumulate)");
    if (entryOf(total) > listed && (*data.steps)->repeats())
      reporter->note("the list has " + std::to_string(listed) +
                     " steps; after them it begins again with the same groups" +
                     (s.options.batches.empty() ? ""
                                                : " (new ones each epoch need lengths.npy and the "
                                                  "settings of omnibal-batch in the folder)"));
    if (s.options.lossNormalizer == LossNormalizer::Epoch) {
      OMNIBAL_ASSIGN_OR_RETURN(labels, countLabels(s, *data.dataset));
    }
    OMNIBAL_RETURN_IF_ERROR(trainSteps(stopped));
    if (stopped)
      return Status::ok();
    reporter->summarize();
    if (!s.options.save.empty())
      OMNIBAL_RETURN_IF_ERROR(saveResult(s.options.save, "weights"));
    if (!s.options.saveAverages.empty()) {
      OMNIBAL_RETURN_IF_ERROR(s.executor->exchangeAverages());
      OMNIBAL_RETURN_IF_ERROR(saveResult(s.options.saveAverages, "moving averages"));
    }
    return s.agree(reporter->health());
  }

  /// The first step of the list that belongs to a step.
  int64_t entryOf(int64_t step) const { return firstEntry + (step - first) * s.options.accumulate; }

  /// Some losses are weighed by counts of the whole step before its first micro-batch runs.
  Status checkAccumulation() const {
    if (s.options.accumulate == 1)
      return Status::ok();
    if (s.program().info.routerLossCoefficient != 0)
      return invalid("--accumulate: the balancing loss of this model's routers is weighed by the "
                     "whole step, which has to be one of the list; compile the program with more "
                     "--microbatches");
    if (s.options.lossNormalizer == LossNormalizer::Samples && s.program().dataParallel > 1)
      return invalid("--accumulate and --loss-normalizer samples exclude each other where there "
                     "are several replicas; compile the program with more --microbatches");
    return Status::ok();
  }

  /// Reads ahead from the step on.
  void openFeeder(int64_t step, DataPosition from) {
    DataLoaderOptions options;
    options.shapes = trainShapes(s.program());
    options.replica = s.executor->replica();
    options.pixels = readsPixels(s.executor->stageInfo(), "train");
    options.threads = loaderThreads(s, "train");
    options.stepsAhead = s.options.loaderStepsAhead;
    options.deadline = deadlineFromEnvironment();
    options.firstStep = entryOf(step);
    options.lastStep = entryOf(total);
    options.position = from;
    options.leftOut = leftOut;
    options.labels = labels;
    options.references = s.references;
    options.standIns = true;
    if (drawsNumbers(s.program()))
      options.seed = s.options.seed;
    feeder.reset(); // its threads end before others begin
    feeder = std::make_unique<DataLoader>(data.dataset, data.preprocess, s.program(), *data.steps,
                                          options);
  }

  Status trainSteps(bool &stopped) {
    openFeeder(first, position);
    if (first > 0) { // the run that saved this step may have been stopped before it was evaluated
      OMNIBAL_RETURN_IF_ERROR(evaluateAfter(first));
      if (newBest)
        OMNIBAL_RETURN_IF_ERROR(saveCheckpoint(first));
    }
    for (int64_t step = first; step < total && !evaluations.areEnough(); ++step) {
      OMNIBAL_RETURN_IF_ERROR(runStep(step));
      feeder->nextStep();
      OMNIBAL_RETURN_IF_ERROR(evaluateAfter(step + 1));
      OMNIBAL_RETURN_IF_ERROR(answerAfter(step + 1));
      bool last = step + 1 == total || evaluations.areEnough();
      bool due = s.options.checkpointEvery > 0 && (step + 1) % s.options.checkpointEvery == 0;
      if (checkpoints->areKept() && (last || due || stop || save || newBest))
        OMNIBAL_RETURN_IF_ERROR(saveCheckpoint(step + 1));
      if (stop && !last) {
        stopped = true;
        return endEarly(step + 1);
      }
    }
    OMNIBAL_RETURN_IF_ERROR(finishSteps(0));
    OMNIBAL_RETURN_IF_ERROR(checkpoints->finish());
    if (evaluations.areEnough())
      reporter->tellEarlyStop(evaluations.bestStep(), evaluations.bestLoss());
    return Status::ok();
  }

  Status saveCheckpoint(int64_t completed) {
    OMNIBAL_RETURN_IF_ERROR(finishSteps(0));
    reporter->enter(RunPhase::Saving);
    const Clock::time_point begin = Clock::now();
    OMNIBAL_RETURN_IF_ERROR(saveNow(completed, feeder->position()));
    reporter->waited(secondsBetween(begin, Clock::now()));
    save = newBest = false;
    return Status::ok();
  }

  Status saveNow(int64_t completed, DataPosition here) {
    json kept = json::object();
    if (json found = evaluations.state(); !found.empty())
      kept[evaluationKey] = std::move(found);
    kept[SamplesSeen::key] = seen.toJson();
    if (json met = mix.state(here.epoch); !met.empty())
      kept[MixOfRun::key] = std::move(met);
    return checkpoints->save(completed, entryOf(completed), here, kept,
                             s.options.keepBest ? evaluations.bestStep() : -1);
  }

  /// Evaluates where that is due; a run that is asked to stop leaves it to the one that goes on.
  Status evaluateAfter(int64_t completed) {
    if (!evaluations.isDue(completed, total) || evaluations.isDone(completed))
      return Status::ok();
    OMNIBAL_ASSIGN_OR_RETURN(const bool mayRun, interrupt());
    if (!mayRun)
      return Status::ok();
    OMNIBAL_ASSIGN_OR_RETURN(Evaluation found, evaluations.run(completed));
    if (!found.unread)
      return endWith(
          std::move(found.unread).context("evaluating after step " + std::to_string(completed)),
          completed, feeder->position());
    resumeTrace(completed);
    newBest = found.isBest && s.options.keepBest;
    reporter->evaluation(completed, found);
    return Status::ok();
  }

  /// Lets the model answer where that is due; a run that is asked to stop does not.
  Status answerAfter(int64_t completed) {
    if (!answers.isDue(completed, total))
      return Status::ok();
    OMNIBAL_ASSIGN_OR_RETURN(const bool mayRun, interrupt());
    if (!mayRun)
      return Status::ok();
    const Clock::time_point begin = Clock::now();
    OMNIBAL_ASSIGN_OR_RETURN(const std::vector<Answer> said, answers.run());
    resumeTrace(completed);
    reporter->answers(completed, said, secondsBetween(begin, Clock::now()));
    return Status::ok();
  }

  /// Ends all steps for something else; false where the run is asked to stop.
  Result<bool> interrupt() {
    OMNIBAL_RETURN_IF_ERROR(finishSteps(0));
    if (stop)
      return false;
    s.executor->setTrace(nullptr);
    reporter->enter(RunPhase::Evaluating);
    return true;
  }

  /// Where something else ran in the middle of a recording.
  void resumeTrace(int64_t completed) {
    if (const Recording *recording = recordings->of(completed);
        recording && completed > recording->first)
      s.executor->setTrace(&trace);
  }

  Status saveResult(const std::string &folder, const std::string &what) {
    OMNIBAL_ASSIGN_OR_RETURN(const std::vector<std::string> notices, saveWeights(s, folder));
    for (const std::string &notice : notices)
      reporter->note("warning: " + notice);
    reporter->note(what + " saved in " + folder);
    return Status::ok();
  }

  /// The steps so far are in a checkpoint.
  Status endEarly(int64_t completed) {
    OMNIBAL_RETURN_IF_ERROR(checkpoints->finish());
    OMNIBAL_RETURN_IF_ERROR(s.agree(reporter->health())
                                .context("the run ends after step " + std::to_string(completed) +
                                         ", of which " + s.options.checkpoint +
                                         " has a checkpoint"));
    reporter->summarize();
    const std::string signal = stopSignalName();
    reporter->note("stopped after step " + std::to_string(completed) + " of " +
                   std::to_string(total) + " (" +
                   (outOfTime        ? "--time-limit"
                    : signal.empty() ? "another rank's signal"
                                     : signal) +
                   "); the same command line with --resume auto goes on from its checkpoint");
    return Status::ok();
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

  struct Started {
    int64_t step;
    size_t mode;
    int64_t updates;   ///< before it
    StepPlace place;   ///< without what it saw itself
    DataPosition here; ///< of its samples
    int64_t savePhase; ///< that its votes are of
  };
  enum class Outcome { Done, BadSamples, BehindUndefined };

  /// Runs the step, again as long as some rank could not read all of its samples and they may be
  /// left out, or where it had begun before the one ahead of it turned out to be undefined.
  Status runStep(int64_t step) {
    if (const std::string text = mix.noteAt(entryOf(step)); !text.empty())
      reporter->note(stepForPeople(step) + text);
    for (;;) {
      const DataPosition here = feeder->position();
      OMNIBAL_ASSIGN_OR_RETURN(const Outcome outcome, tryStep(step));
      if (outcome == Outcome::Done)
        return Status::ok();
      if (outcome == Outcome::BadSamples) {
        OMNIBAL_RETURN_IF_ERROR(finishSteps(0));
        OMNIBAL_RETURN_IF_ERROR(leaveOut(step, here));
      }
      openFeeder(step, here);
    }
  }

  /// The samples that any rank could not read, if so many may be left out; else the run ends with a
  /// checkpoint of the steps before.
  Status leaveOut(int64_t step, DataPosition here) {
    json mine = json::array();
    badSamples.insert(badSamples.end(), feeder->bad().begin(), feeder->bad().end());
    for (const BadSample &bad : badSamples)
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
    if (!checkpoints->areKept() || step == first)
      return error;
    Status saved;
    if (step != checkpoints->newestStep())
      saved = saveNow(step, here);
    if (saved)
      saved = checkpoints->finish();
    if (!saved)
      return {error.code(), error.message() + "\n" + saved.message()};
    return {error.code(), error.message() + "\n" + s.options.checkpoint +
                              " has a checkpoint of the " + std::to_string(step) +
                              " steps before it, from which --resume auto goes on"};
  }

  Result<Outcome> tryStep(int64_t step) {
    StepOptions options;
    options.update = update;
    options.update.rates = groups.ratesAt(step, total);
    options.clip = s.options.clip;
    options.averageDecay = s.options.averageDecay();
    options.step = step;
    const DataPosition here = feeder->position();
    options.stop = wantsStop(step);
    options.save = checkpoints->isDue();
    options.record = recordings->takeRequest(step, s.leads());
    const int64_t phase = checkpoints->tell(options);
    StepPlace place;
    const bool saves = step == 0 && !s.options.saveGradients.empty();
    if (saves || s.options.partNorms)
      options.beforeUpdate = [&, saves](double count) {
        if (s.options.partNorms) {
          OMNIBAL_ASSIGN_OR_RETURN(place.normOfPart, normsOfParts(s, groups, count));
        }
        return saves ? saveGradients(s, count) : Status::ok();
      };
    const Recording *recording = recordings->of(step);
    if (recording && step == recording->first) {
      OMNIBAL_RETURN_IF_ERROR(finishSteps(0));
      OMNIBAL_RETURN_IF_ERROR(s.communicator.barrier(s.communicator.everyone()));
      trace.start();
      s.executor->setTrace(&trace);
    }
    const int64_t updates = s.executor->adamStep();
    OMNIBAL_RETURN_IF_ERROR(startRuns(step, options, recording, place));
    const bool dropped = s.executor->wasDropped();
    started.push_back({step, options.mode, updates, place, here, phase});
    upcoming = step + 1;
    // Where work is only enqueued, the next step comes before this one's numbers.
    OMNIBAL_RETURN_IF_ERROR(
        finishSteps(recording || s.executor->backend().isSynchronous() ? 0 : stepsAhead));
    if (recording && step + 1 == recording->end && !dropped) {
      s.executor->setTrace(nullptr);
      OMNIBAL_RETURN_IF_ERROR(
          writeTrace(s, trace, recording->file, recording->file == s.options.trace));
    }
    return dropped                                 ? Outcome::BadSamples
           : std::exchange(behindUndefined, false) ? Outcome::BehindUndefined
                                                   : Outcome::Done;
  }

  /// Runs the micro-batches of the steps of the list that the step takes.
  Status startRuns(int64_t step, StepOptions &options, bool traced, StepPlace &place) {
    badSamples.clear();
    for (int64_t run = 0; run < s.options.accumulate; ++run) {
      if (run > 0) {
        badSamples.insert(badSamples.end(), feeder->bad().begin(), feeder->bad().end());
        feeder->nextStep();
      }
      OMNIBAL_RETURN_IF_ERROR(agreeOnEpoch(*feeder));
      const Result<size_t> mode = feeder->mode();
      OMNIBAL_RETURN_IF_ERROR(mode.status().context(stepForPeople(step)));
      options.mode = *mode;
      options.run = entryOf(step) + run;
      options.goesOn = run + 1 < s.options.accumulate;
      place.epoch = feeder->position().epoch;
      place.addRoom(s.program(), options.mode);
      OMNIBAL_RETURN_IF_ERROR(normalize(step, options));
      if (traced && s.program().trainModes.size() > 1)
        trace.enterMode(s.program().trainModes[options.mode].name);
      OMNIBAL_RETURN_IF_ERROR(explained(unreadHere(step, s.executor->startStep(*feeder, options))));
    }
    return Status::ok();
  }

  /// Says what gradients are divided by: the sum over the step's runs.
  Status normalize(int64_t step, StepOptions &options) {
    options.bySamples = s.options.lossNormalizer == LossNormalizer::Samples;
    if (!labels)
      return Status::ok();
    const Result<double> divisor = feeder->labelsPerStep();
    OMNIBAL_RETURN_IF_ERROR(divisor.status().context(stepForPeople(step)));
    options.lossDivisor = options.lossDivisor.value_or(0) + *divisor;
    if (const int64_t epoch = feeder->position().epoch; epoch != std::exchange(toldEpoch, epoch)) {
      const char *units = s.program().info.learnsFromPairs() ? "pairs" : "label tokens";
      char text[128];
      std::snprintf(text, sizeof text, "losses of epoch %lld are divided by its %s a step, %.1f",
                    static_cast<long long>(epoch), units, *divisor);
      reporter->note(text);
    }
    return Status::ok();
  }

  /// Where only some ranks can read a sample's text, as on a machine whose disk fails, they
  /// disagree about the sizes of messages, which is what the step ends with. The reason is the
  /// sample.
  Status unreadHere(int64_t step, Status ended) const {
    if (ended || feeder->bad().empty())
      return ended;
    return {Code::DataLoss, "rank " + std::to_string(s.communicator.rank()) + ", " +
                                stepForPeople(step) + ": " +
                                feeder->bad().front().reason.message() +
                                "; it is needed wherever others can read it"};
  }

  /// Reports steps until only so many are under way.
  Status finishSteps(size_t left) {
    while (started.size() > left) {
      const Started ended = started.front();
      started.pop_front();
      auto result = s.executor->finishStep();
      OMNIBAL_RETURN_IF_ERROR(explained(result.status()));
      if (result->record && recordings->hear(upcoming))
        reporter->note(stepForPeople(upcoming) + " is recorded in " +
                       recordings->of(upcoming)->file);
      if (!result->undefined.empty()) {
        OMNIBAL_RETURN_IF_ERROR(skipUndefined(ended, result->undefined));
        continue;
      }
      OMNIBAL_RETURN_IF_ERROR(checkpoints->hear(*result, ended.savePhase));
      if (result->dropped)
        continue;
      undefinedInARow = 0;
      stop |= result->stop;
      save |= result->save;
      longestStep = std::max(longestStep, result->stepSeconds);
      seen.add(*result);
      StepPlace place = ended.place;
      place.seen = seen;
      reporter->step(ended.step, ended.mode, *result,
                     {learningRateAt(s.options.rate, ended.step, total),
                      groups.learningRatesAt(ended.step, total)},
                     place);
    }
    return Status::ok();
  }

  /// Goes on as if the step had not been, if so many in a row may be skipped; else the run ends
  /// with a checkpoint of the steps before. What was started after it has updated nothing either.
  Status skipUndefined(const Started &skipped, const std::string &why) {
    behindUndefined = !started.empty();
    for (; !started.empty(); started.pop_front())
      OMNIBAL_RETURN_IF_ERROR(explained(s.executor->finishStep().status()));
    OMNIBAL_RETURN_IF_ERROR(s.executor->forgetUndefinedStep(skipped.updates));
    const int64_t most = s.options.skipNonfinite;
    if (++undefinedInARow > most)
      return endWith(invalid(most > 0 ? "more than --skip-nonfinite " + std::to_string(most) +
                                            " steps in a row: " + why
                                      : why),
                     skipped.step, skipped.here);
    reporter->skip(skipped.step, why);
    reporter->note("warning: " + why + "; the step is skipped (" + std::to_string(undefinedInARow) +
                   " of at most " + std::to_string(most) + " in a row)");
    return Status::ok();
  }

  /// Whether this rank wants the step that it is about to start to be the run's last one.
  bool wantsStop(int64_t step) {
    if (s.options.checkpoint.empty())
      return false;
    if (s.leads() && s.options.timeLimit > 0) {
      // The step that starts now, and the next one if this is not the last.
      const double used = secondsBetween(s.options.started, Clock::now());
      const double between = evaluations.isDue(step + 1, total) ? evaluations.longestSeconds() : 0;
      outOfTime |=
          used + 2 * longestStep + between + checkpoints->longestSeconds() > s.options.timeLimit;
    }
    return outOfTime || stopWasRequested() || !reporter->health();
  }

  Status explained(Status status) const {
    if (status.code() != Code::DeadlineExceeded)
      return status;
    return {status.code(), status.message() + "; last actions of rank " +
                               std::to_string(s.communicator.rank()) + ": " +
                               s.executor->recentActions()};
  }

  Session &s;
  const DataSource &data;
  int64_t first = 0, total = 0;
  ParameterGroups groups;
  UpdateOptions update;    ///< but for its rates
  int64_t firstEntry = 0;  ///< of the list, for the step `first`
  DataPosition position;   ///< the epoch that holds it
  int64_t agreedEpoch = 0; ///< all ranks have the same groups for it
  static constexpr size_t stepsAhead = 1;
  std::deque<Started> started; ///< steps under way
  std::unique_ptr<DataLoader> feeder;
  std::shared_ptr<const LabelCounts> labels; ///< where losses are divided by those of the epoch
  int64_t toldEpoch = -1;                    ///< its divisor is on the terminal
  std::set<int64_t> leftOut;                 ///< samples that could not be read
  std::vector<BadSample> badSamples;         ///< of the runs of the step at hand before the last
  RunCheckpoints *checkpoints = nullptr;     ///< the session's
  static constexpr const char *evaluationKey = "evaluation"; ///< in checkpoints
  Evaluations evaluations;
  Answers answers;
  MixOfRun mix;
  bool newBest = false;            ///< the model as it is now, which no checkpoint holds yet
  bool stop = false, save = false; ///< what a rank asked for in a step that has ended
  int64_t undefinedInARow = 0;     ///< steps that were skipped since the last update
  bool behindUndefined = false;    ///< steps were under way when one was skipped
  bool outOfTime = false;
  double longestStep = 0; ///< seconds
  Trace trace;
  std::optional<Recordings> recordings;
  int64_t upcoming = 0; ///< the step that begins next
  SamplesSeen seen;     ///< by the steps that have ended
  std::unique_ptr<Reporter> reporter;
};

} // namespace

Status train(Session &session, const DataSource &data, bool &stopped) {
  return Training(session, data).run(stopped);
}

} // namespace omnibal::rt
