//===- Scores.h - What an evaluation says of a model ------------------------------------------===//
#ifndef RUNTIME_TRAINING_EVALUATION_SCORES_H
#define RUNTIME_TRAINING_EVALUATION_SCORES_H

#include "runtime/data/Packing.h"
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace omnibal::rt {

/// Sums over samples; what ranks add up.
struct Score {
  double labels = 0, right = 0, answers = 0, answersRight = 0, samples = 0;
  double loss = 0; ///< of the label tokens, or of pairs of answers
  double pairs = 0, chosenReward = 0, rejectedReward = 0, preferred = 0;

  static constexpr size_t numbers = 10;
  std::array<double, numbers> toArray() const {
    return {labels, right, answers,      answersRight,   samples,
            loss,   pairs, chosenReward, rejectedReward, preferred};
  }
  static Score fromArray(std::span<const double, numbers> values) {
    return {values[0], values[1], values[2], values[3], values[4],
            values[5], values[6], values[7], values[8], values[9]};
  }
  void add(const Score &other);

  /// Of a label token, or of a pair.
  double meanLoss() const { return share(loss, pairs > 0 ? pairs : labels); }
  double margin() const { return share(chosenReward - rejectedReward, pairs); }
  /// How often the chosen answer had the greater reward.
  double rewardAccuracy() const { return share(preferred, pairs); }
  double accuracy() const { return share(right, labels); }
  double exact() const { return share(answersRight, answers); }
  static double share(double part, double whole) { return whole > 0 ? part / whole : 0.0; }

  /// Counts the predictions of one sample, whose tokens are [begin, end).
  void countPredictions(const PackedMicrobatch &batch, int64_t begin, int64_t end,
                        const int32_t *predictions);
};

struct ScoreOfSource {
  std::string name;
  Score score;
};

struct Scores {
  Score whole;
  std::vector<ScoreOfSource> sources; ///< none where there is only one
  double routerLoss = 0, routedMicrobatches = 0;
  double routerCoefficient = 0; ///< 0: routers have no loss
  bool ofPairs = false;         ///< the samples are pairs of answers

  double meanRouterLoss() const { return Score::share(routerLoss, routedMicrobatches); }
  /// As in a step's line of the log.
  double meanLoss() const { return whole.meanLoss() + routerCoefficient * meanRouterLoss(); }

  /// The figures under the names of a log; those of the sources stand in "sources" by name.
  nlohmann::ordered_json toJson() const;
  /// For people: how good the answers are.
  std::string textOf(const Score &score, const char *between) const;
  /// For people: totals, and a line for each source.
  std::string toText() const;
};

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_EVALUATION_SCORES_H
