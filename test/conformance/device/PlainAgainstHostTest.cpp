//===- PlainAgainstHostTest.cpp - Plain kernels on the device against the host backend --------===//
#include "runtime/backends/host/HostBackend.h"
#include "runtime/device/PlainMath.h"
#include "test/conformance/device/RandomProblems.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

TEST_F(AgainstHost, BothHaveEveryKernel) {
  std::vector<std::string> names = {"gemm",
                                    "attention",
                                    "attention_backward",
                                    "rope",
                                    "embedding",
                                    "image_merge",
                                    "embedding_backward",
                                    "image_merge_backward",
                                    "copy",
                                    "fill",
                                    "reduce",
                                    "linear_cross_entropy",
                                    "fused",
                                    "softmax",
                                    "log_softmax",
                                    "cross_entropy",
                                    "layer_norm",
                                    "rms_norm",
                                    "select",
                                    "gather",
                                    "gather_nd",
                                    "scatter_nd",
                                    "gather_elements",
                                    "scatter_elements",
                                    "top_k",
                                    "group_rows",
                                    "grouped_gemm",
                                    "grouped_gemm_backward",
                                    "trilu",
                                    "range",
                                    "cumsum",
                                    "conv",
                                    "conv_input_grad",
                                    "conv_weight_grad"};
  for (const auto &[name, op] : plain::unaryNames)
    names.push_back(name);
  for (const auto &[name, op] : plain::binaryNames)
    names.push_back(name);
  for (const std::string &name : names) {
    BoundCall call;
    call.kernel = name;
    for (const std::string &message : {createHostKernel(call).status().message(),
                                       deviceBackend().createKernel(call).status().message()})
      EXPECT_EQ(message.find("has no kernel"), std::string::npos) << message;
  }
}

TEST_F(AgainstHost, PlainElementwise) {
  Random r(7);
  const std::vector<int64_t> shapes[] = {{}, {1}, {0, 3}, {7, 1, 5}, {3, 129}, {2, 3, 4, 5}};
  FOR_ROUNDS(3) {
    for (const char *name :
         {"neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "erf", "tanh", "sigmoid", "cos",
          "sin", "abs", "floor", "sign", "relu", "silu", "quick_gelu", "gelu", "cast"}) {
      const std::vector<int64_t> &shape = shapes[r.upTo(5)];
      Tensor<float> x = r.floats(shape, r.order(static_cast<int>(shape.size())));
      const bool positive = name == std::string("log") || std::string(name).ends_with("sqrt");
      for (float &value : x.memory)
        value = positive ? std::abs(value) + 0.01f : value;
      BothSides both(name, {});
      both.in("operand", x, r.chance(50));
      both.out("result", r.floats(shape), r.chance(50));
      both.compare({1e-6, 1e-6});
    }
    for (const char *name : {"add", "sub", "mul", "div", "pow", "mod", "max", "min", "silu_grad",
                             "quick_gelu_grad", "gelu_grad"}) {
      const std::vector<int64_t> &shape = shapes[r.upTo(5)];
      std::vector<int64_t> narrow = shape;
      for (int64_t &n : narrow)
        n = r.chance(30) ? 1 : n;
      const bool slope = std::string(name).ends_with("_grad");
      Tensor<float> base = r.floats(shape);
      for (float &value : base.memory)
        value = name == std::string("pow") ? std::abs(value) : value;
      BothSides both(name, {});
      both.in(slope ? "operand" : "lhs", base, r.chance(50));
      both.in(slope ? "grad" : "rhs", r.floats(narrow), r.chance(50));
      both.out("result", r.floats(shape), r.chance(50));
      both.compare({1e-6, 1e-6});
    }
    const int64_t n = r.size(80);
    Tensor<uint8_t> flags({n, 3});
    flags.fill([&](int64_t) { return static_cast<uint8_t>(r.upTo(1)); });
    BothSides select("select", {});
    select.exact("condition", flags);
    select.in("onTrue", r.floats({3}), r.chance(50));
    select.in("onFalse", r.floats({n, 1}), r.chance(50));
    select.out("result", r.floats({n, 3}), r.chance(50));
    select.compare(exactly);
    BothSides compare("compare", {{"predicate", r.oneOf({"eq", "lt", "le", "gt", "ge"})}});
    compare.in("lhs", r.floats({n, 3}), r.chance(50));
    compare.in("rhs", r.floats({1, 3}), r.chance(50));
    compare.exact("result", flags);
    compare.compare(exactly);
    BothSides triangle("trilu", {{"upper", r.chance(50)}});
    const bool bf16 = r.chance(50);
    triangle.in("input", r.floats({2, n, 9}, r.order(3)), bf16);
    triangle.out("result", r.floats({2, n, 9}), bf16);
    triangle.compare(exactly);
  }
}

TEST_F(AgainstHost, PlainIndexing) {
  Random r(8);
  FOR_ROUNDS(12) {
    const bool bf16 = r.chance(50);
    const int64_t a = 1 + r.upTo(20), b = 1 + r.upTo(9), many = r.size(60);
    const Tensor<float> table = r.floats({a, b}, r.order(2));
    BothSides rows("gather", {{"axis", 0}});
    rows.in("input", table, bf16);
    rows.exact("indices", r.indices(many, -a, a));
    rows.out("result", r.floats({many, b}), bf16);
    rows.compare(exactly);
    const char *reduction = r.oneOf({"none", "add", "mul", "max", "min"});
    Tensor<int32_t> vectors({many, 1}), elements({many, b});
    vectors.fill([&](int64_t) { return static_cast<int32_t>(r.upTo(a - 1)); });
    elements.fill([&](int64_t) { return static_cast<int32_t>(r.upTo(a - 1)); });
    // Many updates meet; each rounds, on both sides, if the result is stored in float32.
    BothSides slices("scatter_nd", {{"reduction", reduction}});
    slices.in("input", table);
    slices.exact("indices", vectors);
    slices.in("updates", r.floats({many, b}), bf16);
    slices.out("result", r.floats({a, b}));
    slices.compare(exactly);
    BothSides each("scatter_elements", {{"reduction", reduction}, {"axis", 0}});
    each.in("input", table);
    each.exact("indices", elements);
    each.in("updates", r.floats({many, b}));
    each.out("result", r.floats({a, b}));
    each.compare(exactly);
    BothSides picked("gather_elements", {{"axis", 0}});
    picked.in("input", table, bf16);
    picked.exact("indices", elements);
    picked.out("result", r.floats({many, b}), bf16);
    picked.compare(exactly);
    BothSides sliced("gather_nd", {});
    sliced.in("input", table, bf16);
    sliced.exact("indices", vectors);
    sliced.out("result", r.floats({many, b}), bf16);
    sliced.compare(exactly);
  }
}

TEST_F(AgainstHost, TopK) {
  Random r(12);
  FOR_ROUNDS(8) {
    const bool bf16 = r.chance(60);
    const int64_t rows = r.size(40), cols = r.size(130, 1), k = 1 + r.upTo(cols - 1);
    BothSides both("top_k", {{"k", k}, {"smallest", r.chance(30)}});
    both.in("input", r.floats({2, rows, cols}, r.order(3)), bf16);
    both.exact("result", Tensor<int64_t>({2, rows, k}));
    both.compare(exactly);
  }
}

TEST_F(AgainstHost, PlainRows) {
  Random r(9);
  FOR_ROUNDS(6) {
    const bool bf16 = r.chance(60);
    const int64_t rows = r.size(20), cols = r.chance(50) ? 8 * r.size(40, 1) : r.size(200, 1);
    const std::vector<int> order = r.order(3);
    const int axis = static_cast<int>(r.upTo(2));
    for (const char *name : {"softmax", "log_softmax"}) {
      BothSides both(name, {{"axis", axis}});
      both.in("input", r.floats({rows, 2, cols}, order), bf16);
      both.out("result", r.floats({rows, 2, cols}), bf16);
      both.compare({1e-6, 1e-6});
    }
    for (const char *name : {"layer_norm", "rms_norm"}) {
      BothSides both(name, {{"axis", r.chance(80) ? -1 : 1}, {"epsilon", 1e-6}});
      both.in("input", r.floats({rows, 2, cols}, order), bf16);
      both.in("scale", r.dense({cols}), bf16);
      if (r.chance(50) && name == std::string("layer_norm"))
        both.in("bias", r.dense({cols}), bf16);
      both.out("result", r.floats({rows, 2, cols}), bf16);
      both.compare({1e-5, 1e-5});
    }
    const nlohmann::json summed = {
        {"axis", axis}, {"exclusive", r.chance(50)}, {"reverse", r.chance(50)}};
    BothSides sums("cumsum", summed);
    sums.in("input", r.floats({rows, 2, cols}, order), bf16);
    sums.out("result", r.floats({rows, 2, cols}), bf16);
    sums.compareSums(std::max<int64_t>({rows, 2, cols}), summed);
  }
}

TEST_F(AgainstHost, Convolutions) {
  Random r(10);
  FOR_ROUNDS(8) {
    const bool bf16 = r.chance(60);
    const int64_t group = 1 + r.upTo(1), channels = group * (1 + r.upTo(2));
    const int64_t results = group * (1 + r.upTo(2)), images = r.upTo(3); // V = 0 too
    const int64_t k = 1 + r.upTo(3), stride = 1 + r.upTo(2), dilation = 1 + r.upTo(1);
    const int64_t pad = r.upTo(2), y = 1 + r.upTo(5);
    const int64_t x = std::max<int64_t>(1, (y - 1) * stride + (k - 1) * dilation + 1 - 2 * pad);
    if ((x + 2 * pad - (k - 1) * dilation - 1) / stride + 1 != y)
      continue; // clamped
    const nlohmann::json attributes = {{"strides", {stride, stride}},
                                       {"pads", {pad, pad, pad, pad}},
                                       {"dilations", {dilation, dilation}},
                                       {"group", group}};
    const Tensor<float> input = r.floats({images, channels, x, x}),
                        weight = r.floats({results, channels / group, k, k}),
                        output = r.floats({images, results, y, y});
    BothSides forward("conv", attributes);
    forward.in("input", input, bf16);
    forward.in("weight", weight, bf16);
    if (r.chance(50))
      forward.in("bias", r.dense({results}), bf16);
    forward.out("result", output, bf16);
    forward.compareSums(channels / group * k * k + 1, attributes);
    BothSides inputs("conv_input_grad", attributes);
    inputs.in("weight", weight, bf16);
    inputs.in("grad", output, bf16);
    inputs.out("result", input, bf16);
    inputs.compareSums(results / group * k * k, attributes);
    BothSides weights("conv_weight_grad", attributes);
    weights.in("input", input, bf16);
    weights.in("grad", output, bf16);
    weights.out("result", weight, r.chance(50));
    weights.compareSums(images * y * y, attributes);
  }
}

} // namespace
