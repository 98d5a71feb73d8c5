// Products with quantized weights, against the products of what their codes stand for.
#include "runtime/support/QuantizedMatrix.h"
#include "test/conformance/ProductTest.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

/// W [out, in] as numbers and as words.
struct Weight {
  QuantizedShape shape;
  std::vector<float> numbers;
  Tensor<int32_t> words;

  Weight(Quantization kind, int64_t out, int64_t in, std::mt19937 &random)
      : shape{kind, out, in}, numbers(static_cast<size_t>(out * in)), words({shape.words()}) {
    std::normal_distribution<float> normal;
    std::vector<float> values(numbers.size());
    for (float &value : values)
      value = normal(random);
    EXPECT_EQ(quantize(shape, 0, values, words.memory.data()), -1);
    dequantize(shape, words.memory.data(), {0, 0, out, in}, numbers.data(), in);
  }
};

struct Case {
  int64_t rows, out, in;
  bool backward = false;
  int64_t panel = 0; ///< columns that become numbers at once; 0: all
  nlohmann::json attributes = nlohmann::json::object();
  bool bias = false, residual = false, pre = false;
};

void runCase(const Case &test, Quantization kind, unsigned seed) {
  std::mt19937 random(seed);
  Weight weight(kind, test.out, test.in, random);
  const int64_t depth = test.backward ? test.out : test.in;
  const int64_t cols = test.backward ? test.in : test.out;
  Tensor<float> a = randomTensor(random, {test.rows, depth}, {}, seed % 3);
  Tensor<float> c = randomTensor(random, {test.rows, cols}, {}, seed % 2);
  Tensor<float> bias = randomTensor(random, {cols});
  Tensor<float> residual = randomTensor(random, {test.rows, cols});
  Tensor<float> pre = randomTensor(random, {test.rows, cols});
  Tensor<float> scratch({(test.panel > 0 ? test.panel : cols) * depth});
  const bool accumulate = test.attributes.value("accumulate", false);
  const double alpha = test.attributes.value("alpha", 1.0);
  const std::string activation = test.attributes.value("activation", "none");

  std::vector<double> want(c.elements()), wantPre(c.elements());
  for (int64_t i = 0; i < test.rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k)
        sum +=
            double{a.at(i, k)} * weight.numbers[test.backward ? k * test.in + j : j * test.in + k];
      sum = alpha * sum + (test.bias ? bias[j] : 0);
      wantPre[i * cols + j] = sum;
      want[i * cols + j] = (accumulate ? c.at(i, j) : 0) + activate(activation, sum) +
                           (test.residual ? residual.at(i, j) : 0);
    }

  nlohmann::json attributes = test.attributes;
  attributes["quantized"] = nameOf(kind);
  if (!test.backward)
    attributes["transpose_b"] = true;
  Operands operands = {{"a", a.view}, {"b", weight.words.view}, {"c", c.view}};
  operands.push_back({"scratch", scratch.view});
  if (test.bias)
    operands.push_back({"bias", bias.view});
  if (test.residual)
    operands.push_back({"residual", residual.view});
  if (test.pre)
    operands.push_back({"pre", pre.view});
  const double tolerance = 2e-6 * (1 + std::sqrt(double(depth))) * std::abs(alpha) * 3;
  const std::string what = attributes.dump() + " " + std::to_string(test.rows) + "x" +
                           std::to_string(test.out) + "x" + std::to_string(test.in);
  Tensor<float> one = c;
  runProduct("quantized_gemm", operands, attributes, one, what);
  expectNear(one, want, tolerance, 1e-5, what);
  if (test.pre)
    expectNear(pre, wantPre, tolerance, 1e-5, what + " pre");
}

void runBoth(const Case &test, unsigned seed) {
  for (Quantization kind : {Quantization::Int8, Quantization::NF4})
    for (bool backward : {false, true}) {
      Case each = test;
      each.backward = backward;
      runCase(each, kind, seed);
    }
}

TEST(QuantizedGemm, Shapes) {
  unsigned seed = 0;
  for (auto [rows, out, in] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                  {7, 5, 3},
                                                                  {64, 48, 32},
                                                                  {33, 129, 67},
                                                                  {300, 65, 100},
                                                                  {0, 5, 7},
                                                                  {1, 700, 130}})
    for (int64_t panel : {0, 1, 17})
      runBoth({.rows = rows, .out = out, .in = in, .panel = panel}, ++seed);
}

TEST(QuantizedGemm, WhatFollowsTheProduct) {
  const Case base{.rows = 37, .out = 90, .in = 51, .panel = 32};
  unsigned seed = 50;
  for (const nlohmann::json &attributes :
       {nlohmann::json{{"activation", "silu"}}, nlohmann::json{{"activation", "relu"}},
        nlohmann::json{{"alpha", -0.75}}, nlohmann::json::object()})
    for (int form = 0; form < 8; ++form) {
      Case test = base;
      test.attributes = attributes;
      test.bias = form & 1;
      test.residual = form & 2;
      test.pre = form & 4;
      runBoth(test, ++seed);
    }
  Case test = base;
  test.attributes["accumulate"] = true;
  runBoth(test, ++seed);
}

// A product of many columns is, bit by bit, that of its panels.
TEST(QuantizedGemm, PanelsChangeNothing) {
  std::mt19937 random(5);
  for (Quantization kind : {Quantization::Int8, Quantization::NF4})
    for (bool backward : {false, true}) {
      Weight weight(kind, 200, 300, random);
      const int64_t depth = backward ? 200 : 300, cols = backward ? 300 : 200;
      Tensor<float> a = randomTensor(random, {65, depth}), whole({65, cols}), parts({65, cols});
      nlohmann::json attributes = {{"quantized", nameOf(kind)}, {"transpose_b", !backward}};
      for (auto [c, columns] : {std::pair{&whole, cols}, std::pair{&parts, int64_t{64}}}) {
        Tensor<float> scratch({columns * depth});
        EXPECT_OK(runKernel(
            "quantized_gemm",
            {{"a", a.view}, {"b", weight.words.view}, {"c", c->view}, {"scratch", scratch.view}},
            attributes));
      }
      EXPECT_EQ(whole.memory, parts.memory);
    }
}

TEST(QuantizedGemm, RejectsWhatDoesNotFit) {
  std::mt19937 random(6);
  Weight weight(Quantization::NF4, 6, 10, random);
  Tensor<float> a = randomTensor(random, {3, 10}), c = randomTensor(random, {3, 6}),
                wide = randomTensor(random, {3, 7}), scratch({10}), small({9});
  const nlohmann::json attributes = {{"quantized", "nf4"}, {"transpose_b", true}};
  auto run = [&](const TensorView &result, const TensorView &room, nlohmann::json how) {
    return runKernel("quantized_gemm",
                     {{"a", a.view}, {"b", weight.words.view}, {"c", result}, {"scratch", room}},
                     how)
        .message();
  };
  EXPECT_EQ(run(c.view, scratch.view, attributes), "");
  EXPECT_NE(run(wide.view, scratch.view, attributes).find("words, but nf4 needs"),
            std::string::npos);
  EXPECT_NE(run(c.view, small.view, attributes).find("'scratch' has 9 numbers"), std::string::npos);
  EXPECT_NE(run(c.view, scratch.view, {{"quantized", "int8"}, {"transpose_b", true}})
                .find("words, but int8 needs"),
            std::string::npos);
  EXPECT_NE(run(c.view, scratch.view, {{"quantized", "fp4"}}).find("quantized"), std::string::npos);
}

} // namespace
