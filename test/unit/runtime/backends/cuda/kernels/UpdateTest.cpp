#include "runtime/backends/cuda/kernels/Update.h"
#include "runtime/backends/host/Optimizer.h"
#include "test/unit/runtime/backends/cuda/kernels/KernelChecks.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

struct Parameters {
  std::vector<std::vector<float>> param, grad, m, v;
  std::vector<std::vector<uint16_t>> copy;

  explicit Parameters(const std::vector<int64_t> &sizes) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal(0, 1);
    for (int64_t n : sizes) {
      for (auto *list : {&param, &grad, &m, &v}) {
        list->emplace_back(n);
        for (float &x : list->back())
          x = list == &v ? 0.1f * std::abs(normal(random)) : normal(random);
      }
      copy.emplace_back(n, uint16_t(0));
    }
  }
  /// `shift`: the first values are left out, so that pointers are not aligned to packs.
  std::vector<cuda::UpdateTensor> tensors(size_t shift) {
    std::vector<cuda::UpdateTensor> list;
    for (size_t i = 0; i < param.size(); ++i) {
      const size_t s = std::min(shift, param[i].size());
      list.push_back({param[i].data() + s, grad[i].data() + s, m[i].data() + s, v[i].data() + s,
                      i % 3 == 0 ? copy[i].data() + s : nullptr,
                      static_cast<int64_t>(param[i].size() - s), static_cast<int32_t>(i % 3)});
    }
    return list;
  }
  std::vector<std::pair<void *, size_t>> bytes() {
    std::vector<std::pair<void *, size_t>> all;
    for (auto *list : {&param, &grad, &m, &v})
      for (auto &x : *list)
        all.push_back(bytesOf(x));
    for (auto &x : copy)
      all.push_back(bytesOf(x));
    return all;
  }
};

const std::vector<int64_t> sizes = {1, 0, 17, 20000, 3, 33000, 64};
const std::vector<UpdateRate> rates = {{3e-3, 0.05}, {3e-3, 0}, {1e-2, 0.2}};

void expectClose(const std::vector<float> &got, const std::vector<float> &want, double bound) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], bound * (1 + std::abs(want[i])));
}

} // namespace

class CudaUpdateBy : public testing::TestWithParam<OptimizerKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, CudaUpdateBy,
                         testing::Values(OptimizerKind::AdamW, OptimizerKind::Lion,
                                         OptimizerKind::Sgd));

TEST_P(CudaUpdateBy, LikeTheHost) {
  for (size_t shift : {0, 1}) {
    Parameters got(sizes), want(sizes);
    UpdateOptions options;
    options.kind = GetParam(), options.momentum = 0.8, options.nesterov = shift == 0;
    options.rates = rates, options.beta2 = 0.95;
    options.step = 3, options.gradientScale = 0.25 * 0.5, options.zeroGradients = shift == 0;
    std::vector<UpdatedTensor> hostTensors;
    for (auto &t : want.tensors(shift))
      hostTensors.push_back({t.param, t.grad, t.moment1, t.moment2, t.elements, t.rate});
    ThreadPool pool(1);
    update(hostTensors, options, pool);

    const auto tensors = got.tensors(shift);
    const auto blocks = cuda::cutIntoBlocks(tensors);
    cuda::UpdateShape s{{tensors.data(), blocks.data(), static_cast<int64_t>(blocks.size())},
                        options};
    s.options.gradientScale = 0.25; // and the other half from the device
    const float half = 0.5f;
    runInSeveralOrders(got.bytes(), [&] { return cuda::launchUpdate(s, &half, nullptr); });
    for (size_t t = 0; t < sizes.size(); ++t) {
      expectClose(got.param[t], want.param[t], 1e-6);
      expectClose(got.grad[t], want.grad[t], 0);
      expectClose(got.m[t], want.m[t], 1e-6);
      expectClose(got.v[t], want.v[t], 1e-6);
      for (size_t i = t % 3 == 0 ? shift : sizes[t]; i < got.copy[t].size(); ++i)
        ASSERT_EQ(got.copy[t][i], roundToBf16(got.param[t][i]));
    }
  }
}

TEST(CudaUpdate, AveragesLikeTheHost) {
  for (size_t shift : {0, 1}) {
    Parameters got(sizes), want(sizes);
    std::vector<AveragedTensor> hostTensors;
    for (auto &t : want.tensors(shift))
      hostTensors.push_back({t.param, t.moment1, t.elements});
    ThreadPool pool(1);
    average(hostTensors, 0.9, pool);
    const auto tensors = got.tensors(shift);
    const auto blocks = cuda::cutIntoBlocks(tensors);
    const cuda::UpdateList list{tensors.data(), blocks.data(), static_cast<int64_t>(blocks.size())};
    const float one = 1, none = std::nanf("");
    const auto before = got.m;
    EXPECT_EQ(cuda::launchAverage(list, 0.9, &none, nullptr), 0);
    EXPECT_EQ(got.m, before);
    runInSeveralOrders(got.bytes(), [&] { return cuda::launchAverage(list, 0.9, &one, nullptr); });
    for (size_t t = 0; t < sizes.size(); ++t)
      expectClose(got.m[t], want.m[t], 1e-6);
    const auto param = got.param, mean = got.m;
    runInSeveralOrders(got.bytes(), [&] { return cuda::launchExchange(list, nullptr); });
    for (size_t t = 0; t < sizes.size(); ++t)
      for (size_t i = 0; i < param[t].size(); ++i) {
        ASSERT_EQ(got.param[t][i], i < shift ? param[t][i] : mean[t][i]);
        ASSERT_EQ(got.m[t][i], i < shift ? mean[t][i] : param[t][i]);
      }
  }
}

TEST(CudaUpdate, NormScaleZeroAndCopies) {
  for (size_t shift : {0, 3}) {
    Parameters p(sizes);
    const auto tensors = p.tensors(shift);
    const auto blocks = cuda::cutIntoBlocks(tensors);
    const cuda::UpdateList list{tensors.data(), blocks.data(), static_cast<int64_t>(blocks.size())};
    std::vector<FloatRun> runs;
    for (auto &t : tensors)
      runs.push_back({t.grad, t.elements});
    ThreadPool pool(1);
    const double want = squaredNorm(runs, pool);
    std::vector<double> partial(blocks.size()), result(1);
    runInSeveralOrders({bytesOf(result)}, [&] {
      return cuda::launchSquaredNorm(list, partial.data(), result.data(), nullptr);
    });
    EXPECT_NEAR(result[0], want, 1e-12 * want);
    EXPECT_EQ(cuda::launchSquaredNorm({}, nullptr, result.data(), nullptr), 0);
    EXPECT_EQ(result[0], 0);

    auto before = p.grad;
    const float factor = -0.5f;
    runInSeveralOrders(p.bytes(), [&] { return cuda::launchScale(list, 4, &factor, nullptr); });
    for (size_t t = 0; t < sizes.size(); ++t)
      for (size_t i = 0; i < before[t].size(); ++i)
        ASSERT_EQ(p.grad[t][i], i < shift ? before[t][i] : -2 * before[t][i]);
    runInSeveralOrders(p.bytes(), [&] { return cuda::launchZero(list, nullptr); });
    for (size_t t = 0; t < sizes.size(); ++t)
      for (size_t i = 0; i < before[t].size(); ++i)
        ASSERT_EQ(p.grad[t][i], i < shift ? before[t][i] : 0.f);
  }
  Parameters p({33001});
  const auto tensors = p.tensors(1);
  const auto blocks = cuda::cutIntoBlocks(tensors);
  runInSeveralOrders(p.bytes(), [&] {
    return cuda::launchCopyParameters({tensors.data(), blocks.data(), int64_t(blocks.size())},
                                      nullptr);
  });
  for (size_t i = 1; i < p.param[0].size(); ++i)
    ASSERT_EQ(p.copy[0][i], roundToBf16(p.param[0][i]));
}
