//===- GroupedKernelsTest.cpp - Rows in groups and products with the matrix of each group --===//
#include "test/conformance/KernelTest.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

/// Groups of rows, some of them empty, and what group_rows must make of them.
struct Groups {
  Tensor<int64_t> ids;
  Tensor<int32_t> order, borders;

  Groups(std::mt19937 &random, int64_t rows, int64_t groups, int64_t used)
      : ids({rows}), order({rows}), borders({groups + 1}) {
    std::uniform_int_distribution<int64_t> any(0, used - 1);
    // The last group has rows wherever any has, the others may be empty.
    ids.fill([&](int64_t i) { return i % 7 == 3 ? groups - 1 : any(random); });
    int64_t to = 0;
    for (int64_t g = 0; g < groups; ++g) {
      borders[g] = static_cast<int32_t>(to);
      for (int64_t i = 0; i < rows; ++i)
        if (ids[i] == g)
          order[to++] = static_cast<int32_t>(i);
    }
    borders[groups] = static_cast<int32_t>(to);
  }
};

constexpr double tolerance = 1e-5;

} // namespace

TEST(GroupRows, SortsRowsAndFindsBorders) {
  std::mt19937 random(1);
  for (auto [rows, groups, used] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1},
                                    {5, 9, 2},
                                    {100, 4, 4},
                                    {3000, 128, 17},
                                    {0, 3, 1}}) {
    Groups expected(random, rows, groups, used);
    Tensor<int32_t> narrow({rows}), order({rows}), borders({groups + 1});
    narrow.fill([&](int64_t i) { return static_cast<int32_t>(expected.ids[i]); });
    for (TensorView ids : {expected.ids.view, narrow.view}) {
      order.fill([](int64_t) { return -1; });
      borders.fill([](int64_t) { return -1; });
      EXPECT_OK(runKernel("group_rows",
                          {{"ids", ids}, {"order", order.view}, {"borders", borders.view}}));
      EXPECT_EQ(borders.memory, expected.borders.memory);
      for (int64_t i = 0; i < rows; ++i)
        ASSERT_EQ(order[i], expected.order[i]) << i;
    }
  }
}

TEST(GroupRows, RejectsGroupsOutside) {
  Tensor<int32_t> ids({2}), order({2}), borders({3});
  ids[1] = 2;
  Status status = runKernel("group_rows",
                            {{"ids", ids.view}, {"order", order.view}, {"borders", borders.view}});
  EXPECT_NE(status.message().find("row 1 is of group 2, outside [0, 2)"), std::string::npos)
      << status.message();
}

TEST(GroupedGemm, EachRowTimesTheMatrixOfItsGroup) {
  std::mt19937 random(2);
  for (auto [rows, groups, used, depth, cols] :
       {std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>{1, 1, 1, 1, 1},
        {40, 5, 3, 33, 70},
        {301, 3, 2, 17, 65},
        {7, 64, 64, 400, 20},
        {0, 2, 1, 4, 4}})
    for (bool turned : {false, true})
      for (int64_t repeats : {1, 3}) {
        Groups of(random, rows * repeats, groups, used);
        Tensor<float> a = randomTensor(random, {rows, depth}, {}, 3);
        Tensor<float> b = randomTensor(random, {groups, depth, cols},
                                       turned ? std::vector<int>{0, 2, 1} : std::vector<int>{}, 2);
        Tensor<float> c = randomTensor(random, {rows * repeats, cols}, {}, 5);
        TensorView repeated = a.view;
        if (repeats > 1) {
          repeated.rank = 3;
          for (auto [d, size, stride] :
               {std::tuple<int, int64_t, int64_t>{0, rows, a.view.strides[0]},
                {1, repeats, 0},
                {2, depth, a.view.strides[1]}}) {
            repeated.shape[d] = size;
            repeated.strides[d] = stride;
          }
        }
        EXPECT_OK(runKernel("grouped_gemm",
                            {{"a", repeated},
                             {"b", b.view},
                             {"order", of.order.view},
                             {"borders", of.borders.view},
                             {"c", c.view}},
                            {}, 2));
        for (int64_t r = 0; r < rows * repeats; ++r)
          for (int64_t n = 0; n < cols; ++n) {
            double want = 0;
            for (int64_t k = 0; k < depth; ++k)
              want += double(a.at(r / repeats, k)) * b.at(of.ids[r], k, n);
            ASSERT_NEAR(c.at(r, n), want, tolerance * (1 + depth)) << r << ", " << n;
          }
      }
}

TEST(GroupedGemm, GradientsAreSumsOverTheRowsOfAGroup) {
  std::mt19937 random(3);
  for (auto [rows, groups, used, down, across] :
       {std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>{1, 1, 1, 1, 1},
        {60, 5, 3, 33, 70},
        {700, 3, 2, 17, 65},
        {9, 8, 8, 200, 300},
        {0, 2, 1, 4, 4}})
    for (int64_t repeats : {1, 2}) {
      Groups of(random, rows * repeats, groups, used);
      Tensor<float> a = randomTensor(random, {rows * repeats, down}, {1, 0}, 2);
      Tensor<float> b = randomTensor(random, {rows, across}, {}, 3);
      Tensor<float> c = randomTensor(random, {groups, down, across}), before = c;
      TensorView repeated = b.view;
      if (repeats > 1) {
        repeated.rank = 3;
        for (auto [d, size, stride] :
             {std::tuple<int, int64_t, int64_t>{0, rows, b.view.strides[0]},
              {1, repeats, 0},
              {2, across, b.view.strides[1]}}) {
          repeated.shape[d] = size;
          repeated.strides[d] = stride;
        }
      }
      Operands operands{{"a", a.view},
                        {"b", repeated},
                        {"order", of.order.view},
                        {"borders", of.borders.view},
                        {"c", c.view}};
      EXPECT_OK(runKernel("grouped_gemm_backward", operands, {}, 1));
      Tensor<float> three = before;
      operands.back().second = three.view;
      EXPECT_OK(runKernel("grouped_gemm_backward", operands, {}, 3));
      for (int64_t g = 0; g < groups; ++g)
        for (int64_t m = 0; m < down; ++m)
          for (int64_t n = 0; n < across; ++n) {
            double want = before.at(g, m, n);
            for (int64_t r = 0; r < rows * repeats; ++r)
              want += of.ids[r] == g ? double(a.at(r, m)) * b.at(r / repeats, n) : 0;
            ASSERT_NEAR(c.at(g, m, n), want, tolerance * (1 + rows));
            ASSERT_EQ(c.at(g, m, n), three.at(g, m, n)); // whatever the number of threads
          }
    }
}
