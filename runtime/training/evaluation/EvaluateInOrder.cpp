#include "runtime/training/evaluation/EvaluateInOrder.h"
#include "runtime/data/DataLoader.h"
#include "runtime/training/evaluation/SamplesInOrder.h"
#include <cstdio>
#include <unistd.h>

namespace omnibal::rt {
namespace {

/// One rank's part.
class InOrder {
public:
  InOrder(Session &session, const EvaluatedData &data, const EvaluationSink &sink)
      : s(session), data(data), sink(sink), mode(s.executor->stageInfo().modes.at(evaluateMode)) {
    options.shapes = {{mode.microbatches, s.program().caps()}};
    options.replica = s.executor->dataRank(evaluateMode);
    options.pixels = readsPixels(s.executor->stageInfo(), evaluateMode);
    options.threads = loaderThreads(s, evaluateMode);
    options.stepsAhead = s.options.loaderStepsAhead;
    options.deadline = deadlineFromEnvironment();
    options.references = data.references;
    options.standIns = true; // all ranks hear of what one cannot read
  }

  Status run(Status &unread) {
    SamplesInOrder samples(s, *data.source.dataset,
                           {mode.microbatches, s.program().dataRanks(evaluateMode)});
    while (!samples.isOver()) {
      const double before = samples.progress();
      unread = samples.lookUp();
      if (!unread)
        return Status::ok();
      const std::shared_ptr<StepSource> runs = samples.nextPart();
      if (runs->steps() == 0)
        continue; // more samples are needed for a full run
      Status mine;
      OMNIBAL_RETURN_IF_ERROR(runPart(runs, before, samples.progress(), mine));
      unread = s.agree(std::move(mine));
      if (!unread)
        return Status::ok();
    }
    return Status::ok();
  }

private:
  /// `unread` becomes what this rank could not read, if anything.
  Status runPart(const std::shared_ptr<StepSource> &runs, double before, double after,
                 Status &unread) {
    options.lastStep = runs->steps();
    DataLoader loader(data.source.dataset, data.source.preprocess, s.program(), runs, options);
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
                            // What stands in for unreadable samples has none.
                            if (batch.samples() == std::ssize(samplesOfRun[microbatch]))
                              sink(samplesOfRun[microbatch], result, bytes, batch);
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

  void tellProgress(double done) const {
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (terminal && seconds > 1)
      std::fprintf(stderr, "\r\x1b[K%s: %.0f %%  ETA %.0f s%s", data.what.c_str(), 100 * done,
                   seconds / done * (1 - done), done >= 1 ? "\n" : "");
  }

  Session &s;
  const EvaluatedData &data;
  const EvaluationSink &sink;
  const Mode &mode;
  DataLoaderOptions options;
  std::vector<std::vector<int64_t>> samplesOfRun; ///< by micro-batch
  const bool terminal = s.leads() && isatty(STDERR_FILENO);
  const Clock::time_point begin = Clock::now();
};

} // namespace

Status checkEvaluates(const Session &s) {
  return s.executor->stageInfo().modes.count(evaluateMode)
             ? Status::ok()
             : invalid("the program has no mode \"evaluate\"; compile it again");
}

Status evaluateInOrder(Session &s, const EvaluatedData &data, const EvaluationSink &sink,
                       Status &unread) {
  OMNIBAL_RETURN_IF_ERROR(checkEvaluates(s));
  const Status ended = InOrder(s, data, sink).run(unread);
  s.executor->forgetTraffic();
  return ended;
}

} // namespace omnibal::rt
