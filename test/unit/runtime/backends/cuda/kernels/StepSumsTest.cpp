#include "runtime/backends/cuda/kernels/StepSums.h"
#include "runtime/comm/StepSums.h"
#include "test/unit/runtime/backends/cuda/kernels/KernelChecks.h"
#include <cmath>
#include <limits>

using namespace omnibal::rt;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// What three ranks' sums become on the device of each.
struct Ranks {
  std::vector<StepSums> sums;
  double labels = 7, clip = 0.5;
  float scale = 1;

  std::vector<float> slots() const {
    const int count = static_cast<int>(sums.size());
    std::vector<float> all(count * slotFloats, 0.f);
    for (int r = 0; r < count; ++r) {
      double losses[] = {sums[r].loss, sums[r].routerLoss, sums[r].chosenReward,
                         sums[r].rejectedReward, sums[r].preferred};
      std::vector<float> mine(count * slotFloats, NAN);
      EXPECT_EQ(
          cuda::launchEncodeSums(losses, &sums[r].squaredNorm, r, count, mine.data(), nullptr),
          cudaSuccess);
      for (double loss : losses)
        EXPECT_EQ(loss, 0); // the next step begins
      for (size_t i = 0; i < all.size(); ++i)
        all[i] += mine[i]; // as a reduction does
    }
    return all;
  }
  void finish() {
    std::vector<float> all = slots();
    EXPECT_EQ(cuda::launchUpdateScale(all.data(), static_cast<int>(sums.size()), labels, clip,
                                      &scale, nullptr),
              cudaSuccess);
  }
};

} // namespace

TEST(CudaStepSums, LossesAddUp) {
  std::vector<float> losses(1001);
  double want = 2.5, sum = 2.5;
  for (size_t i = 0; i < losses.size(); ++i)
    want += losses[i] = std::sin(static_cast<float>(i));
  EXPECT_EQ(
      cuda::launchAddLosses(losses.data(), static_cast<int64_t>(losses.size()), &sum, nullptr),
      cudaSuccess);
  EXPECT_NEAR(sum, want, 1e-10);
  EXPECT_EQ(cuda::launchAddLosses(losses.data(), 0, &sum, nullptr), cudaSuccess);
  EXPECT_NEAR(sum, want, 1e-10);
}

TEST(CudaStepSums, EveryDoubleArrivesWithItsBits) {
  Ranks ranks{
      {{1.0 / 3, 1e-300, 1.0 / 7}, {-infinity, 1e300}, {0.1 + 0.2, 5, -2.5e-9, -1.0 / 3, 0.7, 3}}};
  std::vector<float> all = ranks.slots();
  for (size_t r = 0; r < ranks.sums.size(); ++r) {
    StepSums got = decodeSums(&all[r * slotFloats]);
    EXPECT_EQ(got.loss, ranks.sums[r].loss);
    EXPECT_EQ(got.squaredNorm, ranks.sums[r].squaredNorm);
    EXPECT_EQ(got.routerLoss, ranks.sums[r].routerLoss);
    EXPECT_EQ(got.chosenReward, ranks.sums[r].chosenReward);
    EXPECT_EQ(got.rejectedReward, ranks.sums[r].rejectedReward);
    EXPECT_EQ(got.preferred, ranks.sums[r].preferred);
  }
}

TEST(CudaStepSums, ScaleIsThatOfTheFormula) {
  Ranks ranks{{{3, 20}, {4, 29}}};
  ranks.finish();
  const double norm = 7.0 / 7; // of the mean loss
  EXPECT_EQ(ranks.scale, static_cast<float>(1.0 / 7 * (0.5 / (norm + 1e-6))));
  ranks.clip = 100;
  ranks.finish();
  EXPECT_EQ(ranks.scale, static_cast<float>(1.0 / 7));
  ranks.clip = 0;
  ranks.finish();
  EXPECT_EQ(ranks.scale, static_cast<float>(1.0 / 7));
  ranks.labels = 0;
  ranks.finish();
  EXPECT_EQ(ranks.scale, 0);
}

TEST(CudaStepSums, WhatIsNoNumberStays) {
  for (StepSums bad :
       {StepSums{NAN, 1}, StepSums{1, infinity}, StepSums{-infinity, 1}, StepSums{1, 1, NAN}}) {
    Ranks ranks{{{1, 1}, bad}};
    ranks.finish();
    EXPECT_TRUE(std::isnan(ranks.scale));
    ranks.sums[1] = {1, 1};
    ranks.finish();
    EXPECT_TRUE(std::isnan(ranks.scale));
  }
}
