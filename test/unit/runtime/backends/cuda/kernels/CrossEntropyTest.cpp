#include "runtime/backends/cuda/kernels/CrossEntropy.h"
#include "test/unit/runtime/backends/cuda/kernels/KernelChecks.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

struct Example {
  Tensor<float> logits, loss, dlogits;
  Tensor<int32_t> targets, prediction;
};

/// Logits, and what the host makes of them.
Example makeExample(std::mt19937 &random, int64_t rows, int64_t width, int64_t gap, bool bf16) {
  Example e;
  e.logits = randomTensor(random, {rows, width}, {}, gap, 4.f);
  if (bf16)
    roundAll(e.logits);
  e.targets = Tensor<int32_t>({rows});
  e.targets.fill(
      [&](int64_t) { return random() % 3 == 0 ? -1 : static_cast<int32_t>(random() % width); });
  e.loss = Tensor<float>({rows});
  e.prediction = Tensor<int32_t>({rows});
  e.dlogits = e.logits;
  EXPECT_OK(runKernel("cross_entropy", {{"logits", e.logits.view},
                                        {"targets", e.targets.view},
                                        {"loss", e.loss.view},
                                        {"dlogits", e.dlogits.view},
                                        {"prediction", e.prediction.view}}));
  return e;
}

void expectLoss(const std::vector<float> &got, const Example &e) {
  std::vector<float> want = e.loss.memory; // at least one place, even of no rows
  want.resize(got.size());
  expectMemoryNear(Stored(got, false), want, 4e-6, 4e-6, "loss");
}

} // namespace

TEST(CudaCrossEntropy, RowsLikeTheHost) {
  std::mt19937 random(1);
  for (auto [rows, width] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 5}, {1, 1}, {3, 2}, {9, 33}, {2, 4096}, {5, 5003}, {4, 1000}})
    for (bool bf16 : {false, true})
      for (bool inPlace : {true, false}) {
        const int64_t gap = random() % 4;
        Example e = makeExample(random, rows, width, gap, bf16);
        Stored logits(e.logits.memory, bf16), gradient(e.logits.memory, bf16);
        Stored &to = inPlace ? logits : gradient;
        std::vector<float> loss(rows, NAN);
        std::vector<int32_t> prediction(rows, 77);
        cuda::CrossEntropyShape s{rows, width, width + gap, width + gap, to.type()};
        runInSeveralOrders({to.bytes(), bytesOf(loss), bytesOf(prediction)}, [&] {
          return cuda::launchCrossEntropy(s, logits.data(), e.targets.memory.data(), nullptr,
                                          loss.data(), to.data(), prediction.data(), nullptr);
        });
        expectLoss({loss.begin(), loss.end()}, e);
        expectMemoryNear(to, e.dlogits.memory, 1e-6, roundingOf(bf16, 1e-5), "gradient");
        if (!bf16 && !inPlace) {
          Stored narrow(e.logits.memory, true);
          s.narrowGradient = true;
          runInSeveralOrders({narrow.bytes(), bytesOf(loss)}, [&] {
            return cuda::launchCrossEntropy(s, logits.data(), e.targets.memory.data(), nullptr,
                                            loss.data(), narrow.data(), nullptr, nullptr);
          });
          expectMemoryNear(narrow, e.dlogits.memory, 1e-6, roundingOf(true), "narrow gradient");
        }
        for (int64_t i = 0; i < rows; ++i)
          ASSERT_EQ(prediction[i], e.prediction.memory[i]);
        std::vector<float> only(rows, NAN);
        Stored again(e.logits.memory, bf16);
        EXPECT_EQ(cuda::launchCrossEntropy(s, again.data(), e.targets.memory.data(), nullptr,
                                           only.data(), nullptr, nullptr, nullptr),
                  0);
        EXPECT_EQ(only, loss);
      }
}

TEST(CudaCrossEntropy, ChunksOfTheVocabularyAndGatheredTokens) {
  std::mt19937 random(2);
  const int64_t rows = 9, width = 1237;
  for (bool bf16 : {false, true})
    for (int64_t step : {1237, 300}) {
      Example e = makeExample(random, rows, width, 0, bf16);
      // The gathered rows stand in another order than the tokens.
      std::vector<int32_t> tokens;
      for (int32_t t = rows - 1; t >= 0; --t)
        if (e.targets.memory[t] >= 0)
          tokens.push_back(t);
      const auto count = static_cast<int64_t>(tokens.size());
      std::vector<cuda::CrossEntropyRow> state(count);
      std::vector<float> loss(rows, 0.f);
      std::vector<int32_t> prediction(rows, -1);
      auto chunkOf = [&](int64_t first, int64_t n) {
        std::vector<float> values;
        for (int32_t t : tokens)
          for (int64_t j = 0; j < n; ++j)
            values.push_back(e.logits.at(t, first + j));
        return Stored(values, bf16);
      };
      auto shapeOf = [&](int64_t first, int64_t n) {
        return cuda::CrossEntropyShape{
            count, n, n, n, bf16 ? cuda::Element::BF16 : cuda::Element::F32, first};
      };
      for (int64_t first = 0; first < width; first += step) {
        const int64_t n = std::min(step, width - first);
        Stored chunk = chunkOf(first, n);
        runInSeveralOrders({bytesOf(state)}, [&] {
          return cuda::launchCrossEntropyChunk(shapeOf(first, n), chunk.data(),
                                               e.targets.memory.data(), tokens.data(), state.data(),
                                               nullptr);
        });
      }
      runInSeveralOrders({bytesOf(loss), bytesOf(prediction)}, [&] {
        return cuda::launchCrossEntropyLoss(count, state.data(), e.targets.memory.data(),
                                            tokens.data(), loss.data(), prediction.data(), nullptr);
      });
      expectLoss(loss, e);
      EXPECT_EQ(prediction, e.prediction.memory);
      for (int64_t first = 0; first < width; first += step) {
        const int64_t n = std::min(step, width - first);
        Stored chunk = chunkOf(first, n);
        runInSeveralOrders({chunk.bytes()}, [&] {
          return cuda::launchCrossEntropyGradient(shapeOf(first, n), chunk.data(),
                                                  e.targets.memory.data(), tokens.data(),
                                                  state.data(), chunk.data(), nullptr);
        });
        std::vector<float> want;
        for (int32_t t : tokens)
          for (int64_t j = 0; j < n; ++j)
            want.push_back(e.dlogits.at(t, first + j));
        expectMemoryNear(chunk, want, 1e-6, roundingOf(bf16, 1e-5), "gradient of a chunk");
      }
    }
}

TEST(CudaCrossEntropy, LargeLogitsTiesAndMinusInfinity) {
  const int64_t width = 70;
  std::vector<float> logits(3 * width, 1.f);
  logits[7] = logits[30] = 2.f;
  for (int64_t j = 0; j < width; ++j) {
    logits[width + j] = 3e4f * float(j % 2 ? 1 : -1);
    logits[2 * width + j] = j < 68 ? -INFINITY : 5.f;
  }
  std::vector<int32_t> targets = {3, 1, 69}, prediction(3);
  std::vector<float> loss(3);
  cuda::CrossEntropyShape s{3, width, width, width, cuda::Element::F32};
  EXPECT_EQ(cuda::launchCrossEntropy(s, logits.data(), targets.data(), nullptr, loss.data(),
                                     logits.data(), prediction.data(), nullptr),
            0);
  EXPECT_EQ(prediction, (std::vector<int32_t>{7, 1, 68}));
  EXPECT_NEAR(loss[1], std::log(35.0), 1e-5);
  EXPECT_NEAR(loss[2], std::log(2.0), 1e-6);
  for (float x : logits)
    EXPECT_TRUE(std::isfinite(x));
}

TEST(CudaCrossEntropy, ANanIsNotLost) {
  for (int64_t place : {0, 1, 6, 69}) {
    std::vector<float> logits(70, -INFINITY);
    logits[40] = 1, logits[place] = NAN;
    const std::vector<int32_t> targets = {40};
    std::vector<float> loss(1);
    cuda::CrossEntropyShape s{1, 70, 70, 70, cuda::Element::F32};
    EXPECT_EQ(cuda::launchCrossEntropy(s, logits.data(), targets.data(), nullptr, loss.data(),
                                       nullptr, nullptr, nullptr),
              0);
    EXPECT_TRUE(std::isnan(loss[0])) << place;
  }
}
