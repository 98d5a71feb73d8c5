#include "runtime/training/evaluation/Scores.h"
#include <algorithm>
#include <cstdio>
#include <functional>

namespace omnibal::rt {
namespace {

nlohmann::ordered_json figures(const Score &score, double loss, bool ofPairs) {
  nlohmann::ordered_json line = {{"samples", static_cast<int64_t>(score.samples)},
                                 {"label_tokens", static_cast<int64_t>(score.labels)},
                                 {"loss", loss}};
  if (ofPairs)
    line.update({{"reward_chosen", Score::share(score.chosenReward, score.pairs)},
                 {"reward_rejected", Score::share(score.rejectedReward, score.pairs)},
                 {"reward_margin", score.margin()},
                 {"reward_accuracy", score.rewardAccuracy()}});
  else
    line.update({{"token_accuracy", score.accuracy()}, {"answers_right", score.exact()}});
  return line;
}

} // namespace

void Score::countPredictions(const PackedMicrobatch &batch, int64_t begin, int64_t end,
                             const int32_t *predictions) {
  bool labeled = false, allRight = true;
  for (int64_t t = begin; t < end; ++t) {
    if (batch.targets[t] == noTarget)
      continue;
    labeled = true;
    const bool isRight = predictions[t] == batch.targets[t];
    allRight &= isRight;
    labels += 1;
    right += isRight;
  }
  samples += 1;
  answers += labeled;
  answersRight += labeled && allRight;
}

void Score::add(const Score &other) {
  std::array<double, numbers> sums = toArray();
  const std::array<double, numbers> more = other.toArray();
  std::transform(sums.begin(), sums.end(), more.begin(), sums.begin(), std::plus<>());
  *this = fromArray(sums);
}

nlohmann::ordered_json Scores::toJson() const {
  nlohmann::ordered_json line = figures(whole, meanLoss(), ofPairs);
  if (routerCoefficient != 0) {
    line["token_loss"] = whole.meanLoss();
    line["router_loss"] = meanRouterLoss();
  }
  for (const ScoreOfSource &source : sources)
    line["sources"][source.name] = figures(source.score, source.score.meanLoss(), ofPairs);
  return line;
}

std::string Scores::textOf(const Score &score, const char *between) const {
  char text[256];
  if (ofPairs)
    std::snprintf(text, sizeof text, "reward margin %.4f%schosen answer preferred %.2f %%",
                  score.margin(), between, score.rewardAccuracy() * 100);
  else
    std::snprintf(text, sizeof text, "token accuracy %.2f %%%sanswers entirely right %.2f %%",
                  score.accuracy() * 100, between, score.exact() * 100);
  return text;
}

std::string Scores::toText() const {
  char text[256];
  std::snprintf(text, sizeof text, "samples %.0f  label tokens %.0f\nloss %.6f\n", whole.samples,
                whole.labels, meanLoss());
  std::string lines = text;
  if (routerCoefficient != 0) {
    std::snprintf(text, sizeof text, "loss of %s %.6f, of routers %.6f\n",
                  ofPairs ? "pairs" : "tokens", whole.meanLoss(), meanRouterLoss());
    lines += text;
  }
  std::snprintf(text, sizeof text, " (%.0f of %.0f)\n",
                ofPairs ? whole.preferred : whole.answersRight,
                ofPairs ? whole.pairs : whole.answers);
  lines += textOf(whole, "\n") + text;
  for (const auto &[name, score] : sources) {
    std::snprintf(text, sizeof text, ": samples %.0f  label tokens %.0f  loss %.6f  ",
                  score.samples, score.labels, score.meanLoss());
    lines += "source " + name + text + textOf(score, "  ") + "\n";
  }
  return lines;
}

} // namespace omnibal::rt
