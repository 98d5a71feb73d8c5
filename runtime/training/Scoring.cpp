#include "runtime/training/Scoring.h"
#include "runtime/data/DataLoader.h"
#include "runtime/training/SamplesInOrder.h"
#include "runtime/training/evaluation/Sources.h"
#include <cstdio>
#include <unistd.h>

namespace omnibal::rt {
namespace {

constexpr const char *evaluateMode = "evaluate";

/// One rank's evaluation.
class Scoring {
public:
  Scoring(Session &session, const DataSource &data)
      : s(session), data(data), mode(s.executor->stageInfo().modes.at(evaluateMode)),
        sources(sourcesOf(data.dataset->shards())), ofSources(sources.names.size()) {
    scores.routerCoefficient = s.program().info.routerLossCoefficient;
    options.shapes = {{mode.microbatches, s.program().caps()}};
    options.dataParallel = s.program().dataParallel;
    options.replica = s.executor->replica();
    options.pixels = readsPixels(s.executor->stageInfo(), evaluateMode);
    options.threads = loaderThreads(s, evaluateMode);
    options.deadline = deadlineFromEnvironment();
    options.standIns = true; // all ranks hear of what one cannot read
  }

  Result<Scores> run(Status &unread) {
    SamplesInOrder samples(s, *data.dataset, {mode.microbatches, options.dataParallel});
    while (!samples.isOver()) {
      const double before = samples.progress();
      unread = samples.lookUp();
      if (!unread)
        return scores;
      const std::shared_ptr<StepSource> runs = samples.nextPart();
      if (runs->steps() == 0)
        continue; // more samples are needed for a full run
      Status mine;
      OMNIBAL_RETURN_IF_ERROR(runPart(runs, before, samples.progress(), mine));
      unread = s.agree(std::move(mine));
      if (!unread)
        return scores;
    }
    OMNIBAL_RETURN_IF_ERROR(addUp());
    return scores;
  }

private:
  /// `unread` becomes what this rank could not read, if anything.
  Status runPart(const std::shared_ptr<StepSource> &runs, double before, double after,
                 Status &unread) {
    options.lastStep = runs->steps();
    DataLoader loader(data.dataset, data.preprocess, s.program(), runs, options);
    const std::unique_ptr<StepReader> reader = runs->reader(options.replica, {}, options.lastStep);
    for (int64_t run = 0; run < options.lastStep; ++run) {
      samplesOfRun.clear();
      for (int32_t m = 0; m < mode.microbatches; ++m) {
        OMNIBAL_ASSIGN_OR_RETURN(std::vector<int64_t> samples, reader->samples(run, m));
        samplesOfRun.push_back(std::move(samples));
      }
      OMNIBAL_RETURN_IF_ERROR(
          s.executor->run(evaluateMode, loader,
                          [&](int32_t microbatch, const BatchValue &result, const std::byte *bytes,
                              const PackedMicrobatch &batch) {
                            count(microbatch, result, bytes, batch);
                            return Status::ok();
                          }));
      if (unread && !loader.bad().empty())
        unread = loader.bad().front().reason;
      loader.nextStep();
      tellProgress(before + (after - before) * static_cast<double>(run + 1) /
                                static_cast<double>(options.lastStep));
    }
    return Status::ok();
  }

  void count(int32_t microbatch, const BatchValue &result, const std::byte *bytes,
             const PackedMicrobatch &batch) {
    const std::vector<int64_t> &samples = samplesOfRun[microbatch];
    const size_t held = batch.borders.empty() ? 0 : batch.borders.size() - 1;
    if (result.name == "loss") {
      const float *losses = reinterpret_cast<const float *>(bytes);
      for (int64_t t = 0; t < batch.tokens; ++t)
        scores.whole.loss += losses[t];
      for (size_t i = 0; i < held && held == samples.size(); ++i)
        for (int64_t t = batch.borders[i]; t < batch.borders[i + 1]; ++t)
          ofSources[sourceOf(samples[i])].loss += losses[t];
    } else if (result.name == routerLossResult && batch.tokens > 0) {
      scores.routerLoss += *reinterpret_cast<const float *>(bytes);
      scores.routedMicrobatches += 1;
    } else if (result.name == "prediction") {
      const auto *predictions = reinterpret_cast<const int32_t *>(bytes);
      for (size_t i = 0; i < held && held == samples.size(); ++i)
        ofSources[sourceOf(samples[i])].countPredictions(batch, batch.borders[i],
                                                         batch.borders[i + 1], predictions);
    }
  }
  size_t sourceOf(int64_t sample) const { return sources.ofShards[data.dataset->shardOf(sample)]; }

  /// What counts over all ranks; the counts of all sources are whole numbers, so their sums are
  /// exact.
  Status addUp() {
    std::vector<double> sums = {scores.whole.loss, scores.routerLoss, scores.routedMicrobatches};
    for (const Score &score : ofSources)
      for (double number : score.toArray())
        sums.push_back(number);
    OMNIBAL_RETURN_IF_ERROR(
        s.communicator.allReduce(std::span<double>(sums), s.communicator.everyone()));
    Score whole;
    for (size_t i = 0; i < ofSources.size(); ++i) {
      const Score score =
          Score::fromArray(std::span(sums).subspan(3 + i * Score::numbers).first<Score::numbers>());
      whole.labels += score.labels;
      whole.right += score.right;
      whole.answers += score.answers;
      whole.answersRight += score.answersRight;
      whole.samples += score.samples;
      if (ofSources.size() > 1)
        scores.sources.push_back({sources.names[i], score});
    }
    whole.loss = sums[0];
    scores.whole = whole;
    scores.routerLoss = sums[1];
    scores.routedMicrobatches = sums[2];
    return Status::ok();
  }

  void tellProgress(double done) const {
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (terminal && seconds > 1)
      std::fprintf(stderr, "\r\x1b[Kevaluating: %.0f %%  ETA %.0f s%s", 100 * done,
                   seconds / done * (1 - done), done >= 1 ? "\n" : "");
  }

  Session &s;
  const DataSource &data;
  const Mode &mode;
  DataLoaderOptions options;
  const Sources sources;
  std::vector<Score> ofSources;
  std::vector<std::vector<int64_t>> samplesOfRun; ///< by micro-batch
  Scores scores;
  const bool terminal = s.leads() && isatty(STDERR_FILENO);
  const Clock::time_point begin = Clock::now();
};

} // namespace

Status checkEvaluates(const Session &s) {
  return s.executor->stageInfo().modes.count(evaluateMode)
             ? Status::ok()
             : invalid("the program has no mode \"evaluate\"; compile it again");
}

Result<Scores> scoreSamples(Session &s, const DataSource &data, Status &unread) {
  OMNIBAL_RETURN_IF_ERROR(checkEvaluates(s));
  auto scores = Scoring(s, data).run(unread);
  s.executor->forgetTraffic();
  return scores;
}

} // namespace omnibal::rt
