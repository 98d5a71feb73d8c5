// Squared norms of rows of a weight with its adapter, against sums in double.
#include "runtime/support/QuantizedMatrix.h"
#include "test/conformance/KernelTest.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

/// A problem of this size; `numbers` is what the weight's elements are, [out, in].
struct Problem {
  int64_t out, in, rank;
  double scale = 0.5;
  Tensor<float> a, b, result;
  std::vector<float> numbers;

  Problem(std::mt19937 &random, int64_t out, int64_t in, int64_t rank)
      : out(out), in(in), rank(rank), a(randomTensor(random, {rank, in}, {}, 3)),
        b(randomTensor(random, {out, rank}, {1, 0})), result({out}),
        numbers(static_cast<size_t>(out * in)) {
    std::normal_distribution<float> normal;
    for (float &number : numbers)
      number = normal(random);
  }

  std::vector<double> expected() {
    std::vector<double> sums(static_cast<size_t>(out));
    for (int64_t o = 0; o < out; ++o)
      for (int64_t i = 0; i < in; ++i) {
        double sum = numbers[static_cast<size_t>(o * in + i)];
        for (int64_t r = 0; r < rank; ++r)
          sum += scale * b.at(o, r) * a.at(r, i);
        sums[static_cast<size_t>(o)] += sum * sum;
      }
    return sums;
  }

  Status run(const TensorView &weight, nlohmann::json attributes = nlohmann::json::object(),
             int threads = 1) {
    attributes["scale"] = scale;
    return runKernel("row_squares",
                     {{"weight", weight}, {"a", a.view}, {"b", b.view}, {"result", result.view}},
                     attributes, threads);
  }
};

const std::vector<std::array<int64_t, 3>> sizes = {{1, 1, 1},    {5, 3, 2},      {48, 32, 4},
                                                   {129, 67, 8}, {33, 1200, 16}, {70, 513, 3},
                                                   {0, 5, 2},    {4, 0, 2},      {3, 9, 9000}};

TEST(RowSquares, WeightsAsTheyLie) {
  std::mt19937 random(1);
  for (auto [out, in, rank] : sizes)
    for (bool transposed : {false, true}) {
      Problem problem(random, out, in, rank);
      Tensor<float> weight = randomTensor(
          random, {out, in}, transposed ? std::vector<int>{1, 0} : std::vector<int>{0, 1}, 2);
      weight.fill([&](int64_t i) { return problem.numbers[static_cast<size_t>(i)]; });
      EXPECT_OK(problem.run(weight.view));
      expectNear(problem.result, problem.expected(), 1e-6, 3e-6 * std::sqrt(double(rank)),
                 std::to_string(out) + "x" + std::to_string(in) + "x" + std::to_string(rank));
    }
}

TEST(RowSquares, WhatCodesStandFor) {
  std::mt19937 random(2);
  for (Quantization kind : {Quantization::Int8, Quantization::NF4})
    for (auto [out, in, rank] : sizes) {
      if (out * in == 0)
        continue;
      Problem problem(random, out, in, rank);
      const QuantizedShape shape{kind, out, in};
      Tensor<int32_t> words({shape.words()});
      EXPECT_EQ(quantize(shape, 0, problem.numbers, words.memory.data()), -1);
      dequantize(shape, words.memory.data(), {0, 0, out, in}, problem.numbers.data(), in);
      EXPECT_OK(problem.run(words.view, {{"quantized", nameOf(kind)}}));
      expectNear(problem.result, problem.expected(), 1e-6, 3e-6 * std::sqrt(double(rank)),
                 nameOf(kind));
    }
}

TEST(RowSquares, ThreadsChangeNoBit) {
  std::mt19937 random(3);
  Problem problem(random, 300, 700, 8);
  Tensor<float> weight({300, 700});
  weight.fill([&](int64_t i) { return problem.numbers[static_cast<size_t>(i)]; });
  EXPECT_OK(problem.run(weight.view));
  const std::vector<float> one = problem.result.memory;
  EXPECT_OK(problem.run(weight.view, {}, 3));
  EXPECT_EQ(one, problem.result.memory);
}

TEST(RowSquares, RejectsWhatDoesNotFit) {
  std::mt19937 random(4);
  Problem problem(random, 6, 10, 2);
  auto says = [&](const TensorView &weight, nlohmann::json attributes, const char *what) {
    const std::string message = problem.run(weight, std::move(attributes)).message();
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  Tensor<float> wide({6, 11}), fits({6, 10});
  Tensor<int32_t> words({7});
  says(wide.view, {}, "operand 'weight' is [6, 11], not [6, 10]");
  says(words.view, {{"quantized", "nf4"}}, "operand 'weight' has 7 values, not");
  says(words.view, {{"quantized", "fp4"}}, "quantized");
  problem.a = randomTensor(random, {3, 10});
  says(fits.view, {}, "operand 'a' has 3 rows, but 'b' 2 columns");
  problem.a = randomTensor(random, {2, 10}, {1, 0});
  says(fits.view, {}, "the rows of operand 'a' must be dense");
}

} // namespace
