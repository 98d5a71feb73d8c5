//===- KernelsAgainstHostTest.cpp - Every kernel on the device against the host backend -------===//
//
// Random shapes in both storages: odd sizes, no picture (V = 0), no token, one token, lines with
// gaps, other orders of dimensions.
//
//===-------------------------------------------------------------------------------------------===//
#include "test/conformance/AttentionReference.h"
#include "test/conformance/device/RandomProblems.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

std::vector<double> elementsOf(Tensor<float> tensor, bool bf16) {
  std::vector<double> values(tensor.elements());
  for (size_t i = 0; i < values.size(); ++i) {
    const float x = tensor[static_cast<int64_t>(i)];
    values[i] = bf16 ? BFloat16::fromFloat(x).toFloat() : x;
  }
  return values;
}

std::vector<double> scaled(std::vector<double> values, double factor) {
  for (double &value : values)
    value *= factor;
  return values;
}

/// Segments of `borders`, the tokens behind the last one without.
std::vector<int> segmentsOf(std::span<const int32_t> borders, int64_t tokens) {
  std::vector<int> segments(tokens, -1);
  for (size_t s = 0; s + 1 < borders.size(); ++s)
    std::fill(segments.begin() + borders[s], segments.begin() + borders[s + 1], int(s));
  return segments;
}

/// On tensor cores the probabilities and the gradients of scores are rounded to bfloat16 for the
/// second product.
void allowForward(BothSides &both, const AttentionReference &r) {
  both.allow("out", scaled(r.outTerms, bfloat16Rounding));
}
void allowBackward(BothSides &both, const AttentionReference &r) {
  both.allow("dq", scaled(r.dqTerms, bfloat16Rounding));
  both.allow("dk", scaled(r.dkTerms, bfloat16Rounding));
  both.allow("dv", scaled(r.dvTerms, bfloat16Rounding));
}

/// What it may cost a linear cross-entropy that the gradients of its logits are rounded to
/// bfloat16, and where they are stored so (`narrow`) the logits.
struct LossRoundings {
  int64_t tokens, width, cols;
  std::vector<double> loss = {}, dhidden = {}, dweight = {}, dbias = {};

  void find(const std::vector<double> &hidden, const std::vector<double> &weight,
            const std::vector<double> &bias, const std::vector<int32_t> &targets, double scale,
            bool narrow, double smoothing, double z, const std::vector<float> &weights = {}) {
    loss.assign(tokens, 0), dhidden.assign(tokens * cols, 0);
    dweight.assign(width * cols, 0), dbias.assign(width, 0);
    std::vector<double> x(width);
    for (int64_t i = 0; i < tokens; ++i) {
      if (targets[i] < 0)
        continue;
      double largest = 0;
      for (int64_t w = 0; w < width; ++w) {
        x[w] = 0;
        for (int64_t c = 0; c < cols; ++c)
          x[w] += scale * hidden[i * cols + c] * weight[w * cols + c];
        x[w] += bias[w];
        largest = std::max(largest, std::abs(x[w]));
      }
      const double off = narrow ? bfloat16Rounding * largest : 0; // of a logit
      loss[i] = 2 * off;
      const double top = *std::max_element(x.begin(), x.end());
      double sum = 0;
      for (double value : x)
        sum += std::exp(value - top);
      const double slope = 2 * z * (top + std::log(sum)); // of z times the square of the norm
      for (int64_t w = 0; w < width; ++w) {
        const bool isTarget = w == targets[i];
        const double p = std::exp(x[w] - top) / sum,
                     smoothed = smoothing / (isTarget ? 1 : static_cast<double>(width)),
                     gradient = std::abs(p - isTarget) + smoothed;
        const double error =
            (std::expm1(2 * off) * p + bfloat16Rounding * (gradient + p * std::abs(slope))) *
            (weights.empty() ? 1 : std::abs(weights[i]));
        dbias[w] += error;
        for (int64_t c = 0; c < cols; ++c) {
          dhidden[i * cols + c] += scale * error * std::abs(weight[w * cols + c]);
          dweight[w * cols + c] += scale * error * std::abs(hidden[i * cols + c]);
        }
      }
    }
  }
  /// Leaves what is of so many words alone.
  void keep(int64_t first, int64_t words) {
    dweight = {dweight.begin() + first * cols, dweight.begin() + (first + words) * cols};
    dbias = {dbias.begin() + first, dbias.begin() + first + words};
  }
  void allowIn(BothSides &both) const {
    both.allow("loss", loss);
    both.allow("dhidden", dhidden);
    both.allow("dweight", dweight);
    both.allow("dbias", dbias);
  }
};

TEST_F(AgainstHost, Attention) {
  Random r(2);
  FOR_ROUNDS(10) {
    const bool bf16 = r.chance(60), equal = r.chance(30);
    const std::string mask = r.oneOf({"full", "causal", "sliding", "prefix", "blocks", "chunked"});
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
    const bool typed = mask == "prefix" || mask == "blocks";
    if (mask == "sliding" || mask == "chunked" || (typed && r.chance(50)))
      attributes["window"] = 1 + r.upTo(30);
    if (typed && r.chance(70))
      attributes["last_type"] = r.upTo(1);
    if (r.chance(25))
      attributes["softcap"] = 1.5;
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
    AttentionReference exact{heads, keyHeads, size, valueSize, mask};
    exact.window = attributes.value("window", 0);
    exact.scale = attributes["scale"];
    exact.softcap = attributes.value("softcap", 0.0);
    exact.lastType = attributes.value("last_type", exact.lastType);
    exact.tokens = tokens;
    exact.segment = segmentsOf(borders, tokens);
    for (int64_t t = 0; equal && t < tokens; ++t)
      exact.segment[t] = static_cast<int>(t / segment);
    exact.types = types.memory;
    exact.q = elementsOf(q, bf16), exact.k = elementsOf(k, bf16), exact.v = elementsOf(v, bf16);
    const Tensor<float> dout = r.floats({tokens, heads, valueSize});
    exact.dout = elementsOf(dout, bf16);
    const bool withSinks = r.chance(30);
    const Tensor<float> sinks = r.dense({heads});
    if (withSinks)
      exact.sinks.assign(sinks.memory.begin(), sinks.memory.end());
    if (bf16)
      exact.run(true);
    auto addSegments = [&](BothSides &both) {
      if (!equal)
        both.exact("cu_seqlens", list);
      if (typed)
        both.exact("types", types);
    };
    BothSides forward("attention", attributes);
    if (withSinks)
      forward.in("sinks", sinks);
    forward.in("q", q, bf16);
    forward.in("k", k, bf16);
    forward.in("v", v, bf16);
    forward.out("out", out, bf16);
    forward.out("lse", lse);
    addSegments(forward);
    if (bf16)
      allowForward(forward, exact);
    forward.compare({1e-5, 1e-5});
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
    backward.in("dout", dout, bf16);
    backward.out("dq", r.floats({tokens, heads, size}), bf16);
    backward.out("dk", r.floats({tokens, keyHeads, size}, order), bf16);
    backward.out("dv", r.floats({tokens, keyHeads, valueSize}), bf16);
    addSegments(backward);
    if (r.chance(50))
      backward.deviceOnly("workspace", r.dense({tokens * (2 + heads)}), false);
    if (bf16)
      allowBackward(backward, exact);
    backward.compare({3e-5, 3e-5, 1e-5});
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
    AttentionReference exact{heads, keyHeads, size, size, causal ? "causal" : "full"};
    exact.scale = attributes["scale"];
    exact.tokens = tokens;
    exact.segment = segmentsOf(std::vector<int32_t>(ends.begin(), ends.end()), tokens);
    for (int64_t t = 0; equal && t < tokens; ++t)
      exact.segment[t] = static_cast<int>(t / segment);
    const Tensor<float> dout = part(heads);
    exact.q = elementsOf(q, true), exact.k = elementsOf(k, true), exact.v = elementsOf(v, true);
    exact.dout = elementsOf(dout, true);
    exact.run(true);
    BothSides forward("attention", attributes);
    forward.in("q", q, true);
    forward.in("k", k, true);
    forward.in("v", v, true);
    forward.out("out", out, true);
    forward.out("lse", lse);
    if (!equal)
      forward.exact("cu_seqlens", list);
    allowForward(forward, exact);
    forward.compare({1e-5, 1e-5});
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
    backward.in("dout", dout, true);
    backward.out("dq", part(heads), true);
    backward.out("dk", part(keyHeads), true);
    backward.out("dv", part(keyHeads), true);
    if (!equal)
      backward.exact("cu_seqlens", list);
    allowBackward(backward, exact);
    backward.compare({3e-5, 3e-5, 1e-5});
  }
  deviceBackend().expectLoad({});
}

TEST_F(AgainstHost, GatedDelta) {
  Random r(22);
  FOR_ROUNDS(4) {
    const bool bf16 = r.chance(60), equal = r.chance(30);
    const int64_t heads = r.oneOf<int64_t>({1, 3}), size = r.oneOf<int64_t>({16, 5, 40}),
                  valueSize = r.oneOf<int64_t>({16, 3, 33}), segment = r.size(40, 1);
    std::vector<int32_t> borders = {0};
    for (int64_t samples = r.upTo(3); samples > 0; --samples)
      borders.push_back(borders.back() + static_cast<int32_t>(r.size(80)));
    const int64_t tokens = equal ? segment * r.upTo(3) : borders.back() + r.upTo(3);
    borders.resize(borders.size() + r.upTo(2), borders.back());
    Tensor<int32_t> list({static_cast<int64_t>(borders.size())});
    list.memory = borders;
    const nlohmann::json attributes = {{"scale", 0.5}, {"segment_rows", equal ? segment : 0}};
    // Keys of about length 1, decays below 0 and betas within 1, as models have them.
    const Tensor<float> k = r.dense({tokens, heads, size}, 1 / std::sqrt(float(size)));
    Tensor<float> decay = r.dense({tokens, heads}), beta = r.dense({tokens, heads});
    for (float &x : decay.memory)
      x = -std::abs(x);
    for (float &x : beta.memory)
      x = 1 / (1 + std::exp(x));
    const Tensor<float> q = r.dense({tokens, heads, size}), v = r.dense({tokens, heads, valueSize});
    auto addInputs = [&](BothSides &both) {
      both.in("q", q, bf16);
      both.in("k", k, bf16);
      both.in("v", v, bf16);
      both.in("decay", decay, bf16);
      both.in("beta", beta, bf16);
      if (!equal)
        both.exact("cu_seqlens", list);
    };
    BothSides forward("gated_delta", attributes);
    addInputs(forward);
    forward.out("out", r.dense({tokens, heads, valueSize}), bf16);
    forward.compare({1e-5, 1e-5});
    BothSides backward("gated_delta_backward", attributes);
    addInputs(backward);
    backward.in("dout", r.dense({tokens, heads, valueSize}), bf16);
    for (const char *name : {"dq", "dk"})
      backward.out(name, r.dense({tokens, heads, size}), bf16);
    backward.out("dv", r.dense({tokens, heads, valueSize}), bf16);
    for (const char *name : {"ddecay", "dbeta"})
      backward.out(name, r.dense({tokens, heads}), bf16);
    if (r.chance(50))
      backward.deviceOnly("workspace", r.dense({tokens * heads * ((size + 7) / 8 + 2 * size + 2)}),
                          false);
    backward.compare({3e-5, 3e-5});
  }
}

TEST_F(AgainstHost, Rope) {
  Random r(3);
  FOR_ROUNDS(16) {
    const bool bf16 = r.chance(60);
    const int64_t tokens = r.size(60), heads = 1 + r.upTo(19), size = 2 * r.size(40, 1);
    const int64_t turned = r.chance(60) ? size : 2 * r.upTo(size / 2), rows = 1 + r.upTo(30);
    BothSides both("rope", {{"interleaved", r.chance(40)}, {"inverse", r.chance(40)}});
    both.in("x", r.floats({tokens, heads, size}, r.order(3)), bf16);
    both.exact("positions", r.indices(tokens, 0, rows));
    both.in("cos", r.dense({rows, turned}));
    both.in("sin", r.dense({rows, turned}));
    both.out("out", r.floats({tokens, heads, size}), bf16);
    both.compare({1e-7, 1e-7});
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
    embedding.compare(exactly);
    BothSides gradient("embedding_backward", {{"padding", r.chance(50) ? r.upTo(words) : -1}});
    gradient.in("dout", r.floats({tokens, cols}), bf16);
    gradient.exact("ids", ids);
    gradient.out("dtable", r.floats({words, cols}, r.order(2)), bf16 && !wide);
    if (r.chance(50))
      gradient.deviceOnly("workspace", r.dense({2 * tokens}), false);
    gradient.compareSums(tokens + 1, {});

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
    merge.compare(exactly);
    BothSides back("image_merge_backward", {});
    back.in("dout", r.floats({tokens, cols}), bf16);
    back.exact("image_rows", rows);
    if (r.chance(80))
      back.out("dtext", r.floats({tokens, cols}), bf16);
    if (r.chance(80))
      back.out("dfeatures", r.floats({features, cols}), bf16 && !wide);
    if (r.chance(50))
      back.deviceOnly("workspace", r.dense({2 * tokens}), false);
    back.compare(exactly);
  }
}

/// Of parts that share the words of a head: what each states, the loss, and one part's gradients.
TEST_F(AgainstHost, LossesOfSharedWords) {
  Random r(6);
  FOR_ROUNDS(10) {
    const bool bf16 = r.chance(60), biased = r.chance(40), weighted = r.chance(30);
    const int64_t tokens = r.size(70), cols = 1 + r.upTo(60);
    const int64_t words = 1 + r.size(r.chance(30) ? 1500 : 300),
                  parts = r.oneOf<int64_t>({1, 2, 3});
    const double scale = r.oneOf({1.0, 0.5}), s = r.oneOf({0.0, 0.1}), z = r.oneOf({0.0, 1e-3});
    Tensor<int32_t> targets = r.indices(tokens, -1, words);
    Tensor<float> hidden = r.floats({tokens, cols}), bias = r.dense({words}),
                  weight = r.floats({words, cols}, {}, 0.3f);
    const int64_t numbers = s > 0 ? 4 : 3;
    auto partOf = [&](const char *kernel, const UnitRange &own, nlohmann::json attributes) {
      attributes.update({{"first", own.begin}, {"words", words}, {"scale", scale}});
      BothSides both(kernel, attributes);
      Tensor<float> ownWeight({own.size(), cols}), ownBias({own.size()});
      ownWeight.fill([&](int64_t i) { return weight.at(own.begin + i / cols, i % cols); });
      ownBias.fill([&](int64_t i) { return bias[own.begin + i]; });
      both.in("hidden", hidden, bf16);
      both.in("weight", ownWeight, bf16);
      both.exact("targets", targets);
      both.hostOnly("scratch", r.dense({(1 + r.upTo(7)) * (own.size() + 2 * cols)}));
      const int64_t bytes = 4 * tokens + 100 + (1 + r.upTo(20)) * (6 * own.size() + 8 * cols);
      both.deviceOnly("scratch", r.dense({bytes / 4 + 1}), false);
      if (biased)
        both.in("bias", ownBias, bf16);
      return both;
    };
    Tensor<float> statistics({parts, tokens, numbers});
    for (int64_t part = 0; part < parts; ++part) {
      BothSides states =
          partOf("word_statistics", shareOf(words, part, parts), {{"totals", s > 0}});
      states.out("result", r.dense({tokens, numbers}));
      if (!bf16 && r.chance(50))
        states.exact("prediction", r.indices(tokens, 0, 5));
      states.compare({3e-5, 3e-5, 1e-6 * static_cast<double>(words)});
      if (HasFatalFailure())
        return;
      const std::vector<float> &stated = states.result("result");
      std::copy(stated.begin(), stated.end(), statistics.memory.begin() + part * tokens * numbers);
    }
    BothSides loss("joined_cross_entropy", {{"words", words}, {"smoothing", s}, {"z", z}});
    loss.in("statistics", statistics);
    loss.exact("targets", targets);
    loss.out("loss", r.dense({tokens}));
    loss.compare({1e-5, 1e-5});

    const UnitRange own = shareOf(words, r.upTo(parts - 1), parts);
    BothSides gradient = partOf("joined_cross_entropy_backward", own, {{"smoothing", s}, {"z", z}});
    gradient.in("statistics", statistics);
    const Tensor<float> weights = r.dense({tokens});
    if (weighted)
      gradient.in("row_weights", weights);
    gradient.out("dhidden", r.floats({tokens, cols}), bf16);
    gradient.out("dweight", r.floats({own.size(), cols}));
    if (r.chance(40))
      gradient.out("dbias", r.dense({own.size()}));
    if (bf16) {
      LossRoundings errors{tokens, words, cols};
      errors.find(elementsOf(hidden, true), elementsOf(weight, true),
                  biased ? elementsOf(bias, true) : std::vector<double>(words, 0), targets.memory,
                  scale, false, s, z, weighted ? weights.memory : std::vector<float>());
      errors.keep(own.begin, own.size());
      errors.allowIn(gradient);
    }
    gradient.compare({3e-5, 3e-5});
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
    const double scale = r.oneOf({1.0, 0.5}), s = r.oneOf({0.0, 0.1}), z = r.oneOf({0.0, 1e-3});
    BothSides whole("cross_entropy", {{"smoothing", s}, {"z", z}});
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

    const Tensor<float> hidden = r.floats({tokens, cols}), bias = r.dense({width}),
                        weight = r.floats({width, cols}, {}, 0.3f);
    const bool biased = r.chance(40);
    BothSides linear("linear_cross_entropy", {{"scale", scale}, {"smoothing", s}, {"z", z}});
    linear.in("hidden", hidden, bf16);
    linear.in("weight", weight, bf16);
    linear.exact("targets", targets);
    linear.out("loss", r.dense({tokens}));
    // On the host it also holds gathered rows, on the device their order and sometimes a second
    // gradient.
    linear.hostOnly("scratch", r.dense({2 + (2 * cols) / width + r.upTo(20), width}));
    const int64_t bytes = 4 * tokens + 100 + (1 + r.upTo(20)) * (6 * width + 8 * cols);
    linear.deviceOnly("scratch", r.dense({bytes / (width * (narrowLogits ? 2 : 4)) + 1, width}),
                      narrowLogits);
    if (biased)
      linear.in("bias", bias, bf16);
    if (r.chance(80))
      linear.out("dhidden", r.floats({tokens, cols}), bf16);
    if (r.chance(80))
      linear.out("dweight", r.floats({width, cols}));
    if (r.chance(40))
      linear.out("dbias", r.dense({width}));
    if (!bf16 && r.chance(50))
      linear.exact("prediction", r.indices(tokens, 0, 5));
    if (bf16) {
      LossRoundings errors{tokens, width, cols};
      errors.find(elementsOf(hidden, true), elementsOf(weight, true),
                  biased ? elementsOf(bias, true) : std::vector<double>(width, 0), targets.memory,
                  scale, narrowLogits, s, z);
      errors.allowIn(linear);
    }
    linear.compare({3e-5, 3e-5});
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
    copy.compare(exactly);
    BothSides fill("fill", {{"value", r.oneOf({0.0, -1.5})}});
    fill.out("dst", r.floats(shape, r.order(rank)), to);
    fill.compare(exactly);
    nlohmann::json sum = {{"kind", "sum"}, {"accumulate", r.chance(60)}};
    BothSides columns("reduce", sum);
    const int64_t rows = 500 + r.upTo(900), cols = r.chance(50) ? 8 * r.upTo(40) : r.upTo(300);
    columns.in("src", r.floats({rows, cols}), from);
    const Tensor<float> sums = r.dense({1, cols});
    columns.out("dst", sums);
    TensorView many = sums.view;
    many.shape[0] = rows;
    many.strides[0] = 0;
    columns.through(many);
    columns.compareSums(rows + 1, sum);
    sum["accumulate"] = r.chance(60);
    BothSides blocks("reduce", sum);
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
    blocks.compareSums(parts + 1, sum);
    const char *kind = r.oneOf({"sum", "mean", "max", "min"});
    const nlohmann::json attributes = {{"kind", kind}, {"accumulate", r.chance(40)}};
    BothSides reduce("reduce", attributes);
    reduce.in("src", r.floats(shape, r.order(rank)), from);
    std::vector<int64_t> kept = shape;
    for (int64_t &n : kept)
      n = r.chance(50) ? 1 : n;
    const Tensor<float> result = r.dense(kept);
    reduce.out("dst", result, from && to);
    TensorView view = result.view;
    int64_t terms = 2;
    for (int d = 0; d < rank; ++d)
      if (kept[d] != shape[d]) {
        terms *= shape[d];
        view.shape[d] = shape[d];
        view.strides[d] = 0;
      }
    reduce.through(view);
    if (kind == std::string("sum") || kind == std::string("mean"))
      reduce.compareSums(terms, attributes);
    else
      reduce.compare(exactly);
  }
}

} // namespace
