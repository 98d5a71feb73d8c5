#include "test/unit/runtime/backends/cuda/kernels/GemmCase.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

struct Case {
  std::vector<int64_t> batch;
  int64_t m, n, k;
  bool bf16 = false, wideResult = true;
};

void runCase(const Case &test, std::mt19937 &random) {
  auto draw = [&](int64_t rows, int64_t cols) {
    std::vector<int64_t> shape = test.batch;
    shape.push_back(rows);
    shape.push_back(cols);
    std::vector<int> order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    if (random() % 2)
      std::swap(order[order.size() - 2], order.back());
    Tensor<float> t = randomTensor(random, shape, order, random() % 3);
    if (test.bf16)
      roundAll(t);
    return t;
  };
  const bool narrow = test.bf16 && !test.wideResult;
  GemmCase done({draw(test.m, test.k), draw(test.k, test.n), draw(test.m, test.n),
                 draw(test.m, test.n), draw(test.m, test.n), draw(test.m, test.n),
                 randomTensor(random, {test.n})},
                test.bf16, narrow, random);
  runInSeveralOrders(
      {done.c.bytes(), done.pre.bytes()},
      [&] { return cuda::launchGemm(done.shape(), done.data(), nullptr); }, 2);
  const double bound = 2e-6 * std::sqrt(static_cast<double>(test.k + 1));
  const std::string what = done.name();
  expectMemoryNear(done.c, done.tensors.c.memory, bound, roundingOf(narrow, 4e-6), what);
  expectMemoryNear(done.pre, done.tensors.pre.memory, bound, roundingOf(narrow, 4e-6),
                   what + " pre");
}

} // namespace

TEST(CudaGemm, LikeTheHost) {
  std::mt19937 random(1);
  for (int round = 0; round < 3; ++round)
    for (Case c : std::vector<Case>{{{}, 1, 1, 1},
                                    {{}, 65, 70, 33},
                                    {{}, 0, 5, 3},
                                    {{}, 12, 130, 5},
                                    {{3}, 17, 9, 40},
                                    {{2, 3}, 8, 20, 16}}) {
      runCase(c, random);
      c.bf16 = true;
      runCase(c, random);
      c.wideResult = false;
      runCase(c, random);
    }
}

TEST(CudaGemm, NoTermsGiveTheBias) {
  cuda::GemmShape s;
  s.m = 2, s.n = 3;
  s.c.strides = {3, 1};
  std::vector<float> c(6, NAN), bias = {1, 2, 3};
  const cuda::GemmData data{nullptr, nullptr, c.data(), bias.data()};
  EXPECT_EQ(cuda::launchGemm(s, data, nullptr), 0);
  EXPECT_EQ(c, (std::vector<float>{1, 2, 3, 1, 2, 3}));
  s.accumulate = true;
  EXPECT_NE(cuda::launchGemm(s, data, nullptr), 0);
}

TEST(CudaGemm, TheDerivativeIsThatOfTheActivation) {
  // c = 1 * f'(x) beside (f(x + h) - f(x - h)) / 2h of the same kernel's activations.
  const int count = 200;
  std::vector<float> one(1, 1.f), ones(count, 1.f), x(count), slopes(count), above(count),
      below(count);
  for (int i = 0; i < count; ++i)
    x[i] = (i - 100) * 0.06f + 0.01f;
  cuda::GemmShape s;
  s.m = 1, s.n = count, s.k = 1;
  s.a.strides = {1, 1};
  s.b.strides = s.c.strides = s.at.strides = s.residual.strides = {count, 1};
  for (auto activation :
       {cuda::GemmActivation::Gelu, cuda::GemmActivation::GeluTanh, cuda::GemmActivation::Silu,
        cuda::GemmActivation::QuickGelu, cuda::GemmActivation::Relu}) {
    s.activation = activation;
    cuda::GemmData data{one.data(), ones.data(), slopes.data()};
    data.at = x.data();
    ASSERT_EQ(cuda::launchGemm(s, data, nullptr), 0);
    const float step = 4e-3f;
    for (auto [to, shift] : {std::pair{&above, step}, {&below, -step}}) {
      std::vector<float> moved = x;
      for (float &value : moved)
        value += shift;
      ASSERT_EQ(cuda::launchGemm(s, {one.data(), moved.data(), to->data()}, nullptr), 0);
    }
    for (int i = 0; i < count; ++i)
      EXPECT_NEAR(slopes[i], (above[i] - below[i]) / (2 * step), 3e-4)
          << static_cast<int>(activation) << " at " << x[i];
  }
}
