#include "runtime/backends/cuda/kernels/attention/AttentionMma.h"
#include "test/unit/runtime/backends/cuda/kernels/KernelChecks.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

struct Case {
  std::vector<int64_t> lengths;
  int64_t heads, keyHeads, size, valueSize;
  std::string mask = "full";
  int64_t window = 0;
  bool bf16 = false;
  bool featureMajor = false;  ///< features do not have unit stride
  bool equalSegments = false; ///< segment_rows instead of cu_seqlens
  int64_t gap = 0;            ///< between lines
  int64_t tail = 0;           ///< rows past the last sample
  bool tensorCores = false;   ///< whose kernels must take it
  float softcap = 0;
  bool sinks = false;
  int64_t firstType = 0, lastType = std::numeric_limits<int32_t>::max();
};

bool isTyped(const Case &c) { return c.mask == "prefix" || c.mask == "blocks"; }

cuda::HeadStrides headsOf(const TensorView &v) {
  return {v.strides[0], v.strides[1], v.strides[2]};
}

/// Everything with `rows` tokens; the samples' values are the same for any number of them.
struct Problem {
  Tensor<float> q, k, v, out, lse, dout, dq, dk, dv, sinks;
  Tensor<int32_t> types, borders;

  Problem(const Case &c, int64_t rows, int seed) {
    const std::vector<int> order =
        c.featureMajor ? std::vector<int>{1, 2, 0} : std::vector<int>{0, 1, 2};
    // Values by the elements' row-major numbers: more rows change nothing in the first ones.
    auto tensor = [&](int64_t heads, int64_t size, int draw) {
      std::mt19937 random(draw);
      std::normal_distribution<float> normal(0, 1);
      Tensor<float> t({rows, heads, size}, order, c.gap);
      std::fill(t.memory.begin(), t.memory.end(), NAN);
      for (int64_t i = 0; i < t.elements() && draw; ++i)
        t[i] = c.bf16 ? fromBf16(roundToBf16(normal(random))) : normal(random);
      return t;
    };
    q = tensor(c.heads, c.size, seed);
    k = tensor(c.keyHeads, c.size, seed + 1);
    v = tensor(c.keyHeads, c.valueSize, seed + 2);
    dout = tensor(c.heads, c.valueSize, seed + 3);
    out = tensor(c.heads, c.valueSize, 0);
    dq = tensor(c.heads, c.size, 0);
    dk = tensor(c.keyHeads, c.size, 0);
    dv = tensor(c.keyHeads, c.valueSize, 0);
    lse = Tensor<float>({rows, c.heads});
    sinks = Tensor<float>({c.heads});
    std::mt19937 random(seed + 4);
    for (float &sink : sinks.memory)
      sink = std::normal_distribution<float>(0, 1)(random);
    types = Tensor<int32_t>({rows});
    std::vector<int32_t> list = {0};
    for (int64_t n : c.lengths) {
      for (int64_t i = 0; i < n; ++i)
        types[list.back() + i] = i < n / 3 ? 0 : (i % 7 == 3 ? 0 : (i % 11 == 5 ? -1 : 1));
      list.push_back(list.back() + static_cast<int32_t>(n));
    }
    list.push_back(list.back()); // past the last sample
    borders = Tensor<int32_t>({static_cast<int64_t>(list.size())});
    borders.memory = list;
  }
};

/// What the host makes of it.
void runHost(const Case &c, Problem &p, float scale) {
  nlohmann::json attributes = {{"scale", scale}, {"mask", c.mask}};
  if (c.window)
    attributes["window"] = c.window;
  if (c.softcap > 0)
    attributes["softcap"] = c.softcap;
  if (isTyped(c)) {
    attributes["first_type"] = c.firstType;
    attributes["last_type"] = c.lastType;
  }
  Operands operands = {
      {"q", p.q.view}, {"k", p.k.view}, {"v", p.v.view}, {"out", p.out.view}, {"lse", p.lse.view}};
  if (c.equalSegments)
    attributes["segment_rows"] = c.lengths[0];
  else {
    p.borders.view.data = p.borders.memory.data();
    operands.push_back({"cu_seqlens", p.borders.view});
  }
  if (isTyped(c))
    operands.push_back({"types", p.types.view});
  Operands forward = operands;
  p.sinks.view.data = p.sinks.memory.data();
  if (c.sinks)
    forward.push_back({"sinks", p.sinks.view});
  EXPECT_OK(runKernel("attention", forward, attributes));
  for (auto [name, view] :
       {std::pair{"dout", p.dout.view}, {"dq", p.dq.view}, {"dk", p.dk.view}, {"dv", p.dv.view}})
    operands.push_back({name, view});
  EXPECT_OK(runKernel("attention_backward", operands, attributes));
}

/// The first `tokens` tokens as the host has them, the others zero, gaps as they were (NaN).
void expectRows(const Tensor<float> &layout, const Stored &got, Tensor<float> &want, int64_t tokens,
                double absolute, double relative, const std::string &what) {
  Tensor<float> values = layout; // of all rows, gaps included
  int64_t untouched = 0;
  for (size_t i = 0; i < values.memory.size(); ++i) {
    values.memory[i] = got.at(static_cast<int64_t>(i));
    untouched += std::isnan(values.memory[i]);
  }
  ASSERT_EQ(untouched, static_cast<int64_t>(values.memory.size()) - values.elements()) << what;
  const int64_t perRow = values.view.shape[1] * values.view.shape[2];
  for (int64_t i = 0; i < values.elements(); ++i) {
    const double right = i / perRow < tokens ? want[i] : 0;
    ASSERT_LE(std::abs(values[i] - right), absolute + relative * std::abs(right))
        << what << ": element " << i << " is " << values[i] << ", the host has " << right;
  }
}

void runCase(const Case &c, int seed) {
  int64_t tokens = 0;
  for (int64_t n : c.lengths)
    tokens += n;
  const int64_t rows = tokens + c.tail;
  const float scale = 0.8f / std::sqrt(static_cast<float>(c.size));
  Problem all(c, rows, seed), host(c, tokens, seed);
  runHost(c, host, scale);

  Stored q(all.q.memory, c.bf16), k(all.k.memory, c.bf16), v(all.v.memory, c.bf16),
      out(all.out.memory, c.bf16), dout(all.dout.memory, c.bf16), dq(all.dq.memory, c.bf16),
      dk(all.dk.memory, c.bf16), dv(all.dv.memory, c.bf16);
  std::vector<float> lse(rows * c.heads, NAN);
  cuda::AttentionShape s;
  s.tokens = rows, s.heads = c.heads, s.keyHeads = c.keyHeads;
  s.size = c.size, s.valueSize = c.valueSize;
  s.q = s.dq = headsOf(all.q.view), s.k = s.dk = headsOf(all.k.view);
  s.v = s.dv = headsOf(all.v.view), s.out = s.dout = headsOf(all.out.view);
  s.lseToken = c.heads, s.scale = scale, s.window = c.window, s.type = q.type();
  const std::vector<std::string> masks = {"full",   "causal", "sliding",
                                          "prefix", "blocks", "chunked"};
  s.mask = static_cast<cuda::AttentionMask>(std::find(masks.begin(), masks.end(), c.mask) -
                                            masks.begin());
  cuda::AttentionData d;
  d.q = q.data(), d.k = k.data(), d.v = v.data(), d.out = out.data(), d.lse = lse.data();
  if (c.equalSegments)
    s.segmentRows = c.lengths[0];
  else
    d.borders = all.borders.memory.data(), s.borderCount = int64_t(all.borders.memory.size());
  s.softcap = c.softcap, s.firstType = c.firstType, s.lastType = c.lastType;
  if (isTyped(c))
    d.types = all.types.memory.data();
  if (c.sinks)
    d.sinks = all.sinks.memory.data();
  d.dout = dout.data(), d.dq = dq.data(), d.dk = dk.data(), d.dv = dv.data();
  std::vector<double> workspace(cuda::attentionWorkspaceBytes(s) / 8 + 1);
  d.workspace = workspace.data();

  const std::string what = c.mask + " " + std::to_string(c.heads) + ":" +
                           std::to_string(c.keyHeads) + "x" + std::to_string(c.size) +
                           (c.bf16 ? " bf16 seed " : " f32 seed ") + std::to_string(seed);
  runInSeveralOrders(
      {out.bytes(), bytesOf(lse)}, [&] { return cuda::launchAttention(s, d, nullptr); }, 2);
  runInSeveralOrders(
      {dq.bytes(), dk.bytes(), dv.bytes()},
      [&] { return cuda::launchAttentionBackward(s, d, nullptr); }, 2);
  for (int64_t i = 0; i < rows * c.heads; ++i) {
    const float want = i < tokens * c.heads ? host.lse[i] : -INFINITY;
    if (lse[i] != want) {
      ASSERT_LE(std::abs(lse[i] - want), 4e-6 + 2e-6 * std::abs(want)) << what << " lse " << i;
    }
  }
  // On the tensor cores the probabilities are rounded to bfloat16 too.
  const bool rounded = cuda::onTensorCores(s, d, true);
  EXPECT_TRUE(rounded || !c.tensorCores) << what;
  const double rounding = c.bf16 ? 0.004 : 0;
  expectRows(all.out, out, host.out, tokens, 4e-6 + (rounded ? 0.006 : rounding / 8),
             1e-5 + rounding, what + " out");
  // In bfloat16 delta = out . dout is of the rounded out.
  const double absolute = c.bf16 ? 0.02 : 3e-5, relative = c.bf16 ? 0.01 : 3e-5;
  expectRows(all.q, dq, host.dq, tokens, absolute, relative, what + " dq");
  expectRows(all.k, dk, host.dk, tokens, absolute, relative, what + " dk");
  expectRows(all.v, dv, host.dv, tokens, absolute, relative, what + " dv");
}

Case make(std::vector<int64_t> lengths, int64_t heads, int64_t keyHeads, int64_t size,
          std::string mask = "full", int64_t window = 0) {
  return {std::move(lengths), heads, keyHeads, size, size, std::move(mask), window};
}

} // namespace

TEST(CudaAttention, EverySample) {
  int seed = 10;
  for (const char *mask : {"full", "causal", "sliding", "prefix"}) {
    const int64_t window = std::string(mask) == "sliding" ? 20 : 0;
    runCase(make({40, 7, 0, 88, 1}, 4, 2, 16, mask, window), seed += 10);
    Case c = make({13, 70}, 2, 1, 24, mask, window);
    c.bf16 = true;
    runCase(c, seed += 10);
  }
}

TEST(CudaAttention, BlocksChunksAndCappedScores) {
  int seed = 100;
  for (int64_t window : {0, 1, 20})
    for (auto [first, last] : {std::pair<int64_t, int64_t>{0, 0}, {1, 1}, {0, 1}}) {
      Case c = make({40, 7, 0, 148, 1}, 4, 2, 16, "blocks", window);
      c.firstType = first, c.lastType = last;
      c.tail = 5;
      runCase(c, seed += 10);
    }
  for (int64_t window : {1, 20, 64})
    runCase(make({40, 7, 0, 148, 1}, 4, 2, 16, "chunked", window), seed += 10);
  for (const char *mask : {"full", "causal", "sliding", "prefix", "blocks", "chunked"}) {
    const bool windowed = std::string(mask) == "sliding" || std::string(mask) == "chunked";
    Case c = make({40, 90}, 2, 1, 16, mask, windowed ? 20 : 0);
    c.softcap = 0.7f;
    c.lastType = 0;
    runCase(c, seed += 10);
    c.bf16 = true; // not on the tensor cores
    runCase(c, seed += 10);
  }
}

TEST(CudaAttention, PrefixBesideAWindow) {
  int seed = 330;
  for (int64_t window : {1, 20})
    for (int64_t lastType : {0, 1}) {
      Case c = make({100, 7, 130}, 2, 1, 16, "prefix", window);
      c.lastType = lastType;
      runCase(c, seed += 10);
      c.bf16 = true;
      c.tail = 3;
      runCase(c, seed += 10);
    }
}

TEST(CudaAttention, SinksTakeWeight) {
  int seed = 300;
  for (const char *mask : {"full", "causal", "sliding", "prefix"}) {
    Case c = make({40, 90, 1}, 4, 2, 16, mask, std::string(mask) == "sliding" ? 20 : 0);
    c.sinks = true;
    c.tail = 5;
    runCase(c, seed += 10);
    c.bf16 = true;
    c.tensorCores = std::string(mask) != "prefix";
    runCase(c, seed += 10);
  }
}

TEST(CudaAttention, HeadSizes) {
  int seed = 200;
  for (int64_t size : {1, 6, 13, 64, 130})
    runCase(make({30, 40}, 1, 1, size, "causal"), seed += 10);
  Case c = make({30, 40}, 2, 1, 24, "causal");
  c.valueSize = 72;
  runCase(c, seed += 10);
  c.bf16 = true;
  c.valueSize = 7;
  runCase(c, seed += 10);
}

TEST(CudaAttention, TilesAndLayouts) {
  Case c = make({17, 17, 17, 17, 17}, 2, 2, 8);
  c.equalSegments = true;
  runCase(c, 400);
  c.lengths = {1, 1, 1};
  runCase(c, 410);
  c = make({50, 21}, 2, 2, 16, "causal");
  c.featureMajor = true;
  c.gap = 3;
  runCase(c, 420);
  c.featureMajor = false;
  c.gap = 4; // still in packs
  runCase(c, 430);
  runCase(make({70, 3}, 1, 1, 16, "sliding", 1), 440);
}

TEST(CudaAttention, RowsOfABucketsTailSeeNothing) {
  Case c = make({60, 9}, 2, 1, 16, "causal");
  c.tail = 59;
  runCase(c, 500);
  c.mask = "prefix";
  c.bf16 = true;
  runCase(c, 510);
  c = make({}, 2, 2, 16, "causal");
  c.tail = 3; // no sample at all
  runCase(c, 520);
}

TEST(CudaAttention, OnTensorCores) {
  int seed = 600;
  for (const char *mask : {"full", "causal", "sliding"}) {
    Case c = make({130, 3, 0, 20}, 2, 1, 64, mask, std::string(mask) == "sliding" ? 40 : 0);
    c.bf16 = c.tensorCores = true;
    runCase(c, seed += 10);
  }
  for (auto [size, valueSize] :
       {std::pair{8, 8}, {72, 72}, {128, 128}, {104, 40}, {16, 128}, {256, 256}}) {
    Case c = make({33, 40}, 2, 1, size, "causal");
    c.valueSize = valueSize;
    c.tail = 7;
    c.gap = 8; // as of a projection that is wider
    c.bf16 = c.tensorCores = true;
    runCase(c, seed += 10);
  }
  Case c = make({70, 70}, 1, 1, 80);
  c.equalSegments = c.bf16 = c.tensorCores = true;
  runCase(c, seed += 10);
  c = make({}, 2, 2, 64, "causal");
  c.tail = 3; // no sample at all
  c.bf16 = c.tensorCores = true;
  runCase(c, seed += 10);
}

TEST(CudaAttention, LargeScoresStayFinite) {
  std::vector<float> q = {0, 200, -300, 200, -600, 200}, out(6), lse(3);
  cuda::AttentionShape s;
  s.tokens = 3, s.heads = s.keyHeads = 1, s.size = s.valueSize = 2;
  s.q = s.k = s.v = s.out = {2, 2, 1};
  s.lseToken = 1, s.segmentRows = 3;
  cuda::AttentionData d;
  d.q = d.k = d.v = q.data(), d.out = out.data(), d.lse = lse.data();
  EXPECT_EQ(cuda::launchAttention(s, d, nullptr), 0);
  for (float x : out)
    EXPECT_TRUE(std::isfinite(x));
  EXPECT_NEAR(lse[2], 600.f * 600 + 200 * 200, 0.5);
  s.tokens = 0;
  EXPECT_EQ(cuda::launchAttention(s, d, nullptr), 0);
  EXPECT_EQ(cuda::launchAttentionBackward(s, d, nullptr), 0);
  s.tokens = 3, s.keyHeads = 2;
  EXPECT_NE(cuda::launchAttention(s, d, nullptr), 0);
}
