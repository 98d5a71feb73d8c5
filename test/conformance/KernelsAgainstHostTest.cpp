//===- KernelsAgainstHostTest.cpp - Every kernel on the device against the host backend -------===//
//
// Random shapes in both storages: odd sizes, no picture (V = 0), no token, one token, lines with
// gaps, other orders of dimensions.
//
//===-------------------------------------------------------------------------------------------===//
#include "test/conformance/RandomProblems.h"

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
    both.compare({3e-5, 1e-5});
  }
}

TEST_F(AgainstHost, Attention) {
  Random r(2);
  FOR_ROUNDS(10) {
    const bool bf16 = r.chance(60), equal = r.chance(30);
    const char *mask = r.oneOf({"full", "causal", "sliding", "prefix"});
    const int64_t keyHeads = r.oneOf<int64_t>({1, 2}), heads = keyHeads * r.oneOf<int64_t>({1, 3});
    const int64_t size = r.oneOf<int64_t>({64, 16, 6, 13, 80, 128});
    const int64_t valueSize = r.chance(80) ? size : r.oneOf<int64_t>({8, 33, 136});
    std::vector<int32_t> borders = {0};
    int64_t tokens;
    const int64_t segment = r.size(40, 1);
    if (equal) {
      tokens = segment * r.upTo(3); // V = 0 too
    } else {
      for (int64_t samples = r.upTo(4); samples > 0; --samples)
        borders.push_back(borders.back() + static_cast<int32_t>(r.size(70)));
      tokens = borders.back();
      borders.resize(borders.size() + r.upTo(2), borders.back());
    }
    nlohmann::json attributes = {{"scale", 1 / std::sqrt(double(size))}, {"mask", mask}};
    if (mask == std::string("sliding"))
      attributes["window"] = 1 + r.upTo(30);
    if (equal)
      attributes["segment_rows"] = segment;
    const std::vector<int> order = r.chance(20) ? std::vector<int>{1, 0, 2} : std::vector<int>{};
    Tensor<float> q = r.floats({tokens, heads, size}, order),
                  k = r.floats({tokens, keyHeads, size}, order),
                  v = r.floats({tokens, keyHeads, valueSize}, order),
                  out = r.floats({tokens, heads, valueSize}), lse = r.dense({tokens, heads});
    Tensor<int32_t> list({static_cast<int64_t>(borders.size())});
    list.memory = borders;
    const Tensor<int32_t> types = r.indices(tokens, -1, 2);
    auto addSegments = [&](BothSides &both) {
      if (!equal)
        both.exact("cu_seqlens", list);
      if (mask == std::string("prefix"))
        both.exact("types", types);
    };
    BothSides forward("attention", attributes);
    forward.in("q", q, bf16);
    forward.in("k", k, bf16);
    forward.in("v", v, bf16);
    forward.out("out", out, bf16);
    forward.out("lse", lse);
    addSegments(forward);
    forward.compare({1e-5, 1e-5}, {0.01, 0.01});
    if (HasFatalFailure())
      return;
    out.memory = forward.result("out");
    lse.memory = forward.result("lse");
    BothSides backward("attention_backward", attributes);
    backward.in("q", q, bf16);
    backward.in("k", k, bf16);
    backward.in("v", v, bf16);
    backward.in("out", out, bf16);
    backward.in("lse", lse);
    backward.in("dout", r.floats({tokens, heads, valueSize}), bf16);
    backward.out("dq", r.floats({tokens, heads, size}), bf16);
    backward.out("dk", r.floats({tokens, keyHeads, size}, order), bf16);
    backward.out("dv", r.floats({tokens, keyHeads, valueSize}), bf16);
    addSegments(backward);
    if (r.chance(50))
      backward.deviceOnly("workspace", r.dense({tokens * (2 + heads)}), false);
    backward.compare({3e-5, 3e-5, 1e-5}, {0.015, 0.01, 2e-3});
  }
}

/// In bfloat16, with heads that a library of fused attention takes, where the device has one; the
/// samples as the runtime tells of them.
TEST_F(AgainstHost, PackedAttention) {
  Random r(12);
  FOR_ROUNDS(6) {
    const bool equal = r.chance(25), causal = !equal && r.chance(70);
    const int64_t keyHeads = r.oneOf<int64_t>({1, 2}),
                  heads = keyHeads * r.oneOf<int64_t>({1, 2, 4});
    const int64_t size = r.oneOf<int64_t>({64, 64, 72, 80, 96, 128, 128, 256});
    const int64_t segment = r.size(40, 1), tail = r.oneOf<int64_t>({0, 0, 1, 63});
    std::vector<int64_t> ends = {0};
    if (equal)
      ends.resize(1 + r.upTo(5)); // V = 0 too
    else
      for (int64_t samples = r.upTo(6); samples > 0; --samples)
        ends.push_back(ends.back() + r.size(80));
    const int64_t tokens =
        equal ? segment * static_cast<int64_t>(ends.size() - 1) : ends.back() + tail;
    Tensor<int32_t> list({tokens + 1});
    list.fill([&](int64_t i) {
      return static_cast<int32_t>(i < static_cast<int64_t>(ends.size()) ? ends[i] : ends.back());
    });
    if (equal)
      deviceBackend().expectLoad({});
    else if (static_cast<int64_t>(ends.size()) > tokens + 1)
      continue; // the runtime has no empty samples
    else
      deviceBackend().expectLoad(loadOf(ends, -1));
    nlohmann::json attributes = {{"scale", 1 / std::sqrt(double(size))},
                                 {"mask", causal ? "causal" : "full"}};
    if (equal)
      attributes["segment_rows"] = segment;
    auto part = [&](int64_t count) { return r.dense({tokens, count, size}); };
    Tensor<float> q = part(heads), k = part(keyHeads), v = part(keyHeads), out = part(heads),
                  lse = r.dense({tokens, heads});
    BothSides forward("attention", attributes);
    forward.in("q", q, true);
    forward.in("k", k, true);
    forward.in("v", v, true);
    forward.out("out", out, true);
    forward.out("lse", lse);
    if (!equal)
      forward.exact("cu_seqlens", list);
    forward.compare({1e-5, 1e-5}, {0.01, 0.01});
    if (HasFatalFailure())
      return;
    out.memory = forward.result("out");
    lse.memory = forward.result("lse");
    BothSides backward("attention_backward", attributes);
    backward.in("q", q, true);
    backward.in("k", k, true);
    backward.in("v", v, true);
    backward.in("out", out, true);
    backward.in("lse", lse);
    backward.in("dout", part(heads), true);
    backward.out("dq", part(heads), true);
    backward.out("dk", part(keyHeads), true);
    backward.out("dv", part(keyHeads), true);
    if (!equal)
      backward.exact("cu_seqlens", list);
    backward.compare({3e-5, 3e-5, 1e-5}, {0.015, 0.01, 2e-3});
  }
  deviceBackend().expectLoad({});
}

TEST_F(AgainstHost, Rope) {
  Random r(3);
  FOR_ROUNDS(16) {
    const bool bf16 = r.chance(60);
    const int64_t tokens = r.size(60), heads = 1 + r.upTo(4), size = 2 * r.size(40, 1);
    const int64_t turned = r.chance(60) ? size : 2 * r.upTo(size / 2), rows = 1 + r.upTo(30);
    BothSides both("rope", {{"interleaved", r.chance(40)}, {"inverse", r.chance(40)}});
    both.in("x", r.floats({tokens, heads, size}, r.order(3)), bf16);
    both.exact("positions", r.indices(tokens, 0, rows));
    both.in("cos", r.dense({rows, turned}));
    both.in("sin", r.dense({rows, turned}));
    both.out("out", r.floats({tokens, heads, size}), bf16);
    both.compare();
  }
}

TEST_F(AgainstHost, RowsByIndex) {
  Random r(4);
  FOR_ROUNDS(16) {
    const bool bf16 = r.chance(60), wide = r.chance(50);
    const int64_t tokens = r.size(150), cols = r.size(200), words = 1 + r.upTo(60);
    const Tensor<int32_t> ids = r.indices(tokens, 0, words);
    BothSides embedding("embedding", {});
    embedding.in("table", r.floats({words, cols}, r.order(2)), bf16 && !wide);
    embedding.exact("ids", ids);
    embedding.out("out", r.floats({tokens, cols}), bf16);
    embedding.compare();
    BothSides gradient("embedding_backward", {});
    gradient.in("dout", r.floats({tokens, cols}), bf16);
    gradient.exact("ids", ids);
    gradient.out("dtable", r.floats({words, cols}, r.order(2)), bf16 && !wide);
    if (r.chance(50))
      gradient.deviceOnly("workspace", r.dense({2 * tokens}), false);
    gradient.compare();

    const int64_t features = r.size(90); // 0: no picture
    Tensor<int32_t> rows({tokens});
    std::vector<int32_t> order(features);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), r.engine);
    rows.fill([&](int64_t i) {
      return i < features && r.chance(70) ? order[static_cast<size_t>(i)] : -1;
    });
    BothSides merge("image_merge", {});
    merge.in("text", r.floats({tokens, cols}), bf16);
    merge.in("features", r.floats({features, cols}), bf16 && !wide);
    merge.exact("image_rows", rows);
    merge.out("out", r.floats({tokens, cols}, r.order(2)), bf16);
    merge.compare();
    BothSides back("image_merge_backward", {});
    back.in("dout", r.floats({tokens, cols}), bf16);
    back.exact("image_rows", rows);
    if (r.chance(80))
      back.out("dtext", r.floats({tokens, cols}), bf16);
    if (r.chance(80))
      back.out("dfeatures", r.floats({features, cols}), bf16 && !wide);
    if (r.chance(50))
      back.deviceOnly("workspace", r.dense({2 * tokens}), false);
    back.compare();
  }
}

TEST_F(AgainstHost, Losses) {
  Random r(5);
  FOR_ROUNDS(12) {
    const bool bf16 = r.chance(60), narrowLogits = bf16 && r.chance(50);
    // The lines of long rows of logits are padded on a device.
    const int64_t tokens = r.size(70), width = 1 + r.size(r.chance(30) ? 1500 : 300);
    const int64_t cols = 1 + r.upTo(60);
    Tensor<int32_t> targets = r.indices(tokens, -1, width);
    BothSides whole("cross_entropy", {});
    whole.in("logits", r.floats({tokens, width}, {}, 3), bf16);
    whole.exact("targets", targets);
    whole.out("loss", r.dense({tokens}));
    if (r.chance(70))
      whole.out("dlogits", r.floats({tokens, width}), bf16);
    if (r.chance(50))
      whole.exact("prediction", r.indices(tokens, 0, 5));
    whole.compare({1e-5, 1e-5});
    if (HasFatalFailure())
      return;

    BothSides linear("linear_cross_entropy", {{"scale", r.oneOf({1.0, 0.5})}});
    linear.in("hidden", r.floats({tokens, cols}), bf16);
    linear.in("weight", r.floats({width, cols}, {}, 0.3f), bf16);
    linear.exact("targets", targets);
    linear.out("loss", r.dense({tokens}));
    // On the host it also holds gathered rows, on the device their order and sometimes a second
    // gradient.
    linear.hostOnly("scratch", r.dense({2 + (2 * cols) / width + r.upTo(20), width}));
    const int64_t bytes = 4 * tokens + 100 + (1 + r.upTo(20)) * (6 * width + 8 * cols);
    linear.deviceOnly("scratch", r.dense({bytes / (width * (narrowLogits ? 2 : 4)) + 1, width}),
                      narrowLogits);
    if (r.chance(40))
      linear.in("bias", r.dense({width}), bf16);
    if (r.chance(80))
      linear.out("dhidden", r.floats({tokens, cols}), bf16);
    if (r.chance(80))
      linear.out("dweight", r.floats({width, cols}));
    if (r.chance(40))
      linear.out("dbias", r.dense({width}));
    if (!bf16 && r.chance(50))
      linear.exact("prediction", r.indices(tokens, 0, 5));
    linear.compare({3e-5, 3e-5}, {0.02, 0.02});
  }
}

TEST_F(AgainstHost, CopyFillReduce) {
  Random r(6);
  FOR_ROUNDS(20) {
    const int rank = 1 + static_cast<int>(r.upTo(3));
    std::vector<int64_t> shape;
    for (int d = 0; d < rank; ++d)
      shape.push_back(r.size(rank < 3 ? 90 : 14));
    const bool from = r.chance(50), to = r.chance(50);
    BothSides copy("copy", {{"accumulate", r.chance(30)}});
    copy.in("src", r.floats(shape, r.order(rank)), from);
    copy.out("dst", r.floats(shape, r.order(rank)), to);
    copy.compare();
    BothSides fill("fill", {{"value", r.oneOf({0.0, -1.5})}});
    fill.out("dst", r.floats(shape, r.order(rank)), to);
    fill.compare();
    BothSides columns("reduce", {{"kind", "sum"}, {"accumulate", r.chance(60)}});
    const int64_t rows = 500 + r.upTo(900), cols = r.chance(50) ? 8 * r.upTo(40) : r.upTo(300);
    columns.in("src", r.floats({rows, cols}), from);
    const Tensor<float> sums = r.dense({1, cols});
    columns.out("dst", sums);
    TensorView many = sums.view;
    many.shape[0] = rows;
    many.strides[0] = 0;
    columns.through(many);
    columns.compare({1e-5, 1e-5}, {1e-5, 1e-5});
    BothSides blocks("reduce", {{"kind", "sum"}, {"accumulate", r.chance(60)}});
    const int64_t parts = 1 + r.upTo(400), pairs = 1 + r.upTo(10); // on a device in one launch
    for (int64_t i = 0; i < pairs; ++i) {
      const std::string number = i == 0 ? "" : std::to_string(i);
      const int64_t width = r.upTo(100);
      blocks.in("src" + number, r.floats({parts, width}));
      const Tensor<float> total = r.dense({1, width});
      blocks.out("dst" + number, total);
      TensorView repeated = total.view;
      repeated.shape[0] = parts;
      repeated.strides[0] = 0;
      blocks.through(repeated);
    }
    blocks.compare({1e-5, 1e-5});
    const char *kind = r.oneOf({"sum", "mean", "max", "min"});
    BothSides reduce("reduce", {{"kind", kind}, {"accumulate", r.chance(40)}});
    reduce.in("src", r.floats(shape, r.order(rank)), from);
    std::vector<int64_t> kept = shape;
    for (int64_t &n : kept)
      n = r.chance(50) ? 1 : n;
    const Tensor<float> result = r.dense(kept);
    reduce.out("dst", result, from && to);
    TensorView view = result.view;
    for (int d = 0; d < rank; ++d)
      if (kept[d] != shape[d]) {
        view.shape[d] = shape[d];
        view.strides[d] = 0;
      }
    reduce.through(view);
    reduce.compare({1e-5, 1e-5});
  }
}

} // namespace
