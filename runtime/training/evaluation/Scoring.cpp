#include "runtime/training/evaluation/Scoring.h"
#include "runtime/training/evaluation/Sources.h"

namespace omnibal::rt {
namespace {

/// What one rank found.
class Scoring {
public:
  Scoring(Session &session, const EvaluatedData &data)
      : s(session), data(data), sources(sourcesOf(data.source.dataset->shards())),
        ofSources(sources.names.size()) {
    scores.routerCoefficient = s.program().info.routerLossCoefficient;
    scores.ofPairs = s.program().info.learnsFromPairs();
  }

  Result<Scores> run(Status &unread) {
    OMNIBAL_RETURN_IF_ERROR(evaluateInOrder(
        s, data,
        [&](std::span<const int64_t> samples, const BatchValue &result, const std::byte *bytes,
            const PackedMicrobatch &batch) { count(samples, result, bytes, batch); },
        unread));
    if (unread)
      OMNIBAL_RETURN_IF_ERROR(addUp());
    return scores;
  }

private:
  void count(std::span<const int64_t> samples, const BatchValue &result, const std::byte *bytes,
             const PackedMicrobatch &batch) {
    const float *numbers = reinterpret_cast<const float *>(bytes);
    auto sumOf = [&](const SampleTokens &tokens) {
      double sum = 0;
      for (int64_t t = tokens.begin; t < tokens.end; ++t)
        sum += numbers[t];
      return sum;
    };
    if (result.name == "loss") {
      for (int64_t t = 0; t < batch.tokens; ++t)
        scores.whole.loss += numbers[t];
      forSamples(samples, batch, [&](Score &score, const SampleTokens &tokens) {
        score.loss += sumOf(tokens);
        score.pairs += tokens.isPair;
      });
    } else if (result.name == routerLossResult && batch.tokens > 0) {
      scores.routerLoss += *numbers;
      scores.routedMicrobatches += 1;
    } else if (result.name == "prediction") {
      const auto *predictions = reinterpret_cast<const int32_t *>(bytes);
      forSamples(samples, batch, [&](Score &score, const SampleTokens &tokens) {
        score.countPredictions(batch, tokens.begin, tokens.end, predictions);
      });
    } else if (double Score::*sum = rewardOf(result.name)) {
      forSamples(samples, batch,
                 [&](Score &score, const SampleTokens &tokens) { score.*sum += sumOf(tokens); });
    }
  }

  /// Tokens [begin, end) of a sample, of a pair those of both answers.
  struct SampleTokens {
    int64_t begin, end;
    bool isPair;
  };
  template <typename Visit>
  void forSamples(std::span<const int64_t> samples, const PackedMicrobatch &batch,
                  const Visit &visit) {
    const size_t each = batch.pairs > 0 ? 2 : 1;
    for (size_t i = 0; i < samples.size(); ++i)
      visit(ofSources[sourceOf(samples[i])],
            SampleTokens{batch.borders[each * i], batch.borders[each * (i + 1)], each == 2});
  }

  static double Score::*rewardOf(const std::string &result) {
    return result == chosenRewardResult     ? &Score::chosenReward
           : result == rejectedRewardResult ? &Score::rejectedReward
           : result == preferredResult      ? &Score::preferred
                                            : nullptr;
  }

  size_t sourceOf(int64_t sample) const {
    return sources.ofShards[data.source.dataset->shardOf(sample)];
  }

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
      whole.add(score);
      if (ofSources.size() > 1)
        scores.sources.push_back({sources.names[i], score});
    }
    whole.loss = sums[0];
    scores.whole = whole;
    scores.routerLoss = sums[1];
    scores.routedMicrobatches = sums[2];
    return Status::ok();
  }

  Session &s;
  const EvaluatedData &data;
  const Sources sources;
  std::vector<Score> ofSources;
  Scores scores;
};

} // namespace

Result<Scores> scoreSamples(Session &s, const EvaluatedData &data, Status &unread) {
  return Scoring(s, data).run(unread);
}

} // namespace omnibal::rt
