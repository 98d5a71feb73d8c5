#include "test/conformance/KernelTest.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

Tensor<int32_t> ints(std::vector<int32_t> values) {
  Tensor<int32_t> t({static_cast<int64_t>(values.size())});
  return t.fill([&](int64_t i) { return values[i]; });
}

} // namespace

TEST(Embedding, GathersAndScatters) {
  std::mt19937 random(1);
  for (const std::vector<int> &order : {std::vector<int>{0, 1}, std::vector<int>{1, 0}}) {
    Tensor<float> table = randomTensor(random, {50, 70}, order, 2);
    Tensor<int32_t> ids = ints({3, 49, 3, 0, 3, 17});
    Tensor<float> out({6, 70}), dout = randomTensor(random, {6, 70});
    EXPECT_OK(runKernel("embedding", {{"table", table.view}, {"ids", ids.view}, {"out", out.view}},
                        {}, 2));
    for (int64_t i = 0; i < 6; ++i)
      for (int64_t c = 0; c < 70; ++c)
        ASSERT_EQ(out.at(i, c), table.at(ids[i], c));
    Tensor<float> one = table, three = table;
    Operands operands = {{"dout", dout.view}, {"ids", ids.view}, {"dtable", one.view}};
    EXPECT_OK(runKernel("embedding_backward", operands, {}, 1));
    operands[2].second = three.view;
    EXPECT_OK(runKernel("embedding_backward", operands, {}, 3));
    for (int64_t w = 0; w < 50; ++w)
      for (int64_t c = 0; c < 70; ++c) {
        double want = table.at(w, c);
        for (int64_t i = 0; i < 6; ++i)
          want += ids[i] == w ? dout.at(i, c) : 0;
        ASSERT_NEAR(one.at(w, c), want, 1e-5);
        ASSERT_EQ(one.at(w, c), three.at(w, c));
      }
  }
}

TEST(Embedding, ARowOfPaddingGetsNothing) {
  std::mt19937 random(3);
  Tensor<float> dout = randomTensor(random, {6, 5}), dtable = randomTensor(random, {7, 5});
  Tensor<float> before = dtable;
  Tensor<int32_t> ids = ints({3, 6, 3, 0, 3, 2});
  EXPECT_OK(runKernel("embedding_backward",
                      {{"dout", dout.view}, {"ids", ids.view}, {"dtable", dtable.view}},
                      {{"padding", 3}}, 2));
  for (int64_t w = 0; w < 7; ++w)
    for (int64_t c = 0; c < 5; ++c) {
      float want = before.at(w, c);
      for (int64_t i = 0; i < 6; ++i)
        want += ids[i] == w && w != 3 ? dout.at(i, c) : 0;
      ASSERT_EQ(dtable.at(w, c), want) << w << ", " << c;
    }
}

TEST(Embedding, RejectsIdsOutsideTheTable) {
  Tensor<float> table({5, 2}), out({2, 2});
  Tensor<int32_t> ids = ints({1, 5});
  Status status =
      runKernel("embedding", {{"table", table.view}, {"ids", ids.view}, {"out", out.view}});
  EXPECT_EQ(status.code(), Code::InvalidArgument);
  EXPECT_NE(status.message().find("'ids' has 5 at position 1"), std::string::npos)
      << status.message();
}

TEST(ImageMerge, PicturesReplacePlaceholders) {
  std::mt19937 random(2);
  Tensor<float> text = randomTensor(random, {7, 65}), features = randomTensor(random, {3, 65});
  Tensor<int32_t> rows = ints({-1, 2, 0, -1, -1, 1, -1});
  Tensor<float> out({7, 65});
  EXPECT_OK(runKernel("image_merge",
                      {{"text", text.view},
                       {"features", features.view},
                       {"image_rows", rows.view},
                       {"out", out.view}},
                      {}, 2));
  for (int64_t i = 0; i < 7; ++i)
    for (int64_t c = 0; c < 65; ++c)
      ASSERT_EQ(out.at(i, c), rows[i] < 0 ? text.at(i, c) : features.at(rows[i], c));
}

TEST(ImageMerge, GradientsGoWhereTheRowsCameFrom) {
  std::mt19937 random(3);
  Tensor<float> dout = randomTensor(random, {5, 65}), dtext = randomTensor(random, {5, 65});
  Tensor<float> dfeatures = randomTensor(random, {4, 65}); // row 3: nobody points there
  Tensor<int32_t> rows = ints({-1, 2, 0, -1, 1});
  EXPECT_OK(runKernel("image_merge_backward",
                      {{"dout", dout.view},
                       {"image_rows", rows.view},
                       {"dtext", dtext.view},
                       {"dfeatures", dfeatures.view}},
                      {}, 2));
  for (int64_t c = 0; c < 65; ++c) {
    for (int64_t i = 0; i < 5; ++i)
      ASSERT_EQ(dtext.at(i, c), rows[i] < 0 ? dout.at(i, c) : 0.f);
    ASSERT_EQ(dfeatures.at(0, c), dout.at(2, c));
    ASSERT_EQ(dfeatures.at(1, c), dout.at(4, c));
    ASSERT_EQ(dfeatures.at(2, c), dout.at(1, c));
    ASSERT_EQ(dfeatures.at(3, c), 0.f);
  }
  // In place, and each output alone.
  Tensor<float> both = dout;
  EXPECT_OK(runKernel("image_merge_backward",
                      {{"dout", both.view}, {"image_rows", rows.view}, {"dtext", both.view}}));
  for (int64_t i = 0; i < both.elements(); ++i)
    ASSERT_EQ(both[i], dtext[i]);
  Tensor<float> none({0, 65});
  Tensor<int32_t> words = ints({-1, -1, -1, -1, -1});
  EXPECT_OK(runKernel("image_merge_backward",
                      {{"dout", dout.view}, {"image_rows", words.view}, {"dfeatures", none.view}}));
}

TEST(Rope, TurnsPairsAndItsInverseTurnsBack) {
  std::mt19937 random(4);
  for (bool interleaved : {false, true})
    for (int64_t turned : {40, 24}) {
      Tensor<float> x = randomTensor(random, {5, 3, 40}, {}, 4), out({5, 3, 40});
      Tensor<float> cosine({9, turned}), sine({9, turned});
      // Both halves of a pair turn by the same angle.
      auto angle = [&](int64_t i) {
        int64_t row = i / turned, col = i % turned, half = turned / 2;
        int64_t pair = interleaved ? col / 2 : col % half;
        return double(row) * std::pow(100.0, -double(pair) / double(half));
      };
      cosine.fill([&](int64_t i) { return float(std::cos(angle(i))); });
      sine.fill([&](int64_t i) { return float(std::sin(angle(i))); });
      Tensor<int32_t> positions = ints({0, 8, 3, 3, 1});
      Operands operands = {{"x", x.view},
                           {"positions", positions.view},
                           {"cos", cosine.view},
                           {"sin", sine.view},
                           {"out", out.view}};
      EXPECT_OK(runKernel("rope", operands, {{"interleaved", interleaved}}, 2));
      for (int64_t t = 0; t < 5; ++t)
        for (int64_t h = 0; h < 3; ++h)
          for (int64_t i = 0; i < 40; ++i) {
            double want = x.at(t, h, i);
            if (i < turned) {
              int64_t half = turned / 2;
              bool first = interleaved ? i % 2 == 0 : i < half;
              int64_t partner =
                  interleaved ? (first ? i + 1 : i - 1) : (first ? i + half : i - half);
              double a = angle(positions[t] * turned + i);
              want = want * std::cos(a) + (first ? -1 : 1) * x.at(t, h, partner) * std::sin(a);
            }
            ASSERT_NEAR(out.at(t, h, i), want, 2e-6);
          }
      Tensor<float> back = out; // in place
      operands[0].second = operands[4].second = back.view;
      EXPECT_OK(runKernel("rope", operands, {{"interleaved", interleaved}, {"inverse", true}}));
      for (int64_t i = 0; i < x.elements(); ++i)
        ASSERT_NEAR(back[i], x[i], 2e-6);
    }
}

TEST(Rope, InverseIsTheTransposeForAnyTables) {
  // <rope(x), y> = <x, rope_inverse(y)> also where cos and sin of a pair differ.
  std::mt19937 random(5);
  for (bool interleaved : {false, true}) {
    Tensor<float> x = randomTensor(random, {2, 2, 18}), y = randomTensor(random, {2, 2, 18});
    Tensor<float> cosine = randomTensor(random, {2, 18}), sine = randomTensor(random, {2, 18});
    Tensor<float> rx({2, 2, 18}), ry({2, 2, 18});
    Tensor<int32_t> positions = ints({1, 0});
    Operands operands = {{"x", x.view},
                         {"positions", positions.view},
                         {"cos", cosine.view},
                         {"sin", sine.view},
                         {"out", rx.view}};
    EXPECT_OK(runKernel("rope", operands, {{"interleaved", interleaved}}));
    operands[0].second = y.view, operands[4].second = ry.view;
    EXPECT_OK(runKernel("rope", operands, {{"interleaved", interleaved}, {"inverse", true}}));
    double left = 0, right = 0;
    for (int64_t i = 0; i < x.elements(); ++i) {
      left += double(rx[i]) * y[i];
      right += double(x[i]) * ry[i];
    }
    EXPECT_NEAR(left, right, 1e-4);
  }
}

TEST(Rope, RejectsPositionsOutsideTheTables) {
  Tensor<float> x({1, 1, 4}), c({3, 4}), s({3, 4});
  Tensor<int32_t> positions = ints({3});
  EXPECT_NE(runKernel("rope", {{"x", x.view},
                               {"positions", positions.view},
                               {"cos", c.view},
                               {"sin", s.view},
                               {"out", x.view}})
                .message()
                .find("position 3 of token 0"),
            std::string::npos);
}
