//===- Evaluate.cpp - Loss and accuracy over a whole data set -------------------------------===//
#include "runtime/data/DataLoader.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/training/Session.h"
#include <cmath>
#include <cstdio>
#include <unistd.h>

namespace omnibal::rt {
namespace {

/// Sums over the data set; what ranks add up.
struct Scores {
  double loss = 0, labels = 0, right = 0, answers = 0, answersRight = 0, samples = 0;
  double routerLoss = 0, routedMicrobatches = 0;
};

/// Every sample once, in order, cut into runs of the mode.
Result<std::shared_ptr<StepSource>> everySample(const Session &s, const DataSource &data,
                                                StepSource::Layout layout) {
  const Program &p = s.program();
  const SampleRules rules = sampleRules(p);
  const SampleNeeds needs{&rules.tokenInputs, rules.tokensCap};
  std::vector<std::pair<int64_t, int64_t>> loads;
  for (int64_t i = 0; i < data.dataset->size(); ++i) {
    OMNIBAL_ASSIGN_OR_RETURN(Sample sample, data.dataset->sample(i, needs));
    OMNIBAL_RETURN_IF_ERROR(checkSample(sample, rules).context(data.dataset->describe(i)));
    loads.push_back({sample.tiles, sample.tokens()});
  }
  if (loads.empty())
    return invalid("--data holds no samples");
  Batches groups;
  groups.offsets.push_back(0);
  for (const auto &group : cutInOrder(loads, p.tilesCap, p.tokensCap)) {
    groups.samples.insert(groups.samples.end(), group.begin(), group.end());
    groups.offsets.push_back(static_cast<int64_t>(groups.samples.size()));
  }
  return StepSource::create(std::move(groups), layout);
}

void countPredictions(const PackedMicrobatch &batch, const int32_t *predictions, Scores &scores) {
  for (size_t i = 0; i + 1 < batch.borders.size(); ++i) {
    bool labeled = false, allRight = true;
    for (int64_t t = batch.borders[i]; t < batch.borders[i + 1]; ++t) {
      if (batch.targets[t] == noTarget)
        continue;
      labeled = true;
      bool right = predictions[t] == batch.targets[t];
      allRight &= right;
      scores.labels += 1;
      scores.right += right;
    }
    scores.samples += 1;
    scores.answers += labeled;
    scores.answersRight += labeled && allRight;
  }
}

Status print(const Session &s, const Scores &total) {
  if (!s.leads())
    return Status::ok();
  auto share = [](double part, double whole) { return whole > 0 ? part / whole : 0.0; };
  const double coefficient = s.program().info.routerLossCoefficient;
  const double tokenLoss = share(total.loss, total.labels),
               routerLoss = share(total.routerLoss, total.routedMicrobatches),
               loss = tokenLoss + coefficient * routerLoss,
               accuracy = share(total.right, total.labels),
               exact = share(total.answersRight, total.answers);
  if (!std::isfinite(loss))
    return invalid(s.weights.path() +
                   ": the loss over the samples is not a finite number; are these "
                   "the right weights, or did training diverge?");
  std::printf("samples %.0f  label tokens %.0f\nloss %.6f\n", total.samples, total.labels, loss);
  if (coefficient != 0)
    std::printf("loss of tokens %.6f, of routers %.6f\n", tokenLoss, routerLoss);
  std::printf("token accuracy %.2f %%\nanswers entirely right %.2f %% (%.0f of %.0f)\n",
              accuracy * 100, exact * 100, total.answersRight, total.answers);
  std::fflush(stdout);
  if (s.options.log.empty())
    return Status::ok();
  nlohmann::ordered_json line = {{"samples", static_cast<int64_t>(total.samples)},
                                 {"label_tokens", static_cast<int64_t>(total.labels)},
                                 {"loss", loss},
                                 {"token_accuracy", accuracy},
                                 {"answers_right", exact}};
  if (coefficient != 0) {
    line["token_loss"] = tokenLoss;
    line["router_loss"] = routerLoss;
  }
  return writeFileAtomically(s.options.log, line.dump() + "\n");
}

} // namespace

Status evaluate(Session &s, const DataSource &data) {
  const Stage &stage = s.executor->stageInfo();
  auto mode = stage.modes.find("evaluate");
  if (mode == stage.modes.end())
    return invalid("the program has no mode \"evaluate\"; compile it again");
  DataLoaderOptions options;
  options.microbatches = mode->second.microbatches;
  options.dataParallel = s.program().dataParallel;
  options.replica = s.executor->replica();
  options.pixels = readsPixels(stage, "evaluate");
  options.threads = loaderThreads(s, "evaluate");
  options.deadline = deadlineFromEnvironment();
  auto runs = everySample(s, data, {options.microbatches, options.dataParallel});
  OMNIBAL_RETURN_IF_ERROR(s.agree(runs.status()));
  options.lastStep = (*runs)->steps();
  DataLoader feeder(data.dataset, data.preprocess, s.program(), *runs, options);
  Scores scores;
  ResultSink sink = [&](int32_t, const BatchValue &result, const std::byte *bytes,
                        const PackedMicrobatch &batch) {
    if (result.name == "loss") {
      const float *losses = reinterpret_cast<const float *>(bytes);
      for (int64_t t = 0; t < batch.tokens; ++t)
        scores.loss += losses[t];
    } else if (result.name == routerLossResult && batch.tokens > 0) {
      scores.routerLoss += *reinterpret_cast<const float *>(bytes);
      scores.routedMicrobatches += 1;
    } else if (result.name == "prediction") {
      countPredictions(batch, reinterpret_cast<const int32_t *>(bytes), scores);
    }
    return Status::ok();
  };
  bool terminal = s.leads() && isatty(STDERR_FILENO);
  auto begin = Clock::now();
  for (int64_t run = 0; run < options.lastStep; ++run) {
    OMNIBAL_RETURN_IF_ERROR(s.executor->run("evaluate", feeder, sink));
    feeder.nextStep();
    double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (terminal && seconds > 1) {
      double left =
          seconds / static_cast<double>(run + 1) * static_cast<double>(options.lastStep - run - 1);
      std::fprintf(stderr, "\r\x1b[Kevaluating: %.0f %%  ETA %.0f s%s",
                   100.0 * static_cast<double>(run + 1) / static_cast<double>(options.lastStep),
                   left, run + 1 == options.lastStep ? "\n" : "");
    }
  }
  double sums[] = {
      scores.loss,         scores.labels,  scores.right,      scores.answers,
      scores.answersRight, scores.samples, scores.routerLoss, scores.routedMicrobatches};
  OMNIBAL_RETURN_IF_ERROR(
      s.communicator.allReduce(std::span<double>(sums), s.communicator.everyone()));
  return s.agree(
      print(s, {sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6], sums[7]}));
}

} // namespace omnibal::rt
