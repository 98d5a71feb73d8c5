#include "runtime/backends/host/Optimizer.h"
#include "test/conformance/KernelTest.h"

using namespace omnibal::rt;

namespace {

struct Parameters {
  std::vector<std::vector<float>> param, grad, m, v;
  std::vector<AdamWTensor> tensors() {
    std::vector<AdamWTensor> list;
    for (size_t i = 0; i < param.size(); ++i)
      list.push_back({param[i].data(), grad[i].data(), m[i].data(), v[i].data(),
                      static_cast<int64_t>(param[i].size()), static_cast<int32_t>(i % 3)});
    return list;
  }
};

Parameters makeParameters(const std::vector<int64_t> &sizes) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 1);
  Parameters p;
  for (int64_t n : sizes)
    for (auto *list : {&p.param, &p.grad, &p.m, &p.v}) {
      list->emplace_back(n);
      if (list == &p.param || list == &p.grad)
        for (float &x : list->back())
          x = normal(random);
    }
  return p;
}

} // namespace

TEST(Optimizer, AdamWFollowsItsDefinitionOverSteps) {
  const std::vector<int64_t> sizes = {1, 0, 17, 40000, 3};
  Parameters p = makeParameters(sizes), start = p;
  AdamWOptions options;
  options.rates = {{3e-3, 0.05}, {3e-3, 0}, {1e-2, 0.2}}, options.beta1 = 0.9, options.beta2 = 0.95;
  options.gradientScale = 0.25, options.zeroGradients = false;
  ThreadPool pool(2);
  for (options.step = 1; options.step <= 4; ++options.step)
    adamW(p.tensors(), options, pool);
  for (size_t t = 0; t < sizes.size(); ++t)
    for (int64_t i = 0; i < sizes[t]; ++i) {
      const UpdateRate rate = options.rates[t % 3];
      double x = start.param[t][i], g = 0.25 * start.grad[t][i], m = 0, v = 0;
      for (int step = 1; step <= 4; ++step) {
        x *= 1 - rate.learningRate * rate.weightDecay;
        m = 0.9 * m + 0.1 * g;
        v = 0.95 * v + 0.05 * g * g;
        double denominator = std::sqrt(v) / std::sqrt(1 - std::pow(0.95, step)) + 1e-8;
        x -= rate.learningRate / (1 - std::pow(0.9, step)) * m / denominator;
      }
      ASSERT_NEAR(p.param[t][i], x, 2e-6 * (1 + std::abs(x)));
      ASSERT_NEAR(p.m[t][i], m, 1e-6 * (1 + std::abs(m)));
      ASSERT_NEAR(p.v[t][i], v, 1e-6 * (1 + std::abs(v)));
      ASSERT_EQ(p.grad[t][i], start.grad[t][i]);
    }
}

TEST(Optimizer, ThreadsChangeNothingAndGradientsAreCleared) {
  Parameters one = makeParameters({70000, 5, 200000}), three = one;
  ThreadPool pool1(1), pool3(3);
  AdamWOptions options;
  options.rates = {{3e-3, 0.05}, {3e-3, 0}, {1e-2, 0.2}};
  adamW(one.tensors(), options, pool1);
  adamW(three.tensors(), options, pool3);
  EXPECT_EQ(one.param, three.param);
  for (float g : one.grad[2])
    ASSERT_EQ(g, 0.f);
}

TEST(Optimizer, SquaredNormInDouble) {
  Parameters p = makeParameters({70000, 0, 5, 200001});
  std::vector<FloatRun> runs;
  long double want = 0;
  for (auto &list : p.param) {
    runs.push_back({list.data(), static_cast<int64_t>(list.size())});
    for (float x : list)
      want += static_cast<long double>(x) * x;
  }
  ThreadPool pool1(1), pool3(3);
  double got = squaredNorm(runs, pool1);
  EXPECT_NEAR(got, static_cast<double>(want), 1e-12 * got);
  EXPECT_EQ(got, squaredNorm(runs, pool3));
  EXPECT_EQ(squaredNorm({}, pool1), 0);
  scale(runs, 2, pool3);
  EXPECT_EQ(squaredNorm(runs, pool1), 4 * got);
  fillZero(runs, pool3);
  EXPECT_EQ(squaredNorm(runs, pool1), 0);
}
