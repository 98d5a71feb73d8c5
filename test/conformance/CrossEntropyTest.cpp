#include "test/conformance/KernelTest.h"
#include <numeric>

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

struct Loss {
  std::vector<double> loss, dlogits;
  std::vector<int32_t> prediction;
};

Loss reference(const std::vector<double> &logits, const std::vector<int32_t> &targets,
               int64_t width, double smoothing = 0, double z = 0) {
  Loss r;
  r.dlogits.assign(logits.size(), 0);
  for (size_t i = 0; i < targets.size(); ++i) {
    r.loss.push_back(0);
    r.prediction.push_back(-1);
    if (targets[i] < 0)
      continue;
    const double *x = &logits[i * width];
    int64_t arg = std::max_element(x, x + width) - x;
    double sum = 0;
    for (int64_t j = 0; j < width; ++j)
      sum += std::exp(x[j] - x[arg]);
    const double norm = x[arg] + std::log(sum), mean = std::accumulate(x, x + width, 0.0) / width;
    r.loss.back() = norm - (1 - smoothing) * x[targets[i]] - smoothing * mean + z * norm * norm;
    r.prediction.back() = static_cast<int32_t>(arg);
    for (int64_t j = 0; j < width; ++j)
      r.dlogits[i * width + j] = std::exp(x[j] - norm) * (1 + 2 * z * norm) -
                                 (j == targets[i]) * (1 - smoothing) - smoothing / width;
  }
  return r;
}

std::vector<int32_t> makeTargets(int64_t rows, int64_t width, std::mt19937 &random) {
  std::vector<int32_t> targets(rows);
  for (int32_t &t : targets)
    t = random() % 3 == 0 ? -1 : static_cast<int32_t>(random() % width);
  return targets;
}

Tensor<int32_t> ints(const std::vector<int32_t> &values) {
  Tensor<int32_t> t({static_cast<int64_t>(values.size())});
  return t.fill([&](int64_t i) { return values[i]; });
}

} // namespace

TEST(CrossEntropy, LossGradientPrediction) {
  std::mt19937 random(1);
  for (auto [rows, width] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 5}, {1, 1}, {9, 33}, {70, 1000}}) {
    Tensor<float> logits = randomTensor(random, {rows, width}, {}, 3, 5.f);
    std::vector<int32_t> targets = makeTargets(rows, width, random);
    std::vector<double> values;
    for (int64_t i = 0; i < logits.elements(); ++i)
      values.push_back(logits[i]);
    Loss want = reference(values, targets, width);
    Tensor<int32_t> t = ints(targets), prediction({rows});
    Tensor<float> loss({rows});
    EXPECT_OK(runKernel("cross_entropy",
                        {{"logits", logits.view},
                         {"targets", t.view},
                         {"loss", loss.view},
                         {"dlogits", logits.view},
                         {"prediction", prediction.view}},
                        {}, 2));
    expectNear(loss, want.loss, 2e-6, 2e-6, "loss");
    expectNear(logits, want.dlogits, 1e-6, 1e-5, "dlogits");
    for (int64_t i = 0; i < rows; ++i)
      ASSERT_EQ(prediction[i], want.prediction[i]);
  }
}

TEST(CrossEntropy, SmoothedLabelsAndSquaredNorms) {
  std::mt19937 random(5);
  for (auto [smoothing, z] : {std::pair{0.1, 0.0}, {0.0, 1e-2}, {0.25, 1e-3}}) {
    const int64_t rows = 40, width = 333;
    Tensor<float> logits = randomTensor(random, {rows, width}, {}, 3, 5.f), loss({rows});
    const std::vector<int32_t> targets = makeTargets(rows, width, random);
    std::vector<double> values;
    for (int64_t i = 0; i < logits.elements(); ++i)
      values.push_back(logits[i]);
    const Loss want = reference(values, targets, width, smoothing, z);
    Tensor<int32_t> t = ints(targets);
    EXPECT_OK(runKernel("cross_entropy",
                        {{"logits", logits.view},
                         {"targets", t.view},
                         {"loss", loss.view},
                         {"dlogits", logits.view}},
                        {{"smoothing", smoothing}, {"z", z}}, 2));
    expectNear(loss, want.loss, 4e-6, 4e-6, "loss");
    expectNear(logits, want.dlogits, 2e-6, 2e-5, "dlogits");
  }
}

TEST(CrossEntropy, RejectsTermsThatAreNone) {
  std::mt19937 random(5);
  Tensor<float> logits = randomTensor(random, {2, 3}, {}, 3, 5.f), loss({2});
  Tensor<int32_t> t = ints({1, 2});
  for (auto [name, value] : {std::pair{"smoothing", 1.0}, {"smoothing", -0.1}, {"z", -1.0}})
    EXPECT_FALSE(runKernel("cross_entropy",
                           {{"logits", logits.view}, {"targets", t.view}, {"loss", loss.view}},
                           {{name, value}}, 2));
}

TEST(CrossEntropy, EqualLogitsPredictTheLowest) {
  Tensor<float> logits({1, 40}), loss({1});
  logits.fill([](int64_t i) { return i == 7 || i == 30 ? 2.f : 1.f; });
  Tensor<int32_t> targets = ints({3}), prediction({1});
  EXPECT_OK(runKernel("cross_entropy", {{"logits", logits.view},
                                        {"targets", targets.view},
                                        {"loss", loss.view},
                                        {"prediction", prediction.view}}));
  EXPECT_EQ(prediction[0], 7);
}

TEST(CrossEntropy, RejectsLabelsOutOfRange) {
  Tensor<float> logits({2, 4}), loss({2});
  Tensor<int32_t> targets = ints({0, 4});
  EXPECT_NE(runKernel("cross_entropy",
                      {{"logits", logits.view}, {"targets", targets.view}, {"loss", loss.view}})
                .message()
                .find("target 4 of row 1 is outside the 4 classes"),
            std::string::npos);
}

namespace {

void linearCase(int64_t rows, int64_t width, int64_t features, int64_t scratchRows,
                bool transposedWeight, bool withBias, bool withGradients, double scale, int seed,
                bool withRowWeights = false) {
  std::mt19937 random(seed);
  std::vector<int> order = transposedWeight ? std::vector<int>{1, 0} : std::vector<int>{0, 1};
  Tensor<float> hidden = randomTensor(random, {rows, features}, {}, 2);
  Tensor<float> weight = randomTensor(random, {width, features}, order, 1, 0.3f);
  Tensor<float> bias = randomTensor(random, {width});
  Tensor<float> dweight = randomTensor(random, {width, features}, order, 1);
  Tensor<float> dbias = randomTensor(random, {width});
  std::vector<int32_t> targets = makeTargets(rows, width, random);
  Tensor<float> rowWeights({rows});
  rowWeights.fill(
      [&](int64_t i) { return withRowWeights ? static_cast<float>(i % 5) - 1.5f : 1.f; });

  std::vector<double> logits(rows * width);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < width; ++j) {
      double sum = 0;
      for (int64_t f = 0; f < features; ++f)
        sum += double(hidden.at(i, f)) * weight.at(j, f);
      logits[i * width + j] = scale * sum + (withBias ? bias[j] : 0);
    }
  Loss want = reference(logits, targets, width);
  std::vector<double> wantHidden(rows * features, 0), wantWeight, wantBias;
  for (int64_t i = 0; i < dweight.elements(); ++i)
    wantWeight.push_back(dweight[i]);
  for (int64_t j = 0; j < width; ++j)
    wantBias.push_back(dbias[j]);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < width; ++j) {
      double d = want.dlogits[i * width + j] * rowWeights[i];
      wantBias[j] += d;
      for (int64_t f = 0; f < features; ++f) {
        wantHidden[i * features + f] += scale * d * weight.at(j, f);
        wantWeight[j * features + f] += scale * d * hidden.at(i, f);
      }
    }

  Tensor<int32_t> t = ints(targets);
  Tensor<float> firstHidden, firstWeight;
  for (int threads : {1, 3}) {
    Tensor<float> loss({rows}), scratch({scratchRows, width}), dhidden({rows, features});
    Tensor<float> gradWeight = dweight, gradBias = dbias;
    Tensor<int32_t> prediction({rows});
    std::fill(dhidden.memory.begin(), dhidden.memory.end(), NAN);
    Operands operands = {{"hidden", hidden.view},   {"weight", weight.view},
                         {"targets", t.view},       {"loss", loss.view},
                         {"scratch", scratch.view}, {"prediction", prediction.view}};
    if (withBias)
      operands.push_back({"bias", bias.view});
    if (withRowWeights)
      operands.push_back({"row_weights", rowWeights.view});
    if (withGradients) {
      operands.push_back({"dhidden", dhidden.view});
      operands.push_back({"dweight", gradWeight.view});
      if (withBias)
        operands.push_back({"dbias", gradBias.view});
    }
    EXPECT_OK(runKernel("linear_cross_entropy", operands, {{"scale", scale}}, threads));
    expectNear(loss, want.loss, 1e-5, 1e-5, "loss");
    for (int64_t i = 0; i < rows; ++i)
      ASSERT_EQ(prediction[i], want.prediction[i]);
    if (!withGradients)
      continue;
    expectNear(dhidden, wantHidden, 1e-5, 1e-5, "dhidden");
    expectNear(gradWeight, wantWeight, 2e-5, 1e-5, "dweight");
    if (withBias)
      expectNear(gradBias, wantBias, 2e-5, 1e-5, "dbias");
    if (threads == 1) {
      firstHidden = dhidden;
      firstWeight = gradWeight;
    } else {
      for (int64_t i = 0; i < dhidden.elements(); ++i)
        ASSERT_EQ(dhidden[i], firstHidden[i]);
      for (int64_t i = 0; i < gradWeight.elements(); ++i)
        ASSERT_EQ(gradWeight[i], firstWeight[i]);
    }
  }
}

} // namespace

TEST(LinearCrossEntropy, BlocksOfRows) {
  linearCase(50, 120, 30, 100, false, false, true, 1, 1);
  linearCase(50, 120, 30, 4, false, true, true, 1, 2); // many blocks
  linearCase(77, 64, 96, 20, true, true, true, 0.5, 3);
  linearCase(77, 64, 96, 20, false, true, false, 1, 4);
  linearCase(0, 64, 16, 4, false, false, true, 1, 5);
  linearCase(300, 500, 40, 300, true, false, true, 1, 6);
}

TEST(LinearCrossEntropy, RowsThatCountDifferently) {
  linearCase(50, 120, 30, 100, false, true, true, 1, 7, true);
  linearCase(77, 64, 96, 20, true, false, true, 0.5, 8, true);
  linearCase(9, 64, 16, 40, false, false, false, 1, 9, true); // losses alone do not
}

TEST(LinearCrossEntropy, NoLabelsAtAll) {
  Tensor<float> hidden({3, 4}), weight({5, 4}), loss({3}), scratch({40, 5}), dhidden({3, 4}),
      dweight({5, 4});
  hidden.fill([](int64_t) { return 1.f; });
  dhidden.fill([](int64_t) { return 9.f; });
  dweight.fill([](int64_t) { return 9.f; });
  loss.fill([](int64_t) { return 9.f; });
  Tensor<int32_t> targets = ints({-1, -1, -1});
  EXPECT_OK(runKernel("linear_cross_entropy", {{"hidden", hidden.view},
                                               {"weight", weight.view},
                                               {"targets", targets.view},
                                               {"loss", loss.view},
                                               {"scratch", scratch.view},
                                               {"dhidden", dhidden.view},
                                               {"dweight", dweight.view}}));
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_EQ(loss[i], 0);
  for (int64_t i = 0; i < 12; ++i)
    EXPECT_EQ(dhidden[i], 0);
  for (int64_t i = 0; i < 20; ++i)
    EXPECT_EQ(dweight[i], 9);
}
