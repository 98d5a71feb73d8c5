#include "runtime/backends/host/Adafactor.h"
#include "test/conformance/KernelTest.h"
#include <limits>

using namespace omnibal::rt;

namespace {

/// Matrices of rows and columns behind each other, or, without these, a vector of `elements`.
struct Shape {
  int64_t rows, cols, elements;
  bool factored() const { return rows > 0; }
  int64_t matrices() const { return elements / (rows * cols); }
};

struct Values {
  std::vector<float> param, grad, moment1, moment2;

  Values(const Shape &shape, std::mt19937 &random, float size)
      : param(shape.elements), grad(shape.elements),
        moment1(shape.factored() ? shape.elements / shape.cols : shape.elements),
        moment2(shape.factored() ? shape.elements / shape.rows : 0) {
    std::normal_distribution<float> normal(0, size);
    for (float &value : param)
      value = normal(random);
  }
  UpdatedTensor tensor(const Shape &shape) {
    UpdatedTensor t{param.data(), grad.data(), moment1.data(), moment2.data(), shape.elements};
    t.rows = shape.rows, t.cols = shape.cols;
    return t;
  }
};

/// From the formulas of torch.optim.Adafactor's page, in double precision and element by element.
struct Reference {
  Shape shape;
  std::vector<double> param, variance, rows, cols;

  Reference(const Shape &shape, const Values &start)
      : shape(shape), param(start.param.begin(), start.param.end()), variance(shape.elements),
        rows(start.moment1.size()), cols(start.moment2.size()) {}

  void factor(const std::vector<double> &grad, double keep, double least) {
    for (int64_t m = 0; m < shape.matrices(); ++m) {
      const double *g = &grad[m * shape.rows * shape.cols];
      double mean = 0;
      for (int64_t i = 0; i < shape.rows; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < shape.cols; ++j)
          sum += g[i * shape.cols + j] * g[i * shape.cols + j];
        double &row = rows[m * shape.rows + i];
        row = keep * row + (1 - keep) * sum / static_cast<double>(shape.cols);
        mean += row / static_cast<double>(shape.rows);
      }
      for (int64_t j = 0; j < shape.cols; ++j) {
        double sum = 0;
        for (int64_t i = 0; i < shape.rows; ++i)
          sum += g[i * shape.cols + j] * g[i * shape.cols + j];
        double &col = cols[m * shape.cols + j];
        col = keep * col + (1 - keep) * sum / static_cast<double>(shape.rows);
        for (int64_t i = 0; i < shape.rows; ++i)
          variance[(m * shape.rows + i) * shape.cols + j] =
              rows[m * shape.rows + i] * col / std::max(mean, least);
      }
    }
  }

  static double rms(const std::vector<double> &values) {
    double sum = 0;
    for (double value : values)
      sum += value * value;
    return std::sqrt(sum / static_cast<double>(values.size()));
  }

  void step(const std::vector<float> &scaledGrad, const UpdateOptions &o) {
    std::vector<double> grad(scaledGrad.begin(), scaledGrad.end()), update(grad.size());
    for (double &g : grad)
      g *= o.gradientScale;
    const double t = static_cast<double>(o.step), keep = 1 - std::pow(t, o.beta2Decay);
    if (shape.factored())
      factor(grad, keep, o.epsilon);
    for (size_t i = 0; i < grad.size(); ++i) {
      if (!shape.factored())
        variance[i] = keep * variance[i] + (1 - keep) * grad[i] * grad[i];
      update[i] = grad[i] / std::max(std::sqrt(variance[i]), o.epsilon);
    }
    const UpdateRate &rate = o.rates[0];
    const double alpha =
        std::max(o.epsilon2, rms(param)) * std::min(rate.learningRate, 1 / std::sqrt(t));
    const double clip = std::max(1.0, rms(update) / o.updateClip);
    for (size_t i = 0; i < param.size(); ++i)
      param[i] = param[i] * (1 - rate.learningRate * rate.weightDecay) - alpha / clip * update[i];
  }
};

const std::vector<Shape> shapes = {
    {7, 5, 35},         {1, 9, 9},         {9, 1, 9},      {4, 6, 3 * 24}, {3, 3, 5000 * 9},
    {300, 700, 210000}, {2, 40000, 80000}, {500, 2, 1000}, {0, 0, 1},      {0, 0, 70001}};

UpdateOptions optionsOf(double learningRate) {
  UpdateOptions options;
  options.kind = OptimizerKind::Adafactor;
  options.rates = {{learningRate, 0.05}};
  options.epsilon = std::numeric_limits<float>::epsilon();
  options.gradientScale = 0.25;
  return options;
}

/// Gradients whose sizes differ by row, column and step; some are zero.
void drawGradients(const Shape &shape, std::mt19937 &random, std::vector<float> &grad) {
  std::normal_distribution<float> normal(0, 1);
  const int64_t cols = shape.factored() ? shape.cols : 3;
  for (int64_t i = 0; i < shape.elements; ++i)
    grad[i] =
        i / cols % 5 == 4 ? 0 : normal(random) * std::exp(normal(random) + float(i % cols % 3));
}

void expectNear(const std::vector<float> &got, const std::vector<double> &want, double share) {
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got[i], want[i], share * (std::abs(want[i]) + 0.02)) << i;
}

/// Usual settings, and ones of which each is the other branch of a maximum.
std::vector<UpdateOptions> settings() {
  std::vector<UpdateOptions> list(3, optionsOf(0.01));
  list[1].rates[0].learningRate = 0.8; // from the second step on above 1 / sqrt(t)
  list[1].beta2Decay = -0.4;
  list[1].updateClip = 1.2;
  list[2].epsilon = 0.5;
  list[2].epsilon2 = 3;
  list[2].updateClip = 100;
  return list;
}

} // namespace

TEST(Adafactor, FollowsItsDefinitionOverSteps) {
  ThreadPool pool(2);
  for (const UpdateOptions &setting : settings())
    for (const Shape &shape : shapes) {
      SCOPED_TRACE(std::to_string(shape.rows) + " x " + std::to_string(shape.cols) + " of " +
                   std::to_string(shape.elements));
      std::mt19937 random(5);
      UpdateOptions options = setting;
      Values values(shape, random, 0.02F);
      Reference reference(shape, values);
      for (options.step = 1; options.step <= 4; ++options.step) {
        drawGradients(shape, random, values.grad);
        reference.step(values.grad, options);
        updateAdafactor(values.tensor(shape), options, pool);
      }
      expectNear(values.param, reference.param, 2e-6);
      expectNear(values.moment1, shape.factored() ? reference.rows : reference.variance, 2e-6);
      expectNear(values.moment2, reference.cols, 2e-6);
      EXPECT_EQ(values.grad, std::vector<float>(shape.elements)); // ready for the next step's sums
    }
}

TEST(Adafactor, ThreadsChangeNothingAndCopiesFollow) {
  ThreadPool one(1), three(3);
  for (const Shape &shape : shapes) {
    std::mt19937 random(6);
    Values a(shape, random, 0.02F), b = a;
    std::vector<BFloat16> copy(shape.elements);
    UpdateOptions options = optionsOf(0.01);
    options.zeroGradients = false;
    for (options.step = 1; options.step <= 2; ++options.step) {
      drawGradients(shape, random, a.grad);
      b.grad = a.grad;
      const std::vector<float> before = a.grad;
      UpdatedTensor tensor = a.tensor(shape);
      tensor.copy = copy.data();
      updateAdafactor(tensor, options, one);
      updateAdafactor(b.tensor(shape), options, three);
      EXPECT_EQ(a.grad, before);
    }
    EXPECT_EQ(a.param, b.param);
    EXPECT_EQ(a.moment1, b.moment1);
    EXPECT_EQ(a.moment2, b.moment2);
    for (int64_t i = 0; i < shape.elements; ++i)
      ASSERT_EQ(copy[i].bits, BFloat16::fromFloat(a.param[i]).bits);
  }
}

/// Rows and columns change places, and nothing else: whichever way a matrix lies in memory, its
/// update is the same.
TEST(Adafactor, TransposedMatricesMoveAlike) {
  ThreadPool pool(1);
  const Shape shape{30, 70, 2100}, turned{70, 30, 2100};
  std::mt19937 random(7);
  Values a(shape, random, 0.02F), b(turned, random, 0.02F);
  auto turn = [](const std::vector<float> &from, std::vector<float> &to) {
    for (int64_t i = 0; i < 30; ++i)
      for (int64_t j = 0; j < 70; ++j)
        to[j * 30 + i] = from[i * 70 + j];
  };
  turn(a.param, b.param);
  UpdateOptions options = optionsOf(0.01);
  for (options.step = 1; options.step <= 3; ++options.step) {
    drawGradients(shape, random, a.grad);
    turn(a.grad, b.grad);
    updateAdafactor(a.tensor(shape), options, pool);
    updateAdafactor(b.tensor(turned), options, pool);
  }
  std::vector<float> want(2100);
  turn(a.param, want);
  expectNear(b.param, {want.begin(), want.end()}, 1e-6);
  expectNear(b.moment1, {a.moment2.begin(), a.moment2.end()}, 1e-6);
  expectNear(b.moment2, {a.moment1.begin(), a.moment1.end()}, 1e-6);
}

TEST(Adafactor, NothingHasNoUpdate) {
  ThreadPool pool(1);
  updateAdafactor({}, optionsOf(0.01), pool);
  const Shape shape{4, 6, 24};
  std::mt19937 random(8);
  Values values(shape, random, 0.02F);
  const std::vector<float> start = values.param;
  UpdateOptions options = optionsOf(0.01);
  options.rates[0].weightDecay = 0;
  updateAdafactor(values.tensor(shape), options, pool); // gradients of zero
  EXPECT_EQ(values.param, start);
}
