//===- WordLossTest.cpp - The loss of words that parts share, against all words in float64 ----===//
//
// The parts' calls run one after the other, and their statistics lie together as the parts'
// exchange leaves them. Losses, predictions and gradients are those of a head that has all words.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/support/Shares.h"
#include "test/conformance/KernelTest.h"
#include <algorithm>

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

struct Head {
  int64_t rows = 0, words = 0, features = 0;
  double scale = 1, smoothing = 0, z = 0;
  bool transposed = false, biased = false, weighted = false;
  int64_t scratchRows = 7; ///< rows of logits with what lies beside them

  /// On a device it also holds the order of the rows.
  int64_t scratchFloats(int64_t own, int64_t more) const {
    return scratchRows * (own + more * features) + rows + 256;
  }
};

/// What all words give, in float64.
struct Wanted {
  std::vector<double> loss, dhidden, dweight, dbias;
  std::vector<int32_t> prediction;
};

class WordLoss {
public:
  WordLoss(const Head &head, int seed, bool withLabels = true)
      : head(head), random(seed), hidden(randomTensor(random, {head.rows, head.features}, {}, 2)),
        weight(randomTensor(random, {head.words, head.features}, {}, 0, 0.3f)),
        bias(randomTensor(random, {head.words})), rowWeights({head.rows}), targets({head.rows}) {
    rowWeights.fill(
        [&](int64_t i) { return head.weighted ? static_cast<float>(i % 5) - 1.5f : 1; });
    targets.fill([&](int64_t) {
      return withLabels && random() % 3 ? static_cast<int32_t>(random() % head.words) : -1;
    });
    computeWanted();
  }

  /// Losses and predictions of all parts, and the gradients put together.
  void check(int64_t parts, int threads);

private:
  void computeWanted();
  void addRow(int64_t row, const std::vector<double> &logits);
  /// A part's rows of the weight, in the order of memory that the head has.
  Tensor<float> ownWeight(const UnitRange &own) {
    Tensor<float> part({own.size(), head.features},
                       head.transposed ? std::vector<int>{1, 0} : std::vector<int>{0, 1}, 1);
    return part.fill([&](int64_t i) { return weight[own.begin * head.features + i]; });
  }
  Tensor<float> ownBias(const UnitRange &own) {
    Tensor<float> part({own.size()});
    return part.fill([&](int64_t i) { return bias[own.begin + i]; });
  }
  nlohmann::json attributes(const UnitRange &own) const {
    return {{"first", own.begin}, {"words", head.words}, {"scale", head.scale}};
  }
  int64_t statedNumbers() const { return head.smoothing > 0 ? 4 : 3; }
  Tensor<float> scratch(const UnitRange &own, int64_t more) const {
    return Tensor<float>({head.scratchFloats(own.size(), more)});
  }
  void state(const UnitRange &own, int64_t part, int threads);
  void checkLoss(int threads);
  void checkGradients(const UnitRange &own, int threads, std::vector<double> &dhidden);

  Head head;
  std::mt19937 random;
  Tensor<float> hidden, weight, bias, rowWeights;
  Tensor<int32_t> targets;
  Wanted wanted;
  Tensor<float> statistics;
  Tensor<int32_t> predictions;
};

void WordLoss::computeWanted() {
  wanted.loss.assign(head.rows, 0);
  wanted.prediction.assign(head.rows, -1);
  wanted.dhidden.assign(head.rows * head.features, 0);
  wanted.dweight.assign(head.words * head.features, 0);
  wanted.dbias.assign(head.words, 0);
  for (int64_t row = 0; row < head.rows; ++row) {
    if (targets[row] < 0)
      continue;
    std::vector<double> logits;
    for (int64_t word = 0; word < head.words; ++word) {
      double sum = 0;
      for (int64_t f = 0; f < head.features; ++f)
        sum += double(hidden.at(row, f)) * weight.at(word, f);
      logits.push_back(head.scale * sum + (head.biased ? bias[word] : 0));
    }
    addRow(row, logits);
  }
}

void WordLoss::addRow(int64_t row, const std::vector<double> &logits) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  double sum = 0, mean = 0;
  for (double logit : logits) {
    sum += std::exp(logit - *largest);
    mean += logit / static_cast<double>(head.words);
  }
  const double norm = *largest + std::log(sum);
  wanted.loss[row] = norm - (1 - head.smoothing) * logits[targets[row]] - head.smoothing * mean +
                     head.z * norm * norm;
  wanted.prediction[row] = static_cast<int32_t>(largest - logits.begin());
  for (int64_t word = 0; word < head.words; ++word) {
    const double gradient =
        rowWeights[row] * (std::exp(logits[word] - norm) * (1 + 2 * head.z * norm) -
                           (word == targets[row]) * (1 - head.smoothing) -
                           head.smoothing / static_cast<double>(head.words));
    wanted.dbias[word] += gradient;
    for (int64_t f = 0; f < head.features; ++f) {
      wanted.dhidden[row * head.features + f] += head.scale * gradient * weight.at(word, f);
      wanted.dweight[word * head.features + f] += head.scale * gradient * hidden.at(row, f);
    }
  }
}

/// Writes the part's rows of what the exchange brings together.
void WordLoss::state(const UnitRange &own, int64_t part, int threads) {
  Tensor<float> rows = ownWeight(own), biases = ownBias(own), space = scratch(own, 1);
  TensorView result = statistics.view, prediction = predictions.view;
  result.rank = 2;
  prediction.rank = 1;
  for (int d = 0; d < 2; ++d) {
    result.shape[d] = statistics.view.shape[d + 1];
    result.strides[d] = statistics.view.strides[d + 1];
  }
  prediction.shape[0] = head.rows;
  prediction.strides[0] = 1;
  result.data = statistics.memory.data() + part * statistics.view.strides[0];
  prediction.data = predictions.memory.data() + part * head.rows;
  Operands operands = {{"hidden", hidden.view},   {"weight", rows.view},
                       {"targets", targets.view}, {"result", result},
                       {"scratch", space.view},   {"prediction", prediction}};
  if (head.biased)
    operands.push_back({"bias", biases.view});
  nlohmann::json given = attributes(own);
  given["totals"] = head.smoothing > 0;
  EXPECT_OK(runKernel("word_statistics", operands, given, threads));
}

void WordLoss::checkLoss(int threads) {
  Tensor<float> loss({head.rows});
  Tensor<int32_t> prediction({head.rows});
  EXPECT_OK(
      runKernel("joined_cross_entropy",
                {{"statistics", statistics.view}, {"targets", targets.view}, {"loss", loss.view}},
                {{"words", head.words}, {"smoothing", head.smoothing}, {"z", head.z}}, threads));
  expectNear(loss, wanted.loss, 1e-5, 1e-5, "loss");
  EXPECT_OK(runKernel("joined_prediction",
                      {{"statistics", statistics.view},
                       {"predictions", predictions.view},
                       {"targets", targets.view},
                       {"prediction", prediction.view}},
                      {}, threads));
  for (int64_t row = 0; row < head.rows; ++row)
    ASSERT_EQ(prediction[row], wanted.prediction[row]) << "row " << row;
}

/// Adds the part's summand of dhidden; dweight and dbias are added to what is there.
void WordLoss::checkGradients(const UnitRange &own, int threads, std::vector<double> &dhidden) {
  Tensor<float> rows = ownWeight(own), biases = ownBias(own), space = scratch(own, 2);
  Tensor<float> summand({head.rows, head.features}), dweight = ownWeight(own), dbias = ownBias(own);
  std::fill(summand.memory.begin(), summand.memory.end(), NAN);
  std::vector<double> wantedWeight, wantedBias;
  for (int64_t i = 0; i < dweight.elements(); ++i)
    wantedWeight.push_back(dweight[i] + wanted.dweight[own.begin * head.features + i]);
  for (int64_t i = 0; i < own.size(); ++i)
    wantedBias.push_back(dbias[i] + wanted.dbias[own.begin + i]);
  Operands operands = {{"hidden", hidden.view},         {"weight", rows.view},
                       {"targets", targets.view},       {"scratch", space.view},
                       {"statistics", statistics.view}, {"dhidden", summand.view},
                       {"dweight", dweight.view}};
  if (head.weighted)
    operands.push_back({"row_weights", rowWeights.view});
  if (head.biased) {
    operands.push_back({"bias", biases.view});
    operands.push_back({"dbias", dbias.view});
  }
  nlohmann::json given = attributes(own);
  given["smoothing"] = head.smoothing;
  given["z"] = head.z;
  EXPECT_OK(runKernel("joined_cross_entropy_backward", operands, given, threads));
  for (int64_t i = 0; i < summand.elements(); ++i)
    dhidden[i] += summand[i];
  expectNear(dweight, wantedWeight, 2e-5, 1e-5, "dweight");
  if (head.biased)
    expectNear(dbias, wantedBias, 2e-5, 1e-5, "dbias");
}

void WordLoss::check(int64_t parts, int threads) {
  SCOPED_TRACE(std::to_string(parts) + " parts, " + std::to_string(threads) + " threads");
  statistics = Tensor<float>({parts, head.rows, statedNumbers()});
  predictions = Tensor<int32_t>({parts, head.rows});
  std::fill(statistics.memory.begin(), statistics.memory.end(), NAN);
  for (int64_t part = 0; part < parts; ++part)
    state(shareOf(head.words, part, parts), part, threads);
  checkLoss(threads);
  std::vector<double> dhidden(head.rows * head.features, 0);
  for (int64_t part = 0; part < parts; ++part)
    checkGradients(shareOf(head.words, part, parts), threads, dhidden);
  for (size_t i = 0; i < dhidden.size(); ++i)
    ASSERT_NEAR(dhidden[i], wanted.dhidden[i], 2e-5) << "dhidden, element " << i;
}

void checkAll(const Head &head, int seed, bool withLabels = true) {
  WordLoss loss(head, seed, withLabels);
  for (int64_t parts : {1, 2, 4, 8})
    for (int threads : {1, 3})
      loss.check(parts, threads);
}

} // namespace

TEST(WordLoss, UnevenWords) {
  checkAll({.rows = 50, .words = 131, .features = 30}, 1);
  checkAll({.rows = 77,
            .words = 131,
            .features = 64,
            .scale = 0.5,
            .transposed = true,
            .biased = true,
            .scratchRows = 200},
           2);
  checkAll({.rows = 33, .words = 1000, .features = 40, .biased = true, .scratchRows = 1}, 3);
}

TEST(WordLoss, PartsWithoutWords) {
  checkAll({.rows = 9, .words = 3, .features = 5, .biased = true}, 4);
  checkAll({.rows = 9, .words = 1, .features = 5}, 5);
}

TEST(WordLoss, TermsAndWeightsOfRows) {
  checkAll(
      {.rows = 40, .words = 131, .features = 24, .smoothing = 0.1, .z = 1e-2, .weighted = true}, 6);
  checkAll({.rows = 40, .words = 131, .features = 24, .smoothing = 0.25, .biased = true}, 7);
}

TEST(WordLoss, NoLabelsAndNoRows) {
  checkAll({.rows = 20, .words = 131, .features = 16, .biased = true}, 8, false);
  checkAll({.rows = 0, .words = 131, .features = 16}, 9);
}

TEST(WordLoss, EqualLogitsPredictTheLowest) {
  Tensor<float> statistics({3, 1, 3});
  statistics.fill([](int64_t i) { return i % 3 == 0 ? (i == 0 ? 1.f : 2.f) : 1.f; });
  Tensor<int32_t> predictions({3, 1}), targets({1}), prediction({1});
  predictions.fill([](int64_t i) { return static_cast<int32_t>(10 * i); });
  targets.fill([](int64_t) { return 4; });
  EXPECT_OK(runKernel("joined_prediction", {{"statistics", statistics.view},
                                            {"predictions", predictions.view},
                                            {"targets", targets.view},
                                            {"prediction", prediction.view}}));
  EXPECT_EQ(prediction[0], 10);
}

TEST(WordLoss, RejectsWhatIsNoShare) {
  Tensor<float> hidden({2, 4}), weight({3, 4}), result({2, 3}), scratch({70});
  Tensor<int32_t> targets({2});
  const Operands operands = {{"hidden", hidden.view},
                             {"weight", weight.view},
                             {"targets", targets.view},
                             {"result", result.view},
                             {"scratch", scratch.view}};
  EXPECT_OK(runKernel("word_statistics", operands, {{"first", 4}, {"words", 7}}));
  EXPECT_NE(runKernel("word_statistics", operands, {{"first", 5}, {"words", 7}})
                .message()
                .find("has words from 5 on, and there are 7"),
            std::string::npos);
  EXPECT_FALSE(runKernel("word_statistics", operands, {{"first", -1}, {"words", 7}}));
  EXPECT_FALSE(runKernel("word_statistics", operands, {{"first", 0}}));
  targets.fill([](int64_t) { return 7; });
  EXPECT_NE(runKernel("word_statistics", operands, {{"first", 4}, {"words", 7}})
                .message()
                .find("target 7 of row 0 is outside the 7 classes"),
            std::string::npos);
}
