#include "test/support/cuda_emulation/include/cuda_bf16.h"
#include "test/support/cuda_emulation/include/cuda_runtime.h"
#include "test/unit/runtime/backends/cuda/kernels/KernelChecks.h"

using namespace omnibal;

namespace {

std::string failureOf(dim3 grid, dim3 block, size_t shared, const std::function<void()> &kernel) {
  emulation::launch(grid, block, shared, kernel);
  cudaGetLastError();
  return emulation::takeFailure();
}

} // namespace

TEST(Emulation, ThreadsOfABlockExchangeThroughBarriersAndShuffles) {
  std::vector<int> sums(6, -1), neighbors(6 * 70, -1);
  auto kernel = [&] {
    int *shared = static_cast<int *>(emulation::dynamicShared());
    const int me = static_cast<int>(threadIdx.x + threadIdx.y * blockDim.x);
    shared[me] = me;
    __syncthreads();
    neighbors[blockIdx.x * 70 + me] = shared[(me + 1) % 70];
    if (me < 64) {
      int value = me;
      for (int bits = 16; bits > 0; bits /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, bits);
      const int next = __shfl_down_sync(0xffffffffu, me, 1),
                last = __shfl_up_sync(0xffffffffu, me, 1);
      EXPECT_EQ(next, me % 32 == 31 ? me : me + 1);
      EXPECT_EQ(last, me % 32 == 0 ? me : me - 1);
      if (me == 32)
        sums[blockIdx.x] = value;
    }
    EXPECT_TRUE(__syncthreads_or(me == 69));
    EXPECT_FALSE(__syncthreads_or(0));
  };
  for (uint64_t seed : {0, 7}) {
    emulation::setOrder(seed);
    EXPECT_EQ(failureOf(dim3(6), dim3(35, 2), 70 * sizeof(int), kernel), "");
    emulation::setOrder(0);
    for (int b = 0; b < 6; ++b) {
      EXPECT_EQ(sums[b], (32 + 63) * 32 / 2);
      for (int i = 0; i < 70; ++i)
        EXPECT_EQ(neighbors[b * 70 + i], (i + 1) % 70);
    }
  }
}

TEST(Emulation, SeesBarriersThatNotAllReach) {
  EXPECT_NE(failureOf(dim3(1), dim3(64), 0,
                      [] {
                        if (threadIdx.x < 10)
                          __syncthreads();
                      })
                .find("has ended"),
            std::string::npos);
  EXPECT_NE(failureOf(dim3(1), dim3(64), 0,
                      [] {
                        if (threadIdx.x < 10)
                          __syncthreads();
                        else
                          __syncthreads();
                      })
                .find("threads diverge"),
            std::string::npos);
  EXPECT_NE(failureOf(dim3(1), dim3(32), 0,
                      [] {
                        if (threadIdx.x != 5)
                          (void)__shfl_xor_sync(0xffffffffu, 1, 1);
                      })
                .find("warp operation"),
            std::string::npos);
  EXPECT_NE(failureOf(dim3(1), dim3(16), 0, [] { (void)__shfl_sync(0xffffffffu, 1, 0); })
                .find("does not have"),
            std::string::npos);
}

TEST(Emulation, SeesWritesBeyondSharedMemoryAndBadLaunches) {
  EXPECT_NE(failureOf(dim3(1), dim3(8), 8 * sizeof(int),
                      [] { static_cast<int *>(emulation::dynamicShared())[threadIdx.x + 1] = 1; })
                .find("beyond its dynamic shared memory"),
            std::string::npos);
  EXPECT_NE(failureOf(dim3(1), dim3(1025), 0, [] {}).find("1025 threads"), std::string::npos);
  EXPECT_NE(failureOf(dim3(0), dim3(32), 0, [] {}), "");
  EXPECT_NE(failureOf(dim3(1, 70000), dim3(32), 0, [] {}), "");
  EXPECT_EQ(failureOf(dim3(1), dim3(32), 0, [] {}), "");
}

TEST(Emulation, AMissingBarrierShowsInAnotherOrder) {
  auto run = [](uint64_t seed) {
    std::vector<int> got(64);
    emulation::setOrder(seed);
    emulation::launch(dim3(1), dim3(64), 64 * sizeof(int), [&] {
      int *shared = static_cast<int *>(emulation::dynamicShared());
      shared[threadIdx.x] = static_cast<int>(threadIdx.x);
      got[threadIdx.x] = shared[threadIdx.x / 2]; // its writer may not have run
    });
    emulation::setOrder(0);
    return got;
  };
  EXPECT_NE(run(0), run(1));
}

TEST(Emulation, Bfloat16RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7f800000u; bits += 9973) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    EXPECT_EQ(__float2bfloat16_rn(x).bits, rt::test::roundToBf16(x));
  }
  EXPECT_EQ(__bfloat162float(__float2bfloat16_rn(INFINITY)), INFINITY);
  EXPECT_TRUE(std::isnan(__bfloat162float(__float2bfloat16_rn(NAN))));
}

TEST(Emulation, TensorCoresMultiply) {
  std::mt19937 random(5);
  std::vector<uint16_t> a(16 * 16), b(16 * 8); // a by rows, b by columns of 16
  for (std::vector<uint16_t> *values : {&a, &b})
    for (uint16_t &x : *values)
      x = rt::test::roundToBf16(std::normal_distribution<float>()(random));
  std::vector<float> c(16 * 8);
  EXPECT_EQ(failureOf(dim3(1), dim3(32), 1024,
                      [&] {
                        auto *shared = static_cast<unsigned char *>(emulation::dynamicShared());
                        const int lane = static_cast<int>(threadIdx.x);
                        std::memcpy(shared + lane * 16, a.data() + lane * 8, 16);
                        std::memcpy(shared + 512 + lane % 16 * 16, b.data() + lane % 16 * 8, 16);
                        __syncthreads();
                        // Rows of 32 bytes: matrices are (rows, features), in a's order of
                        // registers.
                        uint32_t left[4], right[4];
                        emulation::loadMatrices(left, shared + lane % 16 * 32 + lane / 16 * 16,
                                                false, __LINE__);
                        emulation::loadMatrices(right,
                                                shared + 512 + lane % 8 * 32 + lane / 8 % 2 * 16,
                                                false, __LINE__);
                        float sums[4] = {};
                        emulation::multiplyAdd(sums, left, {right[0], right[1]}, __LINE__);
                        for (int e = 0; e < 4; ++e)
                          c[(lane / 4 + e / 2 * 8) * 8 + lane % 4 * 2 + e % 2] = sums[e];
                      }),
            "");
  for (int row = 0; row < 16; ++row)
    for (int col = 0; col < 8; ++col) {
      double sum = 0;
      for (int k = 0; k < 16; ++k)
        sum += double(rt::test::fromBf16(a[row * 16 + k])) * rt::test::fromBf16(b[col * 16 + k]);
      EXPECT_NEAR(c[row * 8 + col], sum, 1e-5) << row << " " << col;
    }
}

TEST(Emulation, CopiesAreThereWhenTheirThreadHasWaited) {
  alignas(16) float from[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> early, late, last;
  EXPECT_EQ(failureOf(dim3(1), dim3(1), 32,
                      [&] {
                        auto *shared = static_cast<float *>(emulation::dynamicShared());
                        emulation::copyAsync(shared, from);
                        emulation::closeCopies();
                        emulation::copyAsync(shared + 4, nullptr);
                        emulation::closeCopies();
                        early.assign(shared, shared + 8);
                        emulation::waitForCopies(1);
                        late.assign(shared, shared + 8);
                        emulation::waitForCopies(0);
                        last.assign(shared, shared + 8);
                      }),
            "");
  EXPECT_TRUE(std::isnan(early[0]) && std::isnan(early[4]));
  EXPECT_TRUE(late[0] == 1 && late[3] == 4 && std::isnan(late[4]));
  EXPECT_EQ(last, (std::vector<float>{1, 2, 3, 4, 0, 0, 0, 0}));
}

TEST(Emulation, SeesMisplacedRowsAndCopies) {
  EXPECT_NE(failureOf(dim3(1), dim3(32), 64,
                      [] {
                        uint32_t to[4];
                        emulation::loadMatrices(
                            to, static_cast<unsigned char *>(emulation::dynamicShared()) + 56,
                            false, 7);
                      })
                .find("misplaced row, line 7"),
            std::string::npos);
  alignas(16) float from[8];
  EXPECT_NE(failureOf(dim3(1), dim3(1), 64,
                      [&] { emulation::copyAsync(emulation::dynamicShared(), from + 1); })
                .find("not aligned"),
            std::string::npos);
}
