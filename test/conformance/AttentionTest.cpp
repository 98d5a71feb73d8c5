#include "test/conformance/AttentionReference.h"
#include "test/conformance/KernelTest.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

struct Case {
  std::vector<int64_t> lengths;
  int64_t heads, keyHeads, size, valueSize;
  std::string mask = "full";
  int64_t window = 0;
  bool packed = false;       ///< q, k, v are windows of one [T, heads, ...] projection
  bool featureMajor = false; ///< features do not have unit stride
  bool equalSegments = false;
  int64_t tail = 0; ///< rows after the last sample
  double softcap = 0;
  bool sinks = false;
  int64_t firstType = 0, lastType = std::numeric_limits<int32_t>::max();
};

bool isTyped(const Case &test) { return test.mask == "prefix" || test.mask == "blocks"; }

AttentionReference makeReference(const Case &test, std::mt19937 &random) {
  AttentionReference r{test.heads,
                       test.keyHeads,
                       test.size,
                       test.valueSize,
                       test.mask,
                       test.window,
                       0.8 / std::sqrt(double(test.size))};
  r.softcap = test.softcap;
  r.firstType = test.firstType;
  r.lastType = test.lastType;
  for (size_t s = 0; s < test.lengths.size(); ++s)
    for (int64_t i = 0; i < test.lengths[s]; ++i) {
      r.segment.push_back(static_cast<int>(s));
      // A prefix of zeros in most samples, zeros again further on in some, and one that sees
      // nothing of a prefix (-1).
      r.types.push_back(
          i < test.lengths[s] / 3 ? 0 : (s % 2 && i % 7 == 3 ? 0 : (i % 11 == 5 ? -1 : 1)));
      ++r.tokens;
    }
  for (int64_t i = 0; i < test.tail; ++i, ++r.tokens) {
    r.segment.push_back(-1);
    r.types.push_back(0);
  }
  std::normal_distribution<float> normal(0, 1);
  auto draw = [&](std::vector<double> &x, int64_t n) {
    x.resize(n);
    for (double &value : x)
      value = normal(random);
  };
  draw(r.q, r.tokens * test.heads * test.size);
  draw(r.k, r.tokens * test.keyHeads * test.size);
  draw(r.v, r.tokens * test.keyHeads * test.valueSize);
  draw(r.dout, r.tokens * test.heads * test.valueSize);
  if (test.sinks)
    draw(r.sinks, test.heads);
  return r;
}

void runCase(const Case &test, int seed) {
  std::mt19937 random(seed);
  AttentionReference want = makeReference(test, random);
  want.run(true);
  std::vector<int> order =
      test.featureMajor ? std::vector<int>{1, 2, 0} : std::vector<int>{0, 1, 2};
  auto tensor = [&](int64_t heads, int64_t size, const std::vector<double> &values) {
    Tensor<float> t({want.tokens, heads, size}, order, test.packed ? 5 : 0);
    std::fill(t.memory.begin(), t.memory.end(), NAN);
    if (!values.empty())
      t.fill([&](int64_t i) { return static_cast<float>(values[i]); });
    return t;
  };
  Tensor<float> q = tensor(test.heads, test.size, want.q),
                k = tensor(test.keyHeads, test.size, want.k),
                v = tensor(test.keyHeads, test.valueSize, want.v),
                dout = tensor(test.heads, test.valueSize, want.dout);
  std::vector<int32_t> borders = {0};
  for (int64_t n : test.lengths)
    borders.push_back(borders.back() + static_cast<int32_t>(n));
  borders.push_back(borders.back()); // past the last sample
  Tensor<int32_t> cu({static_cast<int64_t>(borders.size())}), types({want.tokens});
  cu.fill([&](int64_t i) { return borders[i]; });
  types.fill([&](int64_t i) { return want.types[i]; });

  nlohmann::json attributes = {{"scale", want.scale}, {"mask", test.mask}};
  if (test.window)
    attributes["window"] = test.window;
  if (test.softcap > 0)
    attributes["softcap"] = test.softcap;
  Tensor<float> sinks({test.heads});
  if (test.sinks)
    sinks.fill([&](int64_t i) { return static_cast<float>(want.sinks[i]); });
  if (isTyped(test)) {
    attributes["first_type"] = test.firstType;
    attributes["last_type"] = test.lastType;
  }
  if (test.equalSegments)
    attributes["segment_rows"] = test.lengths[0];
  std::string what = test.mask + " " + std::to_string(test.heads) + ":" +
                     std::to_string(test.keyHeads) + "x" + std::to_string(test.size) +
                     " T=" + std::to_string(want.tokens);
  Tensor<float> first[5];
  for (int threads : {1, 3}) {
    Tensor<float> out = tensor(test.heads, test.valueSize, {}), lse({want.tokens, test.heads}),
                  dq = tensor(test.heads, test.size, {}), dk = tensor(test.keyHeads, test.size, {}),
                  dv = tensor(test.keyHeads, test.valueSize, {});
    Operands operands = {
        {"q", q.view}, {"k", k.view}, {"v", v.view}, {"out", out.view}, {"lse", lse.view}};
    if (!test.equalSegments)
      operands.push_back({"cu_seqlens", cu.view});
    if (isTyped(test))
      operands.push_back({"types", types.view});
    Operands forward = operands;
    if (test.sinks)
      forward.push_back({"sinks", sinks.view});
    EXPECT_OK(runKernel("attention", forward, attributes, threads));
    expectNear(out, want.out, 3e-6, 1e-5, what + " out");
    expectNear(lse, want.lse, 3e-6, 1e-6, what + " lse");
    for (auto [name, view] :
         {std::pair{"dout", dout.view}, {"dq", dq.view}, {"dk", dk.view}, {"dv", dv.view}})
      operands.push_back({name, view});
    EXPECT_OK(runKernel("attention_backward", operands, attributes, threads));
    expectNear(dq, want.dq, 2e-5, 2e-5, what + " dq");
    expectNear(dk, want.dk, 2e-5, 2e-5, what + " dk");
    expectNear(dv, want.dv, 2e-5, 2e-5, what + " dv");
    Tensor<float> *now[5] = {&out, &lse, &dq, &dk, &dv};
    for (int i = 0; i < 5; ++i) {
      if (threads == 1)
        first[i] = *now[i];
      else
        for (int64_t j = 0; j < now[i]->elements(); ++j)
          ASSERT_EQ((*now[i])[j], first[i][j]) << "threads change the result: " << what;
    }
  }
}

} // namespace

TEST(Attention, ReferenceGradientsMatchFiniteDifferences) {
  std::mt19937 random(1);
  Case test{{5, 3}, 4, 2, 3, 2, "prefix"};
  test.softcap = 0.7;
  test.sinks = true;
  AttentionReference r = makeReference(test, random);
  r.run(true);
  auto analytic = std::array{r.dq, r.dk, r.dv};
  std::vector<double> *inputs[] = {&r.q, &r.k, &r.v};
  for (int which = 0; which < 3; ++which)
    for (size_t i = 0; i < inputs[which]->size(); ++i) {
      double &x = (*inputs[which])[i], keep = x, step = 1e-5;
      x = keep + step;
      double up = r.objective();
      x = keep - step;
      double down = r.objective();
      x = keep;
      ASSERT_NEAR((up - down) / (2 * step), analytic[which][i], 1e-7);
    }
}

TEST(Attention, FullOverTiles) {
  runCase({{17, 17, 17}, 4, 4, 16, 16, "full", 0, false, false, true}, 1);
  runCase({{97, 97}, 2, 2, 32, 32, "full", 0, true, false, true}, 2);
  runCase({{1, 1, 1, 1}, 2, 2, 8, 8, "full", 0, false, false, true}, 3);
}

TEST(Attention, PackedSamples) {
  for (const char *mask : {"full", "causal", "sliding", "prefix"}) {
    int64_t window = std::string(mask) == "sliding" ? 20 : 0;
    runCase({{70, 7, 0, 65, 1}, 4, 2, 16, 16, mask, window}, 3);
    runCase({{64, 9}, 3, 3, 24, 24, mask, window, true}, 3);
  }
}

TEST(Attention, LongPackedSamples) {
  for (const char *mask : {"full", "causal", "sliding", "prefix"}) {
    int64_t window = std::string(mask) == "sliding" ? 40 : 0;
    runCase({{100, 7, 0, 193, 1}, 4, 2, 32, 32, mask, window}, 4);
    runCase({{13, 260}, 2, 1, 64, 64, mask, window, true}, 5);
    runCase({{64, 96, 48}, 3, 3, 24, 24, mask, window, true}, 6);
  }
}

TEST(Attention, BlocksSeeThemselves) {
  int seed = 20;
  for (int64_t window : {0, 1, 20, 150}) // types are 0 at the beginning, then mostly 1
    for (auto [first, last] : {std::pair<int64_t, int64_t>{0, 0}, {1, 1}, {0, 1}, {2, 3}}) {
      Case test{{70, 7, 0, 165, 1}, 4, 2, 16, 16, "blocks", window};
      test.firstType = first;
      test.lastType = last;
      runCase(test, ++seed);
      test = {{13, 230}, 2, 1, 24, 40, "blocks", window, true, true, false, 19};
      test.firstType = first;
      test.lastType = last;
      runCase(test, ++seed);
    }
}

TEST(Attention, ChunksCountFromEachSample) {
  int seed = 50;
  for (int64_t window : {1, 7, 96, 100, 500}) {
    runCase({{70, 7, 0, 265, 1}, 4, 2, 16, 16, "chunked", window}, ++seed);
    runCase({{13, 230}, 2, 1, 24, 40, "chunked", window, true, true, false, 19}, ++seed);
  }
}

TEST(Attention, PrefixSeenByItselfOnly) {
  Case test{{70, 7, 0, 165, 1}, 4, 2, 16, 16, "prefix"};
  test.lastType = 0;
  runCase(test, 60);
}

TEST(Attention, PrefixBesideAWindow) {
  int seed = 90;
  for (int64_t window : {1, 20, 150}) {
    Case test{{70, 7, 0, 365, 1}, 4, 2, 16, 16, "prefix", window};
    runCase(test, ++seed);
    test.lastType = 0;
    runCase(test, ++seed);
  }
}

TEST(Attention, CappedScores) {
  int seed = 70;
  for (const char *mask : {"full", "causal", "sliding", "prefix", "blocks", "chunked"})
    for (double softcap : {0.5, 3.0, 50.0}) {
      Case test{{100, 7, 0, 93, 1}, 4, 2, 32, 32, mask};
      test.window = test.mask == "sliding" || test.mask == "chunked" ? 20 : 0;
      test.softcap = softcap;
      test.firstType = test.mask == "blocks";
      runCase(test, ++seed);
    }
}

TEST(Attention, SinksTakeWeight) {
  int seed = 100;
  for (const char *mask : {"full", "causal", "sliding", "prefix", "blocks", "chunked"}) {
    Case test{{100, 7, 0, 93, 1}, 4, 2, 32, 24, mask};
    test.window = test.mask == "sliding" || test.mask == "chunked" ? 20 : 0;
    test.sinks = true;
    test.tail = 9;
    runCase(test, ++seed);
    test.softcap = 1.5;
    runCase(test, ++seed);
  }
}

TEST(Attention, LargeSinksDoNotOverflow) {
  Tensor<float> q({3, 2, 2}), out({3, 2, 2}), lse({3, 2}), sinks({2});
  q.fill([](int64_t) { return 1.f; });
  sinks[0] = 200, sinks[1] = -200; // takes all of the weight, and none
  EXPECT_OK(runKernel("attention",
                      {{"q", q.view},
                       {"k", q.view},
                       {"v", q.view},
                       {"out", out.view},
                       {"lse", lse.view},
                       {"sinks", sinks.view}},
                      {{"segment_rows", 3}}));
  for (int64_t row = 0; row < 3; ++row) {
    EXPECT_EQ(out.at(row, 0, 0), 0);
    EXPECT_FLOAT_EQ(lse.at(row, 0), 200);
    EXPECT_FLOAT_EQ(out.at(row, 1, 0), 1);
    EXPECT_FLOAT_EQ(lse.at(row, 1), 2 + std::log(3.f));
  }
}

TEST(Attention, AnyHeadSize) {
  for (int64_t size : {1, 5, 20, 72, 80, 129})
    runCase({{50, 30}, 2, 2, size, size, "causal"}, 7);
  runCase({{50, 30}, 4, 1, 24, 40, "causal"}, 8); // values of another size; one key head
  runCase({{50, 30}, 10, 2, 16, 16, "causal"}, 9);
}

TEST(Attention, AnyStride) {
  runCase({{50, 61}, 4, 2, 16, 16, "causal", 0, false, true}, 10);
  runCase({{50, 61}, 4, 2, 13, 9, "full", 0, true, true}, 11);
}

TEST(Attention, WindowOfOneSeesItselfOnly) { runCase({{150, 3}, 2, 2, 16, 16, "sliding", 1}, 12); }

TEST(Attention, RowsAfterTheLastSampleSeeNothing) {
  for (const char *mask : {"full", "causal", "sliding", "prefix"}) {
    int64_t window = std::string(mask) == "sliding" ? 40 : 0;
    runCase({{100, 7}, 4, 2, 16, 16, mask, window, false, false, false, 37}, 14);
    runCase({{70}, 2, 1, 24, 40, mask, window, true, true, false, 1}, 15);
  }
  runCase({{}, 2, 2, 16, 16, "causal", 0, false, false, false, 9}, 16);
}

TEST(Attention, NoRows) {
  runCase({{}, 2, 2, 16, 16, "causal"}, 13);
  Tensor<float> empty({0, 2, 8}), lse({0, 2});
  EXPECT_OK(runKernel("attention",
                      {{"q", empty.view},
                       {"k", empty.view},
                       {"v", empty.view},
                       {"out", empty.view},
                       {"lse", lse.view}},
                      {{"scale", 1.0}, {"segment_rows", 5}}, 2));
}

TEST(Attention, LargeScoresDoNotOverflow) {
  Tensor<float> q({3, 1, 2}), out({3, 1, 2}), lse({3, 1});
  q.fill([](int64_t i) { return i % 2 ? 200.f : -150.f * float(i); });
  EXPECT_OK(
      runKernel("attention",
                {{"q", q.view}, {"k", q.view}, {"v", q.view}, {"out", out.view}, {"lse", lse.view}},
                {{"segment_rows", 3}}));
  for (int64_t i = 0; i < 6; ++i)
    EXPECT_TRUE(std::isfinite(out[i]));
}

TEST(Attention, RejectsBrokenBorders) {
  Tensor<float> x({4, 1, 2}), out({4, 1, 2}), lse({4, 1});
  auto message = [&](std::vector<int32_t> values) {
    Tensor<int32_t> cu({static_cast<int64_t>(values.size())});
    cu.fill([&](int64_t i) { return values[i]; });
    return runKernel("attention", {{"q", x.view},
                                   {"k", x.view},
                                   {"v", x.view},
                                   {"out", out.view},
                                   {"lse", lse.view},
                                   {"cu_seqlens", cu.view}})
        .message();
  };
  EXPECT_NE(message({0, 5}).find("cu_seqlens[1] is 5"), std::string::npos);
  EXPECT_NE(message({0, 3, 2, 4}).find("cu_seqlens[2] is 2"), std::string::npos);
  EXPECT_NE(message({1, 4}).find("cu_seqlens[0] is 1"), std::string::npos);
  EXPECT_EQ(message({0, 3}), ""); // the last row sees nothing
  EXPECT_EQ(message({0, 1, 4, 4, 4}), "");
  EXPECT_NE(
      runKernel("attention",
                {{"q", x.view}, {"k", x.view}, {"v", x.view}, {"out", out.view}, {"lse", lse.view}})
          .message()
          .find("cu_seqlens"),
      std::string::npos);
}
