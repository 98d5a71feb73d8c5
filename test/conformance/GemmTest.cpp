#include "test/conformance/ProductTest.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

struct Case {
  std::vector<int64_t> batch;
  int64_t m, n, k;
  std::vector<int> orderA = {}, orderB = {}, orderC = {};
  nlohmann::json attributes = nlohmann::json::object();
  bool bias = false, residual = false, pre = false;
};

std::vector<int> order(size_t batch, bool transposed) {
  std::vector<int> list(batch + 2);
  std::iota(list.begin(), list.end(), 0);
  if (transposed)
    std::swap(list[batch], list[batch + 1]);
  return list;
}

void runCase(const Case &test, int seed) {
  std::mt19937 random(seed);
  auto shape = [&](int64_t rows, int64_t cols) {
    std::vector<int64_t> s = test.batch;
    s.push_back(rows);
    s.push_back(cols);
    return s;
  };
  Tensor<float> a = randomTensor(random, shape(test.m, test.k), test.orderA, 3);
  Tensor<float> b = randomTensor(random, shape(test.k, test.n), test.orderB, 1);
  Tensor<float> c = randomTensor(random, shape(test.m, test.n), test.orderC, 2);
  Tensor<float> bias = randomTensor(random, {test.n});
  Tensor<float> residual = randomTensor(random, shape(test.m, test.n));
  Tensor<float> pre = randomTensor(random, shape(test.m, test.n), test.orderC);
  bool accumulate = test.attributes.value("accumulate", false);
  double alpha = test.attributes.value("alpha", 1.0);
  std::string activation = test.attributes.value("activation", "none");

  int64_t batches = c.elements() / std::max<int64_t>(1, test.m * test.n);
  std::vector<double> want(c.elements()), wantPre(c.elements());
  for (int64_t s = 0; s < batches; ++s)
    for (int64_t i = 0; i < test.m; ++i)
      for (int64_t j = 0; j < test.n; ++j) {
        int64_t at = (s * test.m + i) * test.n + j;
        double sum = 0;
        for (int64_t k = 0; k < test.k; ++k)
          sum += double(a[(s * test.m + i) * test.k + k]) * b[(s * test.k + k) * test.n + j];
        sum = alpha * sum + (test.bias ? bias[j] : 0);
        wantPre[at] = sum;
        want[at] = (accumulate ? c[at] : 0) + activate(activation, sum) +
                   (test.residual ? residual[at] : 0);
      }

  Operands operands = {{"a", a.view}, {"b", b.view}, {"c", c.view}};
  if (test.bias)
    operands.push_back({"bias", bias.view});
  if (test.residual)
    operands.push_back({"residual", residual.view});
  if (test.pre)
    operands.push_back({"pre", pre.view});
  double tolerance = 2e-6 * (1 + std::sqrt(double(test.k))) * std::abs(alpha);
  std::string what = test.attributes.dump() + " " + std::to_string(test.m) + "x" +
                     std::to_string(test.n) + "x" + std::to_string(test.k);
  Tensor<float> one = c;
  runProduct("gemm", operands, test.attributes, one, what);
  expectNear(one, want, tolerance, 1e-5, what);
  if (test.pre)
    expectNear(pre, wantPre, tolerance, 1e-5, what + " pre");
}

} // namespace

TEST(Gemm, AllStrideForms) {
  int seed = 0;
  for (auto [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                            {7, 5, 3},
                                                            {64, 48, 32},
                                                            {129, 65, 100},
                                                            {300, 515, 70},
                                                            {1, 33, 9},
                                                            {33, 1, 9}})
    for (int form = 0; form < 8; ++form)
      runCase({{}, m, n, k, order(0, form & 1), order(0, form & 2), order(0, form & 4)}, ++seed);
}

// Several tiles, parts of the sum and, the last three, right sides that are packed in pieces.
TEST(Gemm, LongShapesOfEveryStride) {
  int seed = 60;
  for (auto [m, n, k] : std::vector<std::array<int64_t, 3>>{
           {101, 161, 500}, {130, 64, 400}, {20, 4133, 20}, {12, 400, 3000}, {8, 40, 30000}})
    for (int form : {0, 2, 5, 7})
      runCase({{},
               m,
               n,
               k,
               order(0, form & 1),
               order(0, form & 2),
               order(0, form & 4),
               {{"accumulate", form == 5}}},
              ++seed);
  runCase({{}, 8, 40, 30000, {}, {}, {}, {{"activation", "silu"}}, true, true, true}, ++seed);
}

TEST(Gemm, BatchesOfEveryStride) {
  runCase({{3}, 17, 9, 8, order(1, false), order(1, true), order(1, false)}, 1);
  runCase({{2, 5}, 4, 6, 8, order(2, true), order(2, false), order(2, true)}, 2);
  // A batch of heads inside packed rows: dimension 0 is inside dimension 1 in memory.
  runCase({{4}, 10, 16, 8, {1, 0, 2}, {1, 0, 2}, {1, 0, 2}}, 3);
}

TEST(Gemm, Epilogues) {
  int seed = 10;
  for (const char *activation : {"none", "gelu", "gelu_tanh", "silu", "quick_gelu", "relu"})
    for (bool transposedC : {false, true}) {
      nlohmann::json attributes = {{"activation", activation}, {"alpha", 0.5}};
      runCase({{}, 70, 37, 20, {}, {}, order(0, transposedC), attributes, true, true, true},
              ++seed);
      runCase({{2}, 5, 64, 20, {}, {}, order(1, transposedC), attributes, false, true, false},
              ++seed);
      runCase({{}, 140, 16, 20, {}, {}, order(0, transposedC), attributes, true, false, true},
              ++seed);
    }
}

TEST(Gemm, TimesADerivative) {
  std::mt19937 random(40);
  for (const char *activation : {"gelu", "gelu_tanh", "silu", "quick_gelu", "relu"})
    for (bool turned : {false, true})
      for (int64_t batch : {1, 3}) {
        const int64_t m = 33, n = 70, k = 12;
        Tensor<float> a = randomTensor(random, {batch, m, k}),
                      b = randomTensor(random, {batch, k, n}),
                      c = randomTensor(random, {batch, m, n}, order(1, turned)),
                      at = randomTensor(random, {batch, m, n}, order(1, batch == 3), 2);
        std::vector<double> want(c.elements());
        for (int64_t i = 0; i < c.elements(); ++i) {
          double sum = 0;
          for (int64_t s = 0; s < k; ++s)
            sum += double(a[i / n * k + s]) * b[(i / (m * n) * k + s) * n + i % n];
          const double x = at[i], h = 1e-5;
          want[i] = -2 * sum * (activate(activation, x + h) - activate(activation, x - h)) / 2 / h;
        }
        EXPECT_OK(runKernel("gemm", {{"a", a.view}, {"b", b.view}, {"c", c.view}, {"at", at.view}},
                            {{"activation", activation}, {"alpha", -2}}, 2));
        expectNear(c, want, 2e-5, 2e-5, activation);
      }
}

TEST(Gemm, AddsSumsOfItsOperands) {
  std::mt19937 random(41);
  for (int form = 0; form < 4; ++form)
    for (auto [m, n, k] :
         std::vector<std::array<int64_t, 3>>{{20, 9, 300}, {1, 40, 5}, {7, 3, 0}}) {
      Tensor<float> a = randomTensor(random, {m, k}, order(0, form & 1), 1),
                    b = randomTensor(random, {k, n}, order(0, form & 2)),
                    c = randomTensor(random, {m, n}), sumA = randomTensor(random, {m}),
                    sumB = randomTensor(random, {n});
      std::vector<double> wantA(m), wantB(n);
      for (int64_t i = 0; i < m; ++i) {
        wantA[i] = sumA[i];
        for (int64_t s = 0; s < k; ++s)
          wantA[i] += a[i * k + s];
      }
      for (int64_t j = 0; j < n; ++j) {
        wantB[j] = sumB[j];
        for (int64_t s = 0; s < k; ++s)
          wantB[j] += b[s * n + j];
      }
      EXPECT_OK(runKernel(
          "gemm",
          {{"a", a.view}, {"b", b.view}, {"c", c.view}, {"sum_a", sumA.view}, {"sum_b", sumB.view}},
          {{"accumulate", true}}, 2));
      expectNear(sumA, wantA, 1e-5, 1e-5, "sum of a");
      expectNear(sumB, wantB, 1e-5, 1e-5, "sum of b");
    }
  Tensor<float> a({2, 3, 4}), b({2, 4, 5}), c({2, 3, 5}), sum({3}), other({4});
  Operands operands{{"a", a.view}, {"b", b.view}, {"c", c.view}, {"sum_a", sum.view}};
  EXPECT_EQ(runKernel("gemm", operands).code(), Code::InvalidArgument) << "sums of a batch";
  EXPECT_NE(runKernel("gemm", {{"a", a.view}, {"b", b.view}, {"c", c.view}, {"at", c.view}})
                .message()
                .find("'at' needs an activation"),
            std::string::npos);
}

TEST(Gemm, AccumulatesOverVaryingRows) {
  int seed = 30;
  for (int64_t rows : {0, 1, 63, 64, 65, 1000})
    runCase({{}, 48, 40, rows, order(0, true), {}, {}, {{"accumulate", true}}}, ++seed);
}

TEST(Gemm, EmptyShapes) {
  runCase({{}, 0, 8, 4}, 1);
  runCase({{}, 8, 0, 4}, 2);
  runCase({{}, 8, 4, 0}, 3); // zeros
  runCase({{}, 8, 4, 0, {}, {}, {}, {{"activation", "silu"}}, true, true, true}, 4);
  runCase({{0}, 8, 4, 4}, 5);
}

TEST(Gemm, BroadcastWeightFoldsIntoRows) {
  // a [B, M, K] dense, b [K, N] for every batch: the same as one product of B * M rows.
  std::mt19937 random(5);
  Tensor<float> a = randomTensor(random, {6, 3, 20}), b = randomTensor(random, {20, 10});
  Tensor<float> batched = randomTensor(random, {6, 3, 10}), flat = randomTensor(random, {18, 10});
  TensorView shared = b.view;
  shared.rank = 3;
  for (int i = 2; i > 0; --i) {
    shared.shape[i] = b.view.shape[i - 1];
    shared.strides[i] = b.view.strides[i - 1];
  }
  shared.shape[0] = 6;
  shared.strides[0] = 0;
  TensorView rows = a.view;
  rows.rank = 2;
  rows.shape[0] = 18, rows.shape[1] = 20;
  rows.strides[0] = 20, rows.strides[1] = 1;
  EXPECT_OK(runKernel("gemm", {{"a", a.view}, {"b", shared}, {"c", batched.view}}));
  EXPECT_OK(runKernel("gemm", {{"a", rows}, {"b", b.view}, {"c", flat.view}}));
  for (int64_t i = 0; i < flat.elements(); ++i)
    ASSERT_EQ(flat[i], batched[i]);
}

TEST(Gemm, ResidualMayBeTheResult) {
  std::mt19937 random(6);
  for (const char *activation : {"none", "gelu"})
    for (bool withBias : {false, true}) {
      Tensor<float> a = randomTensor(random, {130, 16}), b = randomTensor(random, {16, 24});
      Tensor<float> c = randomTensor(random, {130, 24}), bias = randomTensor(random, {24});
      std::vector<double> want(c.elements());
      for (int64_t i = 0; i < 130; ++i)
        for (int64_t j = 0; j < 24; ++j) {
          double sum = withBias ? bias[j] : 0;
          for (int64_t k = 0; k < 16; ++k)
            sum += double(a.at(i, k)) * b.at(k, j);
          want[i * 24 + j] = activate(activation, sum) + c.at(i, j);
        }
      Operands operands = {{"a", a.view}, {"b", b.view}, {"c", c.view}, {"residual", c.view}};
      if (withBias)
        operands.push_back({"bias", bias.view});
      EXPECT_OK(runKernel("gemm", operands, {{"activation", activation}}, 2));
      expectNear(c, want, 1e-5, 1e-5, activation);
    }
}

TEST(Gemm, RejectsWhatDoesNotFit) {
  Tensor<float> a({3, 4}), b({5, 6}), c({3, 6});
  Status status = runKernel("gemm", {{"a", a.view}, {"b", b.view}, {"c", c.view}});
  EXPECT_EQ(status.code(), Code::InvalidArgument);
  EXPECT_NE(status.message().find("[3, 4] x [5, 6] do not make [3, 6]"), std::string::npos)
      << status.message();
  EXPECT_NE(
      runKernel("gemm", {{"a", a.view}, {"c", c.view}}).message().find("operand 'b' is missing"),
      std::string::npos);
  EXPECT_NE(runKernel("gemm", {{"a", a.view}, {"b", b.view}, {"c", c.view}}, {{"aplha", 2}})
                .message()
                .find("no attribute 'aplha'"),
            std::string::npos);
  EXPECT_NE(runKernel("gem", {}).message().find("no kernel 'gem'"), std::string::npos);
}
