#include "test/unit/cuda_kernels/GemmCase.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

struct Case {
  std::vector<int64_t> batch;
  int64_t m, n, k;
  bool bf16 = false, wideResult = true;
};

void runCase(const Case &test, std::mt19937 &random) {
  auto draw = [&](int64_t rows, int64_t cols) {
    std::vector<int64_t> shape = test.batch;
    shape.push_back(rows);
    shape.push_back(cols);
    std::vector<int> order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    if (random() % 2)
      std::swap(order[order.size() - 2], order.back());
    Tensor<float> t = randomTensor(random, shape, order, random() % 3);
    if (test.bf16)
      roundAll(t);
    return t;
  };
  const bool narrow = test.bf16 && !test.wideResult;
  GemmCase done({draw(test.m, test.k), draw(test.k, test.n), draw(test.m, test.n),
                 draw(test.m, test.n), draw(test.m, test.n), randomTensor(random, {test.n})},
                test.bf16, narrow, random);
  runInSeveralOrders(
      {done.c.bytes(), done.pre.bytes()},
      [&] {
        return cuda::launchGemm(done.shape(), done.a.data(), done.b.data(), done.c.data(),
                                done.biasData(), done.residualData(), done.preData(), nullptr);
      },
      2);
  const double bound = 2e-6 * std::sqrt(static_cast<double>(test.k + 1));
  const std::string what = done.name();
  expectMemoryNear(done.c, done.tensors.c.memory, bound, roundingOf(narrow, 4e-6), what);
  expectMemoryNear(done.pre, done.tensors.pre.memory, bound, roundingOf(narrow, 4e-6),
                   what + " pre");
}

} // namespace

TEST(CudaGemm, LikeTheHost) {
  std::mt19937 random(1);
  for (int round = 0; round < 3; ++round)
    for (Case c : std::vector<Case>{{{}, 1, 1, 1},
                                    {{}, 65, 70, 33},
                                    {{}, 0, 5, 3},
                                    {{}, 12, 130, 5},
                                    {{3}, 17, 9, 40},
                                    {{2, 3}, 8, 20, 16}}) {
      runCase(c, random);
      c.bf16 = true;
      runCase(c, random);
      c.wideResult = false;
      runCase(c, random);
    }
}

TEST(CudaGemm, NoTermsGiveTheBias) {
  cuda::GemmShape s;
  s.m = 2, s.n = 3;
  s.c.strides = {3, 1};
  std::vector<float> c(6, NAN), bias = {1, 2, 3};
  EXPECT_EQ(cuda::launchGemm(s, nullptr, nullptr, c.data(), bias.data(), nullptr, nullptr, nullptr),
            0);
  EXPECT_EQ(c, (std::vector<float>{1, 2, 3, 1, 2, 3}));
  s.accumulate = true;
  EXPECT_NE(cuda::launchGemm(s, nullptr, nullptr, c.data(), bias.data(), nullptr, nullptr, nullptr),
            0);
}
