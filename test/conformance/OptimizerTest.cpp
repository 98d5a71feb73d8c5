#include "runtime/backends/host/Optimizer.h"
#include "runtime/backends/host/Orthogonalize.h"
#include "test/conformance/KernelTest.h"

using namespace omnibal::rt;

namespace {

struct Parameters {
  std::vector<std::vector<float>> param, grad, m, v;
  std::vector<UpdatedTensor> tensors() {
    std::vector<UpdatedTensor> list;
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
  UpdateOptions options;
  options.rates = {{3e-3, 0.05}, {3e-3, 0}, {1e-2, 0.2}}, options.beta1 = 0.9, options.beta2 = 0.95;
  options.gradientScale = 0.25, options.zeroGradients = false;
  ThreadPool pool(2);
  for (options.step = 1; options.step <= 4; ++options.step)
    update(p.tensors(), options, pool);
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

TEST(Optimizer, LionFollowsItsDefinitionOverSteps) {
  const std::vector<int64_t> sizes = {1, 0, 17, 40000, 3};
  Parameters p = makeParameters(sizes), start = p;
  p.grad[2][5] = start.grad[2][5] = 0; // the sign of nothing is 0
  UpdateOptions options;
  options.kind = OptimizerKind::Lion;
  options.rates = {{3e-3, 0.05}, {3e-3, 0}, {1e-2, 0.2}}, options.beta1 = 0.9, options.beta2 = 0.98;
  options.gradientScale = 0.25, options.zeroGradients = false;
  ThreadPool pool(2);
  for (options.step = 1; options.step <= 4; ++options.step)
    update(p.tensors(), options, pool);
  for (size_t t = 0; t < sizes.size(); ++t)
    for (int64_t i = 0; i < sizes[t]; ++i) {
      const UpdateRate rate = options.rates[t % 3];
      double x = start.param[t][i], g = 0.25 * start.grad[t][i], m = 0;
      for (int step = 1; step <= 4; ++step) {
        const double blend = 0.9 * m + 0.1 * g;
        x = x * (1 - rate.learningRate * rate.weightDecay) -
            rate.learningRate * ((blend > 0) - (blend < 0));
        m = 0.98 * m + 0.02 * g;
      }
      ASSERT_NEAR(p.param[t][i], x, 2e-6 * (1 + std::abs(x)));
      ASSERT_NEAR(p.m[t][i], m, 1e-6 * (1 + std::abs(m)));
      ASSERT_EQ(p.v[t][i], 0.f); // there is no second moment
    }
}

TEST(Optimizer, SgdFollowsItsDefinitionOverSteps) {
  const std::vector<int64_t> sizes = {1, 0, 17, 40000, 3};
  for (bool nesterov : {false, true}) {
    Parameters p = makeParameters(sizes), start = p;
    UpdateOptions options;
    options.kind = OptimizerKind::Sgd, options.momentum = 0.8, options.nesterov = nesterov;
    options.rates = {{3e-3, 0.05}, {3e-3, 0}, {1e-2, 0.2}};
    options.gradientScale = 0.25, options.zeroGradients = false;
    ThreadPool pool(2);
    for (options.step = 1; options.step <= 4; ++options.step)
      update(p.tensors(), options, pool);
    for (size_t t = 0; t < sizes.size(); ++t)
      for (int64_t i = 0; i < sizes[t]; ++i) {
        const UpdateRate rate = options.rates[t % 3];
        double x = start.param[t][i], m = 0;
        for (int step = 1; step <= 4; ++step) {
          const double g = 0.25 * start.grad[t][i] + rate.weightDecay * x;
          m = 0.8 * m + g;
          x -= rate.learningRate * (nesterov ? g + 0.8 * m : m);
        }
        ASSERT_NEAR(p.param[t][i], x, 2e-6 * (1 + std::abs(x)));
        ASSERT_NEAR(p.m[t][i], m, 2e-6 * (1 + std::abs(m)));
      }
  }
}

/// In double precision, from the formula.
std::vector<double> newtonSchulz(std::vector<double> x, int64_t rows, int64_t cols) {
  if (rows > cols) { // the transpose's transpose
    std::vector<double> turned(x.size());
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j)
        turned[j * rows + i] = x[i * cols + j];
    turned = newtonSchulz(turned, cols, rows);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j)
        x[i * cols + j] = turned[j * rows + i];
    return x;
  }
  double norm = 0;
  for (double value : x)
    norm += value * value;
  for (double &value : x)
    value /= std::max(std::sqrt(norm), 1e-7);
  auto product = [](const std::vector<double> &a, const std::vector<double> &b, int64_t m,
                    int64_t k, int64_t n) {
    std::vector<double> c(m * n);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t l = 0; l < k; ++l)
        for (int64_t j = 0; j < n; ++j)
          c[i * n + j] += a[i * k + l] * b[l * n + j];
    return c;
  };
  for (int step = 0; step < 5; ++step) {
    std::vector<double> turned(x.size());
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j)
        turned[j * rows + i] = x[i * cols + j];
    const auto gram = product(x, turned, rows, cols, rows);
    auto factor = product(gram, gram, rows, rows, rows);
    for (size_t i = 0; i < factor.size(); ++i)
      factor[i] = 2.0315 * factor[i] - 4.7750 * gram[i];
    const auto more = product(factor, x, rows, rows, cols);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = 3.4445 * x[i] + more[i];
  }
  return x;
}

TEST(Optimizer, MatricesAreOrthogonalized) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 3);
  for (auto [rows, cols] : {std::pair<int64_t, int64_t>{1, 1},
                            {1, 40},
                            {33, 1},
                            {24, 24},
                            {17, 90},
                            {130, 48},
                            {64, 300}}) {
    std::vector<float> x(rows * cols);
    for (float &value : x)
      value = normal(random);
    const auto want = newtonSchulz({x.begin(), x.end()}, rows, cols);
    std::vector<float> again = x;
    std::vector<float> scratch(orthogonalizationFloats(rows, cols) - rows * cols);
    ThreadPool one(1), three(3);
    ASSERT_TRUE(orthogonalize(x.data(), rows, cols, scratch, one));
    ASSERT_TRUE(orthogonalize(again.data(), rows, cols, scratch, three));
    EXPECT_EQ(x, again);
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_NEAR(x[i], want[i], 3e-4) << rows << " x " << cols;
    // The singular values of the result are near 1: so is the mean of their squares.
    double squares = 0;
    for (float value : x)
      squares += double(value) * value;
    EXPECT_NEAR(std::sqrt(squares / std::min(rows, cols)), 0.95, 0.3) << rows << " x " << cols;
  }
  std::vector<float> zeros(12), scratch(orthogonalizationFloats(3, 4));
  ThreadPool pool(1);
  ASSERT_TRUE(orthogonalize(zeros.data(), 3, 4, scratch, pool));
  EXPECT_EQ(zeros, std::vector<float>(12));
}

TEST(Optimizer, ThreadsChangeNothingAndGradientsAreCleared) {
  Parameters one = makeParameters({70000, 5, 200000}), three = one;
  ThreadPool pool1(1), pool3(3);
  UpdateOptions options;
  options.rates = {{3e-3, 0.05}, {3e-3, 0}, {1e-2, 0.2}};
  update(one.tensors(), options, pool1);
  update(three.tensors(), options, pool3);
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

TEST(Optimizer, AveragesFollowTheirDefinitionAndChangePlaces) {
  Parameters one = makeParameters({70000, 0, 5, 40001}), three = one;
  auto averaged = [](Parameters &p) {
    std::vector<AveragedTensor> list;
    for (size_t i = 0; i < p.param.size(); ++i)
      list.push_back({p.param[i].data(), p.m[i].data(), static_cast<int64_t>(p.param[i].size())});
    return list;
  };
  for (size_t i = 0; i < one.m.size(); ++i)
    one.m[i] = three.m[i] = one.grad[i];
  const Parameters start = one;
  ThreadPool pool1(1), pool3(3);
  for (int step = 0; step < 3; ++step) {
    average(averaged(one), 0.8, pool1);
    average(averaged(three), 0.8, pool3);
  }
  EXPECT_EQ(one.m, three.m);
  EXPECT_EQ(one.param, start.param);
  for (size_t i = 0; i < one.m.size(); ++i)
    for (size_t j = 0; j < one.m[i].size(); ++j) {
      double want = start.m[i][j];
      for (int step = 0; step < 3; ++step)
        want = 0.8 * want + 0.2 * start.param[i][j];
      ASSERT_NEAR(one.m[i][j], want, 5e-7 * (1 + std::abs(want)));
    }
  exchange(averaged(three), pool3);
  EXPECT_EQ(three.param, one.m);
  EXPECT_EQ(three.m, one.param);
}
