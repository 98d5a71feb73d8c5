#include "runtime/backends/cuda/kernels/Rows.h"
#include "runtime/backends/cuda/kernels/Order.h"
#include "runtime/backends/cuda/kernels/Rope.h"
#include "test/unit/runtime/backends/cuda/kernels/KernelChecks.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

cuda::RowStrides rowsOf(const TensorView &v) { return {v.strides[0], v.strides[1]}; }
cuda::HeadStrides headsOf(const TensorView &v) {
  return {v.strides[0], v.strides[1], v.strides[2]};
}

Tensor<int32_t> randomIds(std::mt19937 &random, int64_t n, int32_t low, int32_t high) {
  Tensor<int32_t> ids({n});
  return ids.fill([&](int64_t) {
    // Small numbers more often: some rows meet many times.
    int32_t x = low + static_cast<int32_t>(random() % (high - low));
    return random() % 2 ? x : low + static_cast<int32_t>(random() % std::min(high - low, 3));
  });
}

struct Layout {
  std::vector<int> order;
  int64_t gap;
};

} // namespace

TEST(CudaRows, EmbeddingAndItsGradientLikeTheHost) {
  std::mt19937 random(1);
  for (auto [rows, words, cols] : std::vector<std::array<int64_t, 3>>{{0, 5, 8},
                                                                      {1, 1, 1},
                                                                      {100, 9, 32},
                                                                      {300, 40, 200},
                                                                      {77, 1000, 13},
                                                                      {33, 3, 8},
                                                                      {34, 1, 8},
                                                                      {2600, 5, 9}})
    for (bool bf16 : {false, true})
      for (const Layout &layout : {Layout{{0, 1}, 0}, Layout{{0, 1}, 3}, Layout{{1, 0}, 1}}) {
        Tensor<float> table = randomTensor(random, {words, cols}, layout.order, layout.gap),
                      out = randomTensor(random, {rows, cols}, {}, layout.gap),
                      dout = randomTensor(random, {rows, cols}, {}, layout.gap),
                      dtable = randomTensor(random, {words, cols}, layout.order, layout.gap);
        if (bf16)
          roundAll(table), roundAll(dout);
        Tensor<int32_t> ids = randomIds(random, rows, 0, static_cast<int32_t>(words));
        Stored tableStored(table.memory, bf16), outStored(out.memory, bf16),
            doutStored(dout.memory, bf16), dtableStored(dtable.memory, false);
        EXPECT_OK(
            runKernel("embedding", {{"table", table.view}, {"ids", ids.view}, {"out", out.view}}));
        cuda::SelectShape s{rows,
                            cols,
                            rowsOf(out.view),
                            rowsOf(table.view),
                            {},
                            outStored.type(),
                            tableStored.type()};
        const int32_t *index = ids.memory.data();
        runInSeveralOrders({outStored.bytes()}, [&] {
          return cuda::launchSelectRows(s, index, tableStored.data(), nullptr, outStored.data(),
                                        nullptr);
        });
        expectMemoryNear(outStored, out.memory, 0, 0, "embedding");

        const int32_t left = bf16 && rows > 0 ? ids[rows / 2] : -1;
        EXPECT_OK(runKernel("embedding_backward",
                            {{"dout", dout.view}, {"ids", ids.view}, {"dtable", dtable.view}},
                            {{"padding", left}}));
        std::vector<int32_t> order(2 * rows, -1);
        runInSeveralOrders({bytesOf(order)},
                           [&] { return cuda::launchOrder(rows, index, order.data(), nullptr); });
        for (int64_t i = 1; i < rows; ++i)
          ASSERT_LT(std::pair(index[order[i - 1]], order[i - 1]),
                    std::pair(index[order[i]], order[i]));
        cuda::AddRowsShape add{rows,
                               cols,
                               rowsOf(dtable.view),
                               rowsOf(dout.view),
                               cuda::Element::F32,
                               doutStored.type(),
                               left};
        runInSeveralOrders({dtableStored.bytes()}, [&] {
          return cuda::launchAddRows(add, index, order.data(), doutStored.data(),
                                     dtableStored.data(), nullptr);
        });
        // Rows of an index that has many are added in parts.
        const double many = rows > 33 ? 1e-4 : 0;
        expectMemoryNear(dtableStored, dtable.memory, many, 0, "embedding_backward");
      }
}

TEST(CudaRows, Float32TableIntoBfloat16) {
  std::mt19937 random(2);
  Tensor<float> table = randomTensor(random, {20, 24});
  Tensor<int32_t> ids = randomIds(random, 50, 0, 20);
  Stored out(std::vector<float>(50 * 24), true);
  cuda::SelectShape s{50, 24, {24, 1}, {24, 1}, {}, cuda::Element::BF16, cuda::Element::F32};
  runInSeveralOrders({out.bytes()}, [&] {
    return cuda::launchSelectRows(s, ids.memory.data(), table.memory.data(), nullptr, out.data(),
                                  nullptr);
  });
  for (int64_t i = 0; i < 50 * 24; ++i)
    ASSERT_EQ(out.inBFloat16[i], roundToBf16(table.at(ids[i / 24], i % 24)));
}

TEST(CudaRows, ImageMergeAndItsGradientsLikeTheHost) {
  std::mt19937 random(3);
  for (auto [rows, pictures, cols] : std::vector<std::array<int64_t, 3>>{
           {0, 4, 8}, {1, 0, 3}, {60, 0, 16}, {90, 40, 64}, {41, 7, 9}})
    for (bool bf16 : {false, true}) {
      Tensor<float> text = randomTensor(random, {rows, cols}),
                    features = randomTensor(random, {pictures, cols}),
                    out = randomTensor(random, {rows, cols}),
                    dout = randomTensor(random, {rows, cols}),
                    dtext = randomTensor(random, {rows, cols}),
                    dfeatures = randomTensor(random, {pictures, cols});
      if (bf16)
        roundAll(text), roundAll(features), roundAll(dout);
      Tensor<int32_t> from({rows});
      from.fill([&](int64_t) {
        return pictures == 0 || random() % 2 ? -1 : static_cast<int32_t>(random() % pictures);
      });
      Stored textStored(text.memory, bf16), featuresStored(features.memory, bf16),
          outStored(out.memory, bf16), doutStored(dout.memory, bf16),
          dtextStored(dtext.memory, bf16),
          dfeaturesStored(std::vector<float>(dfeatures.memory.size(), 0.f), bf16);
      EXPECT_OK(runKernel("image_merge", {{"text", text.view},
                                          {"features", features.view},
                                          {"image_rows", from.view},
                                          {"out", out.view}}));
      EXPECT_OK(runKernel("image_merge_backward", {{"dout", dout.view},
                                                   {"image_rows", from.view},
                                                   {"dtext", dtext.view},
                                                   {"dfeatures", dfeatures.view}}));
      const cuda::RowStrides dense{cols, 1};
      const int32_t *index = from.memory.data();
      cuda::SelectShape s{rows, cols, dense, dense, dense, outStored.type(), outStored.type()};
      runInSeveralOrders({outStored.bytes()}, [&] {
        return cuda::launchSelectRows(s, index, featuresStored.data(), textStored.data(),
                                      outStored.data(), nullptr);
      });
      runInSeveralOrders({dtextStored.bytes()}, [&] {
        return cuda::launchSelectRows(s, index, nullptr, doutStored.data(), dtextStored.data(),
                                      nullptr);
      });
      std::vector<int32_t> order(2 * rows);
      EXPECT_EQ(cuda::launchOrder(rows, index, order.data(), nullptr), 0);
      cuda::AddRowsShape add{rows, cols, dense, dense, doutStored.type(), doutStored.type()};
      runInSeveralOrders({dfeaturesStored.bytes()}, [&] {
        return cuda::launchAddRows(add, index, order.data(), doutStored.data(),
                                   dfeaturesStored.data(), nullptr);
      });
      expectMemoryNear(outStored, out.memory, 0, 0, "image_merge");
      expectMemoryNear(dtextStored, dtext.memory, 0, 0, "dtext");
      if (pictures > 0)
        expectMemoryNear(dfeaturesStored, dfeatures.memory, 0, roundingOf(bf16, 0), "dfeatures");
      // In place: only the rows of pictures change.
      runInSeveralOrders({textStored.bytes()}, [&] {
        return cuda::launchSelectRows(s, index, featuresStored.data(), textStored.data(),
                                      textStored.data(), nullptr);
      });
      expectMemoryNear(textStored, out.memory, 0, 0, "image_merge in place");
    }
}

TEST(CudaRows, LabeledRowsGoOutAndComeBack) {
  std::mt19937 random(4);
  for (int64_t rows : {0, 1, 31, 2500}) {
    std::vector<int32_t> targets(rows), tokens(rows, -5), want, others, count(1, -1);
    for (int64_t i = 0; i < rows; ++i) {
      targets[i] = random() % 2 ? -1 : static_cast<int32_t>(random() % 9);
      (targets[i] >= 0 ? want : others).push_back(static_cast<int32_t>(i));
    }
    runInSeveralOrders({bytesOf(tokens), bytesOf(count)}, [&] {
      return cuda::launchLabeledRows(rows, targets.data(), tokens.data(), count.data(), nullptr);
    });
    ASSERT_EQ(count[0], static_cast<int32_t>(want.size()));
    EXPECT_EQ(std::vector(tokens.begin() + want.size(), tokens.end()), others);
    tokens.resize(want.size());
    EXPECT_EQ(tokens, want);
    for (bool bf16 : {false, true})
      for (int64_t cols : {8, 5}) {
        std::vector<float> values(want.size() * cols);
        std::iota(values.begin(), values.end(), 1.f);
        for (float &x : values)
          x = fromBf16(roundToBf16(x));
        Stored from(values, bf16), to(std::vector<float>(rows * cols, -1.f), bf16);
        cuda::ScatterShape s{
            static_cast<int64_t>(want.size()), cols, {cols, 1}, {cols, 1}, to.type()};
        runInSeveralOrders({to.bytes()}, [&] {
          return cuda::launchScatterRows(s, tokens.data(), from.data(), to.data(), nullptr);
        });
        std::vector<float> expected(rows * cols, -1.f);
        for (size_t i = 0; i < want.size(); ++i)
          std::copy_n(&values[i * cols], cols, &expected[want[i] * cols]);
        expectMemoryNear(to, expected, 0, 0, "scattered rows");
      }
  }
}

TEST(CudaRope, LikeTheHost) {
  std::mt19937 random(5);
  for (auto [tokens, heads, size, turned] : std::vector<std::array<int64_t, 4>>{{0, 2, 8, 8},
                                                                                {1, 1, 2, 2},
                                                                                {40, 3, 64, 64},
                                                                                {7, 17, 16, 8},
                                                                                {9, 2, 13, 6},
                                                                                {5, 2, 20, 0}})
    for (bool bf16 : {false, true})
      for (int form = 0; form < 4; ++form) {
        const bool interleaved = form & 1, inverse = form & 2;
        const int64_t gap = random() % 3;
        Tensor<float> x = randomTensor(random, {tokens, heads, size}, {}, gap),
                      out = randomTensor(random, {tokens, heads, size}, {}, random() % 2),
                      cosine = randomTensor(random, {11, turned}),
                      sine = randomTensor(random, {11, turned}, {}, 1);
        if (bf16)
          roundAll(x);
        Tensor<int32_t> positions = randomIds(random, tokens, 0, 11);
        Stored xStored(x.memory, bf16), outStored(out.memory, bf16);
        EXPECT_OK(runKernel("rope",
                            {{"x", x.view},
                             {"positions", positions.view},
                             {"cos", cosine.view},
                             {"sin", sine.view},
                             {"out", out.view}},
                            {{"interleaved", interleaved}, {"inverse", inverse}}));
        cuda::RopeShape s{tokens,
                          heads,
                          size,
                          turned,
                          headsOf(x.view),
                          headsOf(out.view),
                          cosine.view.strides[0],
                          sine.view.strides[0],
                          xStored.type(),
                          interleaved,
                          inverse};
        auto launch = [&](void *to) {
          return cuda::launchRope(s, xStored.data(), positions.memory.data(), cosine.memory.data(),
                                  sine.memory.data(), to, nullptr);
        };
        runInSeveralOrders({outStored.bytes()}, [&] { return launch(outStored.data()); });
        expectMemoryNear(outStored, out.memory, 1e-6, roundingOf(bf16), "rope");
        s.out = s.x;
        runInSeveralOrders({xStored.bytes()}, [&] { return launch(xStored.data()); });
        for (int64_t i = 0; i < tokens * heads * size; ++i)
          ASSERT_EQ(xStored.at((i / size) * size + (i / size) * gap + i % size),
                    outStored.at(&out[i] - out.memory.data()));
      }
}

namespace {

template <typename Key> void expectOrder(int64_t count, uint64_t distinct, int seed) {
  std::mt19937_64 random(seed);
  std::vector<Key> keys(count);
  for (Key &key : keys)
    key = distinct ? static_cast<Key>(random() % distinct) - 2 : static_cast<Key>(random());
  if (count > 3) // what pads the last tile
    keys[count / 2] = keys[1] = std::numeric_limits<Key>::max();
  std::vector<int32_t> order(2 * count, -1), want(count);
  std::iota(want.begin(), want.end(), 0);
  std::sort(want.begin(), want.end(),
            [&](int32_t a, int32_t b) { return std::pair(keys[a], a) < std::pair(keys[b], b); });
  runInSeveralOrders({bytesOf(order)},
                     [&] { return cuda::launchOrder(count, keys.data(), order.data(), nullptr); });
  order.resize(count);
  EXPECT_EQ(order, want) << count;
}

} // namespace

TEST(Order, IsAStableSort) {
  for (int64_t count : {0, 1, 2, 31, 1024, 1025, 2500})
    for (uint64_t distinct : {3, 0}) { // 0: any
      expectOrder<int32_t>(count, distinct, 1);
      expectOrder<int64_t>(count, distinct, 2);
    }
  expectOrder<int32_t>(16384 + 700, 1000, 3); // two merges
}
