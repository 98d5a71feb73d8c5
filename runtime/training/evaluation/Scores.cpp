#include "runtime/training/evaluation/Scores.h"
#include <algorithm>
#include <cstdio>

namespace omnibal::rt {
namespace {

nlohmann::ordered_json figures(const Score &score, double loss) {
  return {{"samples", static_cast<int64_t>(score.samples)},
          {"label_tokens", static_cast<int64_t>(score.labels)},
          {"loss", loss},
          {"token_accuracy", score.accuracy()},
          {"answers_right", score.exact()}};
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

nlohmann::ordered_json Scores::toJson() const {
  nlohmann::ordered_json line = figures(whole, meanLoss());
  if (routerCoefficient != 0) {
    line["token_loss"] = whole.tokenLoss();
    line["router_loss"] = meanRouterLoss();
  }
  for (const ScoreOfSource &source : sources)
    line["sources"][source.name] = figures(source.score, source.score.tokenLoss());
  return line;
}

std::string Scores::toText() const {
  char text[256];
  std::snprintf(text, sizeof text, "samples %.0f  label tokens %.0f\nloss %.6f\n", whole.samples,
                whole.labels, meanLoss());
  std::string lines = text;
  if (routerCoefficient != 0) {
    std::snprintf(text, sizeof text, "loss of tokens %.6f, of routers %.6f\n", whole.tokenLoss(),
                  meanRouterLoss());
    lines += text;
  }
  std::snprintf(text, sizeof text,
                "token accuracy %.2f %%\nanswers entirely right %.2f %% (%.0f of %.0f)\n",
                whole.accuracy() * 100, whole.exact() * 100, whole.answersRight, whole.answers);
  lines += text;
  for (const auto &[name, score] : sources) {
    std::snprintf(text, sizeof text,
                  ": samples %.0f  label tokens %.0f  loss %.6f  token accuracy %.2f %%  answers "
                  "entirely right %.2f %%\n",
                  score.samples, score.labels, score.tokenLoss(), score.accuracy() * 100,
                  score.exact() * 100);
    lines += "source " + name + text;
  }
  return lines;
}

} // namespace omnibal::rt
