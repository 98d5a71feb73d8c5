#include "test/conformance/KernelTest.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

template <typename T> Tensor<T> list(std::vector<int64_t> shape, std::vector<T> values) {
  Tensor<T> t(std::move(shape));
  return t.fill([&](int64_t i) { return values[i]; });
}

template <typename T> std::vector<T> valuesOf(Tensor<T> &t) {
  std::vector<T> v;
  for (int64_t i = 0; i < t.elements(); ++i)
    v.push_back(t[i]);
  return v;
}

template <typename T, typename R = T>
std::vector<R> binary(const std::string &kernel, Tensor<T> a, Tensor<T> b,
                      std::vector<int64_t> shape,
                      nlohmann::json attributes = nlohmann::json::object()) {
  Tensor<R> result(shape);
  EXPECT_OK(runKernel(kernel, {{"lhs", a.view}, {"rhs", b.view}, {"result", result.view}},
                      attributes, 2));
  return valuesOf(result);
}

} // namespace

TEST(Plain, UnaryFunctions) {
  struct Case {
    const char *name;
    double (*f)(double);
  };
  const Case cases[] = {
      {"neg", [](double x) { return -x; }},
      {"exp", [](double x) { return std::exp(x); }},
      {"erf", [](double x) { return std::erf(x); }},
      {"tanh", [](double x) { return std::tanh(x); }},
      {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"cos", [](double x) { return std::cos(x); }},
      {"sin", [](double x) { return std::sin(x); }},
      {"abs", [](double x) { return std::abs(x); }},
      {"floor", [](double x) { return std::floor(x); }},
      {"relu", [](double x) { return std::max(x, 0.0); }},
      {"reciprocal", [](double x) { return 1 / x; }},
      {"silu", [](double x) { return x / (1 + std::exp(-x)); }},
      {"quick_gelu", [](double x) { return x / (1 + std::exp(-1.702 * x)); }},
      {"gelu", [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2))); }}};
  std::mt19937 random(1);
  for (const Case &test : cases) {
    Tensor<float> x = randomTensor(random, {40, 301}, {1, 0}, 1, 2), y({40, 301});
    EXPECT_OK(runKernel(test.name, {{"operand", x.view}, {"result", y.view}}, {}, 3));
    for (int64_t i = 0; i < x.elements(); ++i)
      ASSERT_NEAR(y[i], test.f(x[i]), 1e-6 * (1 + std::abs(test.f(x[i])))) << test.name;
  }
  for (const Case &test : {Case{"log", [](double x) { return std::log(x); }},
                           {"sqrt", [](double x) { return std::sqrt(x); }},
                           {"rsqrt", [](double x) { return 1 / std::sqrt(x); }}}) {
    Tensor<float> x = list<float>({4}, {0.25f, 1, 2, 9}), y({4});
    EXPECT_OK(runKernel(test.name, {{"operand", x.view}, {"result", y.view}}));
    for (int64_t i = 0; i < 4; ++i)
      EXPECT_NEAR(y[i], test.f(x[i]), 1e-6) << test.name;
  }
}

TEST(Plain, DerivativesOfActivationsMatchFiniteDifferences) {
  std::mt19937 random(2);
  for (const char *name : {"silu", "quick_gelu", "gelu"})
    for (bool tanh : {false, true}) {
      nlohmann::json attributes = nlohmann::json::object();
      if (std::string(name) == "gelu" && tanh)
        attributes["tanh"] = true;
      else if (tanh)
        continue;
      Tensor<double> x({50}), up({50}), down({50}), dy({50}), dx({50}), yUp({50}), yDown({50});
      std::normal_distribution<double> normal(0, 2);
      for (int64_t i = 0; i < 50; ++i) {
        x[i] = normal(random), dy[i] = normal(random);
        up[i] = x[i] + 1e-6, down[i] = x[i] - 1e-6;
      }
      EXPECT_OK(runKernel(name, {{"operand", up.view}, {"result", yUp.view}}, attributes));
      EXPECT_OK(runKernel(name, {{"operand", down.view}, {"result", yDown.view}}, attributes));
      EXPECT_OK(runKernel(std::string(name) + "_grad",
                          {{"operand", x.view}, {"grad", dy.view}, {"result", dx.view}},
                          attributes));
      for (int64_t i = 0; i < 50; ++i)
        ASSERT_NEAR(dx[i], dy[i] * (yUp[i] - yDown[i]) / 2e-6, 1e-7) << name;
    }
}

TEST(Plain, BinaryFunctionsBroadcast) {
  auto a = list<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  auto b = list<float>({3}, {10, 20, 30}), c = list<float>({2, 1}, {2, 3});
  EXPECT_EQ(binary("add", a, b, {2, 3}), (std::vector<float>{11, 22, 33, 14, 25, 36}));
  EXPECT_EQ(binary("sub", a, c, {2, 3}), (std::vector<float>{-1, 0, 1, 1, 2, 3}));
  EXPECT_EQ(binary("mul", c, b, {2, 3}), (std::vector<float>{20, 40, 60, 30, 60, 90}));
  EXPECT_EQ(binary("pow", a, c, {2, 3}), (std::vector<float>{1, 4, 9, 64, 125, 216}));
  EXPECT_EQ(binary("max", a, c, {2, 3}), (std::vector<float>{2, 2, 3, 4, 5, 6}));
  EXPECT_EQ(binary("min", a, c, {2, 3}), (std::vector<float>{1, 2, 2, 3, 3, 3}));
  Tensor<float> result({2, 3});
  EXPECT_NE(
      runKernel("add",
                {{"lhs", a.view}, {"rhs", list<float>({2}, {1, 2}).view}, {"result", result.view}})
          .message()
          .find("[2] does not broadcast to [2, 3]"),
      std::string::npos);
}

TEST(Plain, IntegersStayIntegers) {
  auto a = list<int64_t>({6}, {7, -7, 7, -7, INT64_MIN, (int64_t{1} << 60) + 1});
  auto b = list<int64_t>({6}, {2, 2, -2, 0, -1, 1});
  EXPECT_EQ(binary("div", a, b, {6}),
            (std::vector<int64_t>{3, -3, -3, 0, INT64_MIN, (int64_t{1} << 60) + 1}));
  EXPECT_EQ(binary("mod", a, b, {6}), (std::vector<int64_t>{1, 1, -1, 0, 0, 0}));
  EXPECT_EQ(binary("mod", a, b, {6}, {{"fmod", true}}), (std::vector<int64_t>{1, -1, 1, 0, 0, 0}));
  EXPECT_EQ(binary("pow", list<int64_t>({3}, {3, -2, 10}), list<int64_t>({3}, {4, 3, 0}), {3}),
            (std::vector<int64_t>{81, -8, 1}));
  EXPECT_EQ((binary<float, float>("mod", list<float>({3}, {5.5f, -5.5f, 5.5f}),
                                  list<float>({3}, {2, 2, -2}), {3})),
            (std::vector<float>{1.5f, 0.5f, -0.5f}));
}

TEST(Plain, LogicComparisonSelectCast) {
  auto a = list<float>({4}, {1, 2, 3, NAN}), b = list<float>({4}, {2, 2, 2, 2});
  auto compare = [&](const char *predicate) {
    return binary<float, uint8_t>("compare", a, b, {4}, {{"predicate", predicate}});
  };
  EXPECT_EQ(compare("eq"), (std::vector<uint8_t>{0, 1, 0, 0}));
  EXPECT_EQ(compare("lt"), (std::vector<uint8_t>{1, 0, 0, 0}));
  EXPECT_EQ(compare("le"), (std::vector<uint8_t>{1, 1, 0, 0}));
  EXPECT_EQ(compare("gt"), (std::vector<uint8_t>{0, 0, 1, 0}));
  EXPECT_EQ(compare("ge"), (std::vector<uint8_t>{0, 1, 1, 0}));
  auto p = list<uint8_t>({4}, {0, 0, 1, 1}), q = list<uint8_t>({4}, {0, 1, 0, 1});
  EXPECT_EQ(binary("and", p, q, {4}), (std::vector<uint8_t>{0, 0, 0, 1}));
  EXPECT_EQ(binary("or", p, q, {4}), (std::vector<uint8_t>{0, 1, 1, 1}));
  EXPECT_EQ(binary("xor", p, q, {4}), (std::vector<uint8_t>{0, 1, 1, 0}));
  Tensor<uint8_t> inverted({4}), nan({4});
  EXPECT_OK(runKernel("not", {{"operand", p.view}, {"result", inverted.view}}));
  EXPECT_EQ(valuesOf(inverted), (std::vector<uint8_t>{1, 1, 0, 0}));
  EXPECT_OK(runKernel("is_nan", {{"operand", a.view}, {"result", nan.view}}));
  EXPECT_EQ(valuesOf(nan), (std::vector<uint8_t>{0, 0, 0, 1}));
  Tensor<float> chosen({4});
  EXPECT_OK(runKernel("select", {{"condition", q.view},
                                 {"onTrue", b.view},
                                 {"onFalse", list<float>({1}, {-1}).view},
                                 {"result", chosen.view}}));
  EXPECT_EQ(valuesOf(chosen), (std::vector<float>{-1, 2, -1, 2}));

  auto x = list<float>({4}, {1.9f, -1.9f, 0, 3e9f});
  Tensor<int32_t> ints({4});
  Tensor<uint8_t> bools({4});
  EXPECT_OK(runKernel("cast", {{"operand", x.view}, {"result", ints.view}}));
  EXPECT_EQ(valuesOf(ints), (std::vector<int32_t>{1, -1, 0, INT32_MAX}));
  EXPECT_OK(runKernel("cast", {{"operand", x.view}, {"result", bools.view}}));
  EXPECT_EQ(valuesOf(bools), (std::vector<uint8_t>{1, 1, 0, 1}));
  auto big = list<int64_t>({1}, {(int64_t{1} << 62) + 1});
  Tensor<int64_t> same({1});
  EXPECT_OK(runKernel("cast", {{"operand", big.view}, {"result", same.view}}));
  EXPECT_EQ(same[0], (int64_t{1} << 62) + 1);
}

TEST(Plain, Gathers) {
  auto data = list<float>({3, 2}, {0, 1, 10, 11, 20, 21});
  auto indices = list<int64_t>({2, 2}, {0, -1, 2, 1});
  Tensor<float> rows({2, 2, 2}), cols({3, 2, 2});
  Operands operands = {{"input", data.view}, {"indices", indices.view}, {"result", rows.view}};
  EXPECT_OK(runKernel("gather", operands, {{"axis", 0}}));
  EXPECT_EQ(valuesOf(rows), (std::vector<float>{0, 1, 20, 21, 20, 21, 10, 11}));
  auto two = list<int64_t>({2, 2}, {0, -1, 1, 0});
  operands = {{"input", data.view}, {"indices", two.view}, {"result", cols.view}};
  EXPECT_OK(runKernel("gather", operands, {{"axis", -1}}));
  EXPECT_EQ(valuesOf(cols), (std::vector<float>{0, 1, 1, 0, 10, 11, 11, 10, 20, 21, 21, 20}));

  auto pairs = list<int64_t>({2, 2}, {0, 1, -1, 0});
  Tensor<float> points({2}), slices({1, 2});
  EXPECT_OK(runKernel("gather_nd",
                      {{"input", data.view}, {"indices", pairs.view}, {"result", points.view}}));
  EXPECT_EQ(valuesOf(points), (std::vector<float>{1, 20}));
  EXPECT_OK(runKernel("gather_nd", {{"input", data.view},
                                    {"indices", list<int64_t>({1, 1}, {1}).view},
                                    {"result", slices.view}}));
  EXPECT_EQ(valuesOf(slices), (std::vector<float>{10, 11}));
  // One batch dimension: row b takes element indices[b].
  Tensor<float> batched({3});
  EXPECT_OK(runKernel("gather_nd",
                      {{"input", data.view},
                       {"indices", list<int64_t>({3, 1}, {1, 0, 1}).view},
                       {"result", batched.view}},
                      {{"batch_dims", 1}}));
  EXPECT_EQ(valuesOf(batched), (std::vector<float>{1, 10, 21}));

  Tensor<float> elements({2, 2});
  EXPECT_OK(runKernel("gather_elements",
                      {{"input", data.view}, {"indices", indices.view}, {"result", elements.view}},
                      {{"axis", 0}}));
  EXPECT_EQ(valuesOf(elements), (std::vector<float>{0, 21, 20, 11}));
}

TEST(Plain, PlacesOfTheLargestValues) {
  auto lines = list<float>({2, 5}, {1, 4, 4, -2, 3, 0, 0, NAN, 5, -INFINITY});
  auto largest = [&](int64_t k, bool smallest) {
    Tensor<int64_t> places({2, k});
    nlohmann::json attributes = {{"k", k}};
    if (smallest)
      attributes["smallest"] = true;
    EXPECT_OK(runKernel("top_k", {{"input", lines.view}, {"result", places.view}}, attributes));
    return valuesOf(places);
  };
  // Of equal values the first; what is no number comes before all numbers.
  EXPECT_EQ(largest(3, false), (std::vector<int64_t>{1, 2, 4, 2, 3, 0}));
  EXPECT_EQ(largest(2, true), (std::vector<int64_t>{3, 0, 2, 4}));
  EXPECT_EQ(largest(5, false), (std::vector<int64_t>{1, 2, 4, 0, 3, 2, 3, 0, 1, 4}));
}

TEST(Plain, RejectsIndicesOutside) {
  auto data = list<float>({3, 2}, {0, 1, 10, 11, 20, 21});
  auto indices = list<int64_t>({2}, {5, 0});
  Tensor<float> result({3, 2});
  EXPECT_NE(runKernel("gather",
                      {{"input", data.view}, {"indices", indices.view}, {"result", result.view}},
                      {{"axis", 1}})
                .message()
                .find("index 5 is outside"),
            std::string::npos);
}

TEST(Plain, Scatters) {
  auto data = list<float>({4}, {1, 2, 3, 4});
  auto indices = list<int64_t>({3, 1}, {1, -1, 1});
  auto updates = list<float>({3}, {10, 20, 30});
  auto scatter = [&](const char *reduction) {
    Tensor<float> result({4});
    EXPECT_OK(runKernel("scatter_nd",
                        {{"input", data.view},
                         {"indices", indices.view},
                         {"updates", updates.view},
                         {"result", result.view}},
                        {{"reduction", reduction}}));
    return valuesOf(result);
  };
  EXPECT_EQ(scatter("none"), (std::vector<float>{1, 30, 3, 20}));
  EXPECT_EQ(scatter("add"), (std::vector<float>{1, 42, 3, 24}));
  EXPECT_EQ(scatter("mul"), (std::vector<float>{1, 600, 3, 80}));
  EXPECT_EQ(scatter("max"), (std::vector<float>{1, 30, 3, 20}));
  EXPECT_EQ(scatter("min"), (std::vector<float>{1, 2, 3, 4}));

  auto grid = list<float>({2, 3}, {0, 0, 0, 0, 0, 0});
  Tensor<float> result({2, 3});
  EXPECT_OK(runKernel("scatter_elements",
                      {{"input", grid.view},
                       {"indices", list<int64_t>({2, 2}, {2, 0, 1, 1}).view},
                       {"updates", list<float>({2, 2}, {1, 2, 3, 4}).view},
                       {"result", result.view}},
                      {{"axis", 1}, {"reduction", "add"}}));
  EXPECT_EQ(valuesOf(result), (std::vector<float>{2, 0, 1, 0, 7, 0}));
}

TEST(Plain, TrianglesRangesRunningSums) {
  auto data = list<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  Tensor<float> result({2, 3});
  EXPECT_OK(runKernel("trilu", {{"input", data.view}, {"result", result.view}}, {{"upper", true}}));
  EXPECT_EQ(valuesOf(result), (std::vector<float>{1, 2, 3, 0, 5, 6}));
  EXPECT_OK(runKernel(
      "trilu", {{"input", data.view}, {"k", list<int64_t>({1}, {1}).view}, {"result", result.view}},
      {{"upper", false}}));
  EXPECT_EQ(valuesOf(result), (std::vector<float>{1, 2, 0, 4, 5, 6}));
  Tensor<int64_t> steps({3});
  EXPECT_OK(runKernel("range", {{"start", list<int64_t>({1}, {5}).view},
                                {"limit", list<int64_t>({1}, {-1}).view},
                                {"delta", list<int64_t>({1}, {-2}).view},
                                {"result", steps.view}}));
  EXPECT_EQ(valuesOf(steps), (std::vector<int64_t>{5, 3, 1}));
  auto sums = [&](nlohmann::json attributes) {
    EXPECT_OK(runKernel("cumsum", {{"input", data.view}, {"result", result.view}}, attributes));
    return valuesOf(result);
  };
  EXPECT_EQ(sums({{"axis", 1}}), (std::vector<float>{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(sums({{"axis", 0}}), (std::vector<float>{1, 2, 3, 5, 7, 9}));
  EXPECT_EQ(sums({{"axis", -1}, {"exclusive", true}}), (std::vector<float>{0, 1, 3, 0, 4, 9}));
  EXPECT_EQ(sums({{"axis", 1}, {"reverse", true}}), (std::vector<float>{6, 5, 3, 15, 11, 6}));
}

TEST(Plain, SoftmaxAndNormsAlongAnAxis) {
  std::mt19937 random(4);
  Tensor<float> x = randomTensor(random, {3, 5, 4}), y({3, 5, 4}), z({3, 5, 4});
  EXPECT_OK(runKernel("softmax", {{"input", x.view}, {"result", y.view}}, {{"axis", 1}}, 2));
  EXPECT_OK(runKernel("log_softmax", {{"input", x.view}, {"result", z.view}}, {{"axis", -2}}, 2));
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 4; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < 5; ++k)
        sum += std::exp(double(x.at(i, k, j)));
      for (int64_t k = 0; k < 5; ++k) {
        ASSERT_NEAR(y.at(i, k, j), std::exp(double(x.at(i, k, j))) / sum, 1e-6);
        ASSERT_NEAR(z.at(i, k, j), x.at(i, k, j) - std::log(sum), 1e-6);
      }
    }
  Tensor<float> scale = randomTensor(random, {5, 4}), bias = randomTensor(random, {4});
  EXPECT_OK(
      runKernel("layer_norm",
                {{"input", x.view}, {"scale", scale.view}, {"bias", bias.view}, {"result", y.view}},
                {{"axis", 1}, {"epsilon", 1e-3}}, 2));
  EXPECT_OK(runKernel("rms_norm", {{"input", x.view}, {"scale", bias.view}, {"result", z.view}},
                      {{"axis", 2}, {"epsilon", 1e-3}}, 2));
  for (int64_t i = 0; i < 3; ++i) {
    double mean = 0, square = 0;
    for (int64_t k = 0; k < 20; ++k)
      mean += x[i * 20 + k] / 20.0;
    for (int64_t k = 0; k < 20; ++k)
      square += (x[i * 20 + k] - mean) * (x[i * 20 + k] - mean) / 20;
    for (int64_t k = 0; k < 20; ++k)
      ASSERT_NEAR(y[i * 20 + k],
                  (x[i * 20 + k] - mean) / std::sqrt(square + 1e-3) * scale[k] + bias[k % 4], 1e-5);
  }
  for (int64_t i = 0; i < 15; ++i) {
    double square = 0;
    for (int64_t k = 0; k < 4; ++k)
      square += double(x[i * 4 + k]) * x[i * 4 + k] / 4;
    for (int64_t k = 0; k < 4; ++k)
      ASSERT_NEAR(z[i * 4 + k], x[i * 4 + k] / std::sqrt(square + 1e-3) * bias[k], 1e-5);
  }
}

TEST(Plain, ConvolutionByItsDefinition) {
  // 2-D with everything: groups, strides, unequal pads, dilation. Written as a scatter of inputs.
  std::mt19937 random(5);
  const int64_t n = 2, c = 4, o = 6, h = 7, w = 6, kh = 3, kw = 2, group = 2;
  const int64_t sh = 2, sw = 1, dh = 1, dw = 2, top = 1, left = 0, bottom = 2, right = 1;
  const int64_t oh = (h + top + bottom - dh * (kh - 1) - 1) / sh + 1;
  const int64_t ow = (w + left + right - dw * (kw - 1) - 1) / sw + 1;
  Tensor<float> x = randomTensor(random, {n, c, h, w}),
                f = randomTensor(random, {o, c / group, kh, kw}), bias = randomTensor(random, {o}),
                y({n, o, oh, ow});
  nlohmann::json attributes = {{"strides", {sh, sw}},
                               {"pads", {top, left, bottom, right}},
                               {"dilations", {dh, dw}},
                               {"group", group}};
  std::vector<double> want(y.elements());
  for (int64_t i = 0; i < y.elements(); ++i)
    want[i] = bias[i / (oh * ow) % o];
  for (int64_t b = 0; b < n; ++b)
    for (int64_t ci = 0; ci < c; ++ci)
      for (int64_t i = 0; i < h; ++i)
        for (int64_t j = 0; j < w; ++j)
          for (int64_t co = ci / 2 * 3; co < ci / 2 * 3 + 3; ++co)
            for (int64_t p = 0; p < kh; ++p)
              for (int64_t q = 0; q < kw; ++q) {
                int64_t u = i + top - p * dh, v = j + left - q * dw;
                if (u < 0 || v < 0 || u % sh || v % sw || u / sh >= oh || v / sw >= ow)
                  continue;
                want[((b * o + co) * oh + u / sh) * ow + v / sw] +=
                    double(x.at(b, ci, i, j)) * f.at(co, ci % 2, p, q);
              }
  EXPECT_OK(runKernel(
      "conv", {{"input", x.view}, {"weight", f.view}, {"bias", bias.view}, {"result", y.view}},
      attributes, 2));
  expectNear(y, want, 1e-5, 1e-5, "conv");

  // The gradients are the transposes of the same bilinear map: <conv(x, f), g> in three ways.
  Tensor<float> g = randomTensor(random, {n, o, oh, ow}), plain({n, o, oh, ow});
  Tensor<float> dx({n, c, h, w}), df({o, c / group, kh, kw});
  EXPECT_OK(runKernel("conv", {{"input", x.view}, {"weight", f.view}, {"result", plain.view}},
                      attributes));
  EXPECT_OK(runKernel("conv_input_grad",
                      {{"grad", g.view}, {"weight", f.view}, {"result", dx.view}}, attributes, 2));
  EXPECT_OK(runKernel("conv_weight_grad",
                      {{"input", x.view}, {"grad", g.view}, {"result", df.view}}, attributes, 2));
  auto dot = [](Tensor<float> &a, Tensor<float> &b) {
    double sum = 0;
    for (int64_t i = 0; i < a.elements(); ++i)
      sum += double(a[i]) * b[i];
    return sum;
  };
  EXPECT_NEAR(dot(plain, g), dot(x, dx), 1e-3);
  EXPECT_NEAR(dot(plain, g), dot(f, df), 1e-3);
}

TEST(Plain, ConvolutionInOneDimension) {
  auto x = list<float>({1, 1, 5}, {1, 2, 3, 4, 5}), f = list<float>({1, 1, 3}, {1, 0, -1});
  Tensor<float> y({1, 1, 5});
  EXPECT_OK(runKernel("conv", {{"input", x.view}, {"weight", f.view}, {"result", y.view}},
                      {{"strides", {1}}, {"pads", {1, 1}}, {"dilations", {1}}, {"group", 1}}));
  EXPECT_EQ(valuesOf(y), (std::vector<float>{-2, -2, -2, -2, 4}));
}
