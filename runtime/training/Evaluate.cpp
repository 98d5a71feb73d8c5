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

/// Samples whose lengths are looked up at a time.
constexpr int64_t samplesOfPart = 4096;

/// Every sample once, in order, cut into the mode's runs a part of the data set at a time: nobody
/// waits until all samples have been looked at. What is left over from a part goes first in the
/// next one, so the groups are those of the whole.
class SamplesInOrder {
public:
  SamplesInOrder(const Session &s, const DataSource &data, StepSource::Layout layout)
      : s(s), dataset(*data.dataset), layout(layout), rules(sampleRules(s.program())) {}

  bool isOver() const { return next == dataset.size() && numbers.empty(); }
  /// The part of the samples that are done when the next source is.
  double progress() const {
    return static_cast<double>(next - static_cast<int64_t>(numbers.size())) /
           static_cast<double>(dataset.size());
  }

  /// Returns the groups of the next part; all ranks call it.
  Result<std::shared_ptr<StepSource>> nextPart() {
    OMNIBAL_RETURN_IF_ERROR(lookUp());
    const Program &p = s.program();
    std::vector<std::vector<int64_t>> cut = cutInOrder(loads, p.caps().tiles, p.caps().tokens);
    const int64_t ofRun = layout.microbatches * layout.replicas;
    auto count = static_cast<int64_t>(cut.size());
    if (next < dataset.size()) // the last group may still grow, and runs are to be full
      count = std::max<int64_t>(0, count - 1) / ofRun * ofRun;
    Batches groups;
    groups.offsets.push_back(0);
    size_t used = 0;
    for (int64_t g = 0; g < count; ++g) {
      for (int64_t i : cut[g])
        groups.samples.push_back(numbers[i]);
      used += cut[g].size();
      groups.offsets.push_back(static_cast<int64_t>(groups.samples.size()));
    }
    numbers.erase(numbers.begin(), numbers.begin() + static_cast<ptrdiff_t>(used));
    loads.erase(loads.begin(), loads.begin() + static_cast<ptrdiff_t>(used));
    return StepSource::create(std::move(groups), layout);
  }

private:
  struct Length {
    int64_t tiles = 0, tokens = 0;
  };

  /// Each rank reads some of the next samples and tells the others their lengths.
  Status lookUp() {
    const int64_t ranks = s.communicator.size();
    const int64_t count = std::min(samplesOfPart, dataset.size() - next);
    const int64_t share = (count + ranks - 1) / ranks, first = s.communicator.rank() * share;
    std::vector<Length> mine(share), all(share * ranks);
    Status status;
    for (int64_t i = 0; status && i < share && first + i < count; ++i)
      status = lengthOf(next + first + i, mine[i]);
    OMNIBAL_RETURN_IF_ERROR(s.agree(std::move(status)));
    OMNIBAL_RETURN_IF_ERROR(s.communicator.allGather(std::as_bytes(std::span(mine)),
                                                     std::as_writable_bytes(std::span(all)),
                                                     s.communicator.everyone()));
    for (int64_t i = 0; i < count; ++i) {
      numbers.push_back(next + i);
      loads.push_back({all[i].tiles, all[i].tokens});
    }
    next += count;
    return Status::ok();
  }
  Status lengthOf(int64_t number, Length &length) const {
    const SampleNeeds needs{&rules.tokenInputs, rules.tokensCap};
    OMNIBAL_ASSIGN_OR_RETURN(Sample sample, dataset.sample(number, needs));
    OMNIBAL_RETURN_IF_ERROR(checkSample(sample, rules).context(dataset.describe(number)));
    length = {sample.tiles, sample.tokens()};
    return Status::ok();
  }

  const Session &s;
  const Dataset &dataset;
  const StepSource::Layout layout;
  const SampleRules rules;
  int64_t next = 0;             ///< the first sample whose length was not looked up
  std::vector<int64_t> numbers; ///< of samples that are in no group yet
  std::vector<std::pair<int64_t, int64_t>> loads;
};

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

void tellProgress(double done, Clock::time_point begin) {
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (seconds > 1)
    std::fprintf(stderr, "\r\x1b[Kevaluating: %.0f %%  ETA %.0f s%s", 100 * done,
                 seconds / done * (1 - done), done >= 1 ? "\n" : "");
}

} // namespace

Status evaluate(Session &s, const DataSource &data) {
  const Stage &stage = s.executor->stageInfo();
  auto mode = stage.modes.find("evaluate");
  if (mode == stage.modes.end())
    return invalid("the program has no mode \"evaluate\"; compile it again");
  DataLoaderOptions options;
  options.shapes = {{mode->second.microbatches, s.program().caps()}};
  options.dataParallel = s.program().dataParallel;
  options.replica = s.executor->replica();
  options.pixels = readsPixels(stage, "evaluate");
  options.threads = loaderThreads(s, "evaluate");
  options.deadline = deadlineFromEnvironment();
  SamplesInOrder samples(s, data, {mode->second.microbatches, options.dataParallel});
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
  const bool terminal = s.leads() && isatty(STDERR_FILENO);
  const auto begin = Clock::now();
  while (!samples.isOver()) {
    const double before = samples.progress();
    OMNIBAL_ASSIGN_OR_RETURN(auto runs, samples.nextPart());
    const double after = samples.progress();
    options.lastStep = runs->steps();
    if (options.lastStep == 0)
      continue; // more samples are needed for a full run
    DataLoader loader(data.dataset, data.preprocess, s.program(), runs, options);
    for (int64_t run = 0; run < options.lastStep; ++run) {
      OMNIBAL_RETURN_IF_ERROR(s.executor->run("evaluate", loader, sink));
      loader.nextStep();
      if (terminal)
        tellProgress(before + (after - before) * static_cast<double>(run + 1) /
                                  static_cast<double>(options.lastStep),
                     begin);
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
