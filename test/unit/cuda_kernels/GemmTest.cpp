#include "runtime/backends/cuda/kernels/Gemm.h"
#include "test/unit/cuda_kernels/KernelChecks.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

const char *const activations[] = {"none", "gelu", "gelu_tanh", "silu", "quick_gelu", "relu"};

cuda::GemmShape::Operand operandOf(const TensorView &v) {
  cuda::GemmShape::Operand o;
  o.strides = {v.strides[v.rank - 2], v.strides[v.rank - 1]};
  for (int d = 0; d < v.rank - 2; ++d)
    o.batch[d] = v.strides[d];
  return o;
}

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
  Tensor<float> a = draw(test.m, test.k), b = draw(test.k, test.n), c = draw(test.m, test.n),
                residual = draw(test.m, test.n), pre = draw(test.m, test.n),
                bias = randomTensor(random, {test.n});
  if (test.bf16)
    roundAll(bias);
  const bool accumulate = random() % 4 == 0;
  const int activation = accumulate ? 0 : static_cast<int>(random() % 6);
  const bool withBias = !accumulate && random() % 2, withResidual = !accumulate && random() % 2,
             withPre = !accumulate && random() % 2;
  const bool narrow = test.bf16 && !test.wideResult;
  Stored sa(a.memory, test.bf16), sb(b.memory, test.bf16), sbias(bias.memory, test.bf16),
      sc(c.memory, narrow), sresidual(residual.memory, narrow), spre(pre.memory, narrow);

  Operands operands = {{"a", a.view}, {"b", b.view}, {"c", c.view}};
  if (withBias)
    operands.push_back({"bias", bias.view});
  if (withResidual)
    operands.push_back({"residual", residual.view});
  if (withPre)
    operands.push_back({"pre", pre.view});
  EXPECT_OK(runKernel(
      "gemm", operands,
      {{"alpha", 0.5}, {"accumulate", accumulate}, {"activation", activations[activation]}}));
  cuda::GemmShape s;
  s.m = test.m, s.n = test.n, s.k = test.k;
  for (int64_t size : test.batch)
    s.batch[s.batchRank++] = size;
  s.a = operandOf(a.view), s.b = operandOf(b.view), s.c = operandOf(c.view);
  s.residual = operandOf(residual.view), s.pre = operandOf(pre.view);
  s.alpha = 0.5f, s.accumulate = accumulate, s.type = sa.type(), s.resultType = sc.type();
  s.activation = static_cast<cuda::GemmActivation>(activation);
  runInSeveralOrders(
      {sc.bytes(), spre.bytes()},
      [&] {
        return cuda::launchGemm(
            s, sa.data(), sb.data(), sc.data(), withBias ? sbias.data() : nullptr,
            withResidual ? sresidual.data() : nullptr, withPre ? spre.data() : nullptr, nullptr);
      },
      2);
  const double bound = 2e-6 * std::sqrt(static_cast<double>(test.k + 1));
  const std::string what = std::to_string(test.m) + "x" + std::to_string(test.n) + "x" +
                           std::to_string(test.k) + " " + activations[activation];
  expectMemoryNear(sc, c.memory, bound, roundingOf(narrow, 4e-6), what);
  expectMemoryNear(spre, pre.memory, bound, roundingOf(narrow, 4e-6), what + " pre");
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
