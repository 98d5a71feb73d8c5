#include "test/conformance/KernelTest.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

std::vector<std::vector<int>> permutations(int rank) {
  std::vector<int> order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::vector<int>> list;
  do
    list.push_back(order);
  while (std::next_permutation(order.begin(), order.end()));
  return list;
}

template <typename T> void copyCase(std::vector<int64_t> shape, int threads) {
  for (const auto &from : permutations(static_cast<int>(shape.size())))
    for (const auto &to : permutations(static_cast<int>(shape.size()))) {
      Tensor<T> src(shape, from, 1), dst(shape, to, 2);
      src.fill([](int64_t i) { return static_cast<T>(i % 251); });
      EXPECT_OK(runKernel("copy", {{"src", src.view}, {"dst", dst.view}}, {}, threads));
      for (int64_t i = 0; i < dst.elements(); ++i)
        ASSERT_EQ(dst[i], static_cast<T>(i % 251));
      if constexpr (!std::is_same_v<T, uint8_t>) {
        EXPECT_OK(runKernel("copy", {{"src", src.view}, {"dst", dst.view}}, {{"accumulate", true}},
                            threads));
        for (int64_t i = 0; i < dst.elements(); ++i)
          ASSERT_EQ(dst[i], static_cast<T>(2 * (i % 251)));
      }
    }
}

} // namespace

TEST(Copy, EveryOrderOfDimensions) {
  copyCase<float>({3, 5, 4, 2}, 1);
  copyCase<float>({37, 50}, 2);
  copyCase<float>({20, 3, 33}, 3);
  copyCase<int32_t>({9, 20}, 1);
  copyCase<int64_t>({2, 9, 20}, 1);
  copyCase<double>({17, 1, 20}, 1);
  copyCase<uint8_t>({40, 18}, 2);
  copyCase<float>({0, 4}, 1);
  copyCase<float>({1}, 1);
  copyCase<float>({100000}, 3);
  copyCase<float>({300, 400}, 2);
}

TEST(Copy, KeepsWhatLiesBetween) {
  Tensor<float> src({4, 6}), dst({4, 6}, {}, 3);
  std::fill(dst.memory.begin(), dst.memory.end(), 7.f);
  EXPECT_OK(runKernel("copy", {{"src", src.view}, {"dst", dst.view}}));
  for (int64_t row = 0; row < 4; ++row)
    for (int64_t gap = 0; gap < 3; ++gap)
      EXPECT_EQ(dst.memory[row * 9 + 6 + gap], 7.f);
}

TEST(Copy, Broadcasts) {
  Tensor<float> src({1, 5}), dst({3, 5});
  src.fill([](int64_t i) { return float(i); });
  TensorView wide = src.view;
  wide.shape[0] = 3;
  wide.strides[0] = 0;
  EXPECT_OK(runKernel("copy", {{"src", wide}, {"dst", dst.view}}));
  for (int64_t i = 0; i < 15; ++i)
    EXPECT_EQ(dst[i], float(i % 5));
}

TEST(Fill, WritesOnlyTheView) {
  Tensor<float> dst({5, 3}, {1, 0}, 2);
  std::fill(dst.memory.begin(), dst.memory.end(), -1.f);
  EXPECT_OK(runKernel("fill", {{"dst", dst.view}}, {{"value", 2.5}}));
  EXPECT_EQ(std::count(dst.memory.begin(), dst.memory.end(), 2.5f), 15);
  Tensor<int64_t> ints({3});
  EXPECT_OK(runKernel("fill", {{"dst", ints.view}}, {{"value", -4}}));
  EXPECT_EQ(ints[2], -4);
}

namespace {

void reduceCase(std::vector<int64_t> shape, std::vector<int> reduced, std::vector<int> order,
                const std::string &kind, bool accumulate, int seed) {
  std::mt19937 random(seed);
  Tensor<float> src = randomTensor(random, shape, order, 1);
  std::vector<int64_t> kept = shape;
  for (int d : reduced)
    kept[d] = 1;
  Tensor<float> dst = randomTensor(random, kept, {}, 0);
  TensorView view = dst.view;
  for (int d : reduced) {
    view.shape[d] = shape[d];
    view.strides[d] = 0;
  }
  const int64_t results = dst.elements();
  std::vector<double> want(results, kind == "prod"  ? 1
                                    : kind == "max" ? -INFINITY
                                    : kind == "min" ? INFINITY
                                                    : 0);
  int64_t terms = results ? src.elements() / results : 0;
  std::vector<int64_t> index(shape.size());
  for (int64_t i = 0; i < src.elements(); ++i) {
    int64_t rest = i, at = 0;
    for (int d = static_cast<int>(shape.size()) - 1; d >= 0; --d) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    for (size_t d = 0; d < shape.size(); ++d)
      at = at * kept[d] + (kept[d] == 1 ? 0 : index[d]);
    double x = src[i], &w = want[at];
    w = kind == "prod"  ? w * x
        : kind == "max" ? std::max(w, x)
        : kind == "min" ? std::min(w, x)
                        : w + x;
  }
  for (int64_t i = 0; i < results; ++i) {
    if (kind == "mean")
      want[i] = terms ? want[i] / double(terms) : 0;
    want[i] = accumulate ? (terms ? want[i] : 0) + dst[i] : want[i];
  }
  Tensor<float> one = dst, three = dst;
  nlohmann::json attributes = {{"kind", kind}, {"accumulate", accumulate}};
  view.data = one.view.data;
  EXPECT_OK(runKernel("reduce", {{"src", src.view}, {"dst", view}}, attributes, 1));
  view.data = three.view.data;
  EXPECT_OK(runKernel("reduce", {{"src", src.view}, {"dst", view}}, attributes, 3));
  for (int64_t i = 0; i < results; ++i) {
    ASSERT_EQ(one[i], three[i]);
    if (std::isinf(want[i]))
      ASSERT_EQ(one[i], want[i]);
    else
      ASSERT_NEAR(one[i], want[i], 1e-6 * (std::sqrt(double(terms)) + std::abs(want[i]))) << kind;
  }
}

} // namespace

TEST(Reduce, AnyDimensionsOfAnyLayout) {
  int seed = 0;
  for (const char *kind : {"sum", "mean", "max", "min", "prod"})
    for (bool accumulate : {false, true})
      for (const auto &order : permutations(3))
        for (const std::vector<int> &reduced :
             std::vector<std::vector<int>>{{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}})
          reduceCase({4, 19, 6}, reduced, order, kind, accumulate, ++seed);
}

TEST(Reduce, LongRowsAndColumns) {
  reduceCase({3000, 130}, {0}, {}, "sum", true, 1);
  reduceCase({130, 3000}, {1}, {}, "sum", false, 2);
  reduceCase({100001}, {0}, {}, "sum", false, 3);
  reduceCase({7, 2, 1000}, {0, 2}, {}, "mean", false, 4);
}

TEST(Reduce, NothingGivesTheNeutralElement) {
  reduceCase({0, 5}, {0}, {}, "sum", false, 1);
  reduceCase({0, 5}, {0}, {}, "sum", true, 2);
  reduceCase({0, 5}, {0}, {}, "max", false, 3);
  reduceCase({5, 0}, {0}, {}, "sum", false, 4);
}

TEST(Reduce, ExtremesKeepNaN) {
  Tensor<float> src({40}), dst({1});
  src.fill([](int64_t i) { return i == 20 ? NAN : float(i); });
  TensorView view = dst.view;
  view.shape[0] = 40;
  view.strides[0] = 0;
  EXPECT_OK(runKernel("reduce", {{"src", src.view}, {"dst", view}}, {{"kind", "max"}}));
  EXPECT_TRUE(std::isnan(dst[0]));
}
