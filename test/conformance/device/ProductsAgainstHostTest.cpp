//===- ProductsAgainstHostTest.cpp - Products on the device against the host backend ----------===//
#include "runtime/support/QuantizedMatrix.h"
#include "test/conformance/device/RandomProblems.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

TEST_F(AgainstHost, Gemm) {
  Random r(1);
  FOR_ROUNDS(24) {
    const bool bf16 = r.chance(60), accumulate = r.chance(30);
    const bool narrowResult = bf16 && !accumulate && r.chance(70);
    std::vector<int64_t> batch;
    if (r.chance(25))
      batch = {r.size(3), 2};
    const int rank = static_cast<int>(batch.size()) + 2;
    const int64_t m = r.size(90), n = r.size(90), k = r.size(90);
    auto matrix = [&](int64_t rows, int64_t cols, bool turn) {
      std::vector<int64_t> shape = batch;
      shape.insert(shape.end(), {rows, cols});
      std::vector<int> order(rank);
      std::iota(order.begin(), order.end(), 0);
      if (turn)
        std::swap(order[rank - 2], order[rank - 1]);
      return r.floats(shape, order);
    };
    nlohmann::json attributes = {{"accumulate", accumulate}};
    if (r.chance(30))
      attributes["alpha"] = 0.25;
    const bool derivative = !accumulate && r.chance(30), may = !accumulate && !derivative;
    if (derivative)
      attributes["activation"] = r.oneOf<const char *>({"gelu", "gelu_tanh", "gelu_tanh", "silu"});
    else if (!accumulate)
      attributes["activation"] =
          r.oneOf<const char *>({"none", "gelu", "gelu_tanh", "silu", "quick_gelu", "relu"});
    BothSides both("gemm", attributes);
    both.in("a", matrix(m, k, r.chance(40)), bf16);
    both.in("b", matrix(k, n, r.chance(40)), bf16);
    both.out("c", matrix(m, n, r.chance(20)), narrowResult);
    if (derivative)
      both.in("at", matrix(m, n, false), narrowResult);
    if (batch.empty() && r.chance(40))
      both.out("sum_a", r.dense({m}));
    if (batch.empty() && r.chance(30))
      both.out("sum_b", r.dense({n}));
    if (may && r.chance(50))
      both.in("bias", r.dense({n}), bf16);
    if (may && r.chance(40))
      both.in("residual", matrix(m, n, false), narrowResult);
    if (may && r.chance(40))
      both.out("pre", matrix(m, n, false), narrowResult);
    // Activations change a difference by a factor of at most 1.13, and round a few times; their
    // derivatives, of an exponential, up to 16 times.
    nlohmann::json magnitudes = attributes;
    magnitudes["activation"] = "none";
    if (narrowResult)
      both.allowRoundedProduct("c");
    both.compareSums(k + k / 7 + (derivative ? 16 : 8), magnitudes, "at");
  }
}

TEST_F(AgainstHost, Dequantize) {
  Random r(12);
  FOR_ROUNDS(12) {
    const Quantization kind = r.oneOf({Quantization::Int8, Quantization::NF4});
    const QuantizedShape shape{kind, r.size(50), r.size(90)};
    const Tensor<float> values = r.dense({shape.rows, shape.cols});
    Tensor<int32_t> words({shape.words()});
    const auto count = static_cast<size_t>(shape.elements());
    ASSERT_EQ(quantize(shape, 0, std::span(values.memory).first(count), words.memory.data()), -1);
    BothSides both("dequantize", {{"quantized", nameOf(kind)}});
    both.exact("codes", words);
    both.out("matrix", r.dense({shape.rows, shape.cols}), r.chance(60));
    both.compare(exactly);
  }
}

TEST_F(AgainstHost, ProductsInGroups) {
  Random r(21);
  FOR_ROUNDS(16) {
    const bool bf16 = r.chance(60), narrowResult = bf16 && r.chance(60);
    const int64_t rows = r.size(150), groups = r.size(9, 1), used = 1 + r.upTo(groups - 1);
    const bool packs = r.chance(60); // as the tensor cores take them
    const int64_t depth = packs ? 8 * r.size(12, 1) : r.size(70, 1);
    const int64_t cols = packs ? 8 * r.size(20, 1) : r.size(90, 1);
    Tensor<int64_t> ids({rows});
    ids.fill([&](int64_t) { return r.upTo(used - 1); });
    Tensor<int32_t> order({rows}), borders({groups + 1});
    BothSides sorted("group_rows", {});
    sorted.exact("ids", ids);
    sorted.exact("order", order);
    sorted.exact("borders", borders);
    sorted.compare(exactly);
    int64_t to = 0;
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t i = 0; i < rows; ++i)
        if (ids[i] == g)
          order[to++] = static_cast<int32_t>(i);
      borders[g + 1] = static_cast<int32_t>(to);
    }
    BothSides product("grouped_gemm", {});
    const std::vector<int> order3 = r.chance(50) ? std::vector<int>{0, 2, 1} : std::vector<int>{};
    product.in("a", packs ? r.dense({rows, depth}) : r.floats({rows, depth}), bf16);
    product.in("b",
               packs ? randomTensor(r.engine, {groups, depth, cols}, order3)
                     : r.floats({groups, depth, cols}, order3),
               bf16);
    product.exact("order", order);
    product.exact("borders", borders);
    product.out("c", r.floats({rows, cols}), narrowResult);
    product.compareSums(depth + 1, nlohmann::json::object());
    BothSides gradient("grouped_gemm_backward", {});
    gradient.in("a", packs ? r.dense({rows, depth}) : r.floats({rows, depth}), bf16);
    gradient.in("b", packs ? r.dense({rows, cols}) : r.floats({rows, cols}), bf16);
    gradient.exact("order", order);
    gradient.exact("borders", borders);
    gradient.out("c", r.dense({groups, depth, cols}), false);
    gradient.compareSums(rows + 1, nlohmann::json::object());
  }
}

} // namespace
