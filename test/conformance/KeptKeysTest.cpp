// Attention that goes on from kept keys against attention over the whole sample.
#include "test/conformance/KernelTest.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

constexpr int64_t tokens = 70, prompt = 50, heads = 4, keyHeads = 2, size = 16, valueSize = 24;

/// Rows [begin, begin + rows) of a tensor [tokens, ..].
TensorView rowsOf(const TensorView &whole, int64_t begin, int64_t rows) {
  TensorView view = whole;
  view.shape[0] = rows;
  const int64_t bytes = byteSize(whole.dtype);
  view.data = static_cast<std::byte *>(whole.data) + begin * whole.strides[0] * bytes;
  return view;
}

struct Problem {
  std::mt19937 random{7};
  Tensor<float> q = randomTensor(random, {tokens, heads, size}, {1, 2, 0}),
                k = randomTensor(random, {tokens, keyHeads, size}, {0, 1, 2}, 3),
                v = randomTensor(random, {tokens, keyHeads, valueSize}),
                sinks = randomTensor(random, {heads});
  Tensor<int32_t> types{{tokens}}, borders{{3}};
  nlohmann::json attributes;
  bool isTyped, hasSinks;

  Problem(const std::string &mask, bool hasSinks)
      : attributes{{"mask", mask}, {"scale", 0.25}, {"softcap", hasSinks ? 2.0 : 0.0}},
        isTyped(mask == "prefix" || mask == "blocks"), hasSinks(hasSinks) {
    if (mask == "sliding" || mask == "chunked")
      attributes["window"] = 17;
    if (mask == "blocks")
      attributes["last_type"] = 0;
    types.fill([](int64_t t) { return t > 10 && t < 40 && t % 20 != 0 ? 0 : 1; });
  }

  BoundCall call() const {
    BoundCall bound;
    bound.kernel = "attention";
    bound.attributes = attributes;
    bound.operands = {"q", "k", "v", "out", "lse", "cu_seqlens"};
    if (isTyped)
      bound.operands.push_back("types");
    if (hasSinks)
      bound.operands.push_back("sinks");
    return bound;
  }

  /// Operands of the rows from `begin` on: so many of the sample, and `tail` that belong to none.
  std::vector<TensorView> operands(Tensor<float> &out, Tensor<float> &lse, int64_t begin,
                                   int64_t rows, int64_t tail = 0) {
    borders.fill([&](int64_t i) { return static_cast<int32_t>(i == 0 ? 0 : rows); });
    std::vector<TensorView> views;
    for (const TensorView &whole : {q.view, k.view, v.view, out.view, lse.view})
      views.push_back(rowsOf(whole, begin, rows + tail));
    views.push_back(borders.view);
    if (isTyped)
      views.push_back(rowsOf(types.view, begin, rows + tail));
    if (hasSinks)
      views.push_back(sinks.view);
    return views;
  }
};

/// Runs a kernel behind what it has kept.
class Behind final : public Kernel {
public:
  Behind(Kernel &kernel, KeptKeys::Rows &kept) : kernel(kernel), kept(kept) {}
  Status run(std::span<const TensorView> operands, const SymbolValues &symbols,
             ThreadPool &pool) override {
    return kernel.runBehind(kept, operands, symbols, pool);
  }

private:
  Kernel &kernel;
  KeptKeys::Rows &kept;
};

void check(const std::string &mask, bool hasSinks, int threads) {
  Problem problem(mask, hasSinks);
  Result<std::unique_ptr<Kernel>> kernel = createKernelUnderTest(problem.call());
  ASSERT_TRUE(kernel) << kernel.status().message();
  ASSERT_TRUE((*kernel)->keepsKeys());
  Tensor<float> want({tokens, heads, valueSize}), wantLse({tokens, heads}), got = want,
                                                                            gotLse = wantLse;
  EXPECT_OK(
      runKernelUnderTest(**kernel, problem.operands(want, wantLse, 0, tokens), 0, tokens, threads));
  KeptKeys kept(tokens);
  for (int64_t begin = 0, rows = prompt; begin < tokens; begin += rows, rows = 1) {
    // What lies behind is overwritten by the next run.
    const int64_t tail = std::min<int64_t>(3, tokens - begin - rows);
    Behind behind(**kernel, kept.of({}, rows));
    EXPECT_OK(runKernelUnderTest(behind, problem.operands(got, gotLse, begin, rows, tail), 0, rows,
                                 threads));
    for (int64_t t = begin + rows; t < begin + rows + tail; ++t)
      EXPECT_EQ(got.at(t, 0, 0), 0) << "the row belongs to no sample";
  }
  auto near = [&](Tensor<float> &result, Tensor<float> &expected, const char *name) {
    const std::vector<double> list(expected.memory.begin(), expected.memory.end());
    expectNear(result, list, 2e-6, 2e-6, mask + " " + name);
  };
  near(got, want, "out");
  near(gotLse, wantLse, "lse");
}

} // namespace

TEST(KeptKeys, PiecesOfASampleGiveWhatTheWholeGives) {
  for (const char *mask : {"causal", "sliding", "prefix", "blocks", "chunked"})
    for (bool sinks : {false, true})
      for (int threads : {1, 2})
        check(mask, sinks, threads);
}

TEST(KeptKeys, ThoseOfPicturesAreNot) {
  BoundCall call = Problem("causal", false).call();
  call.borders = Borders::Segments;
  Result<std::unique_ptr<Kernel>> kernel = createKernelUnderTest(call);
  ASSERT_TRUE(kernel);
  EXPECT_FALSE((*kernel)->keepsKeys());
}
