//===- CudnnPlansTest.cpp - The real cuDNN has kernels for our forms of attention -------------===//
//
// Without a GPU: an H200 is described to it by properties, and a fake of the driver takes the code
// that it compiles. Exists where OMNIBAL_CUDA_WHEELS has cuDNN.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/cuda/libraries/FusedAttention.h"
#include <cstdlib>
#include <dlfcn.h>
#include <gtest/gtest.h>

using namespace omnibal::rt;
using namespace omnibal::rt::cuda;

namespace {

const char *const h200 =
    R"({"cudaDeviceId":0,"deviceVer":900,"driverVer":13000,"maxGridSize":[2147483647,65535,65535],)"
    R"("maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":132,)"
    R"("smCountOrigin":0,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
    R"("maxSharedMemoryPerBlockOptin":232448,"oversizedSharedMemoryPerBlock":0,)"
    R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,)"
    R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"totalGlobalMem":150000000000,)"
    R"("pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"smClockRateKHz":1980000,)"
    R"("memClockRateKHz":3201000,"memoryBusWidth":6144,"l2CacheSize":62914560,)"
    R"("deviceName":"NVIDIA H200"})";

class CudnnPlans : public testing::Test {
protected:
  static void SetUpTestSuite() {
    const std::string wheels = OMNIBAL_CUDA_WHEELS, driver = OMNIBAL_FAKE_DRIVER "/libcuda.so.1";
    // What is loaded already is found by its name later on.
    ASSERT_NE(dlopen(driver.c_str(), RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
    setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", driver.c_str(), 1);
    setenv(
        "OMNIBAL_CUDA_LIBRARIES",
        (OMNIBAL_BUILT_LIBRARIES ":" + wheels + "/nvidia/cudnn/lib:" + wheels + "/nvidia/cu13/lib")
            .c_str(),
        1);
    auto opened = openAttentionLibrary({nullptr, 90, "", h200});
    ASSERT_TRUE(opened) << opened.status().message();
    library = opened->release();
  }

  static AttentionForm form(int64_t heads, int64_t keyHeads, int64_t size, bool causal,
                            bool oneProjection) {
    AttentionForm f;
    f.heads = heads;
    f.keyHeads = keyHeads;
    f.size = f.valueSize = size;
    f.scale = 0.125f;
    f.causal = causal;
    const int64_t own = heads * size, all = (heads + 2 * keyHeads) * size;
    for (int t = 0; t < attentionTensors; ++t) {
      const bool keys = isOfKeys(static_cast<AttentionTensor>(t));
      const bool result = t == TensorOut || t == TensorDout;
      f.strides[t] = {oneProjection && !result ? all : keys ? keyHeads * size : own, size};
    }
    f.strides[TensorLse] = {heads, 1};
    return f;
  }

  static void expectPlan(AttentionForm f, int64_t samples, int64_t longest, const char *what) {
    f.samples = samples;
    f.longest = longest;
    auto plan = library->plan(f);
    ASSERT_TRUE(plan) << what << ": " << plan.status().message();
    const double bytes = static_cast<double>((*plan)->workspaceBytes());
    const double expected = static_cast<double>(FusedAttention::expectedWorkspace(f));
    EXPECT_NEAR(bytes, expected, 0.02 * expected + (1 << 20)) << what;
    EXPECT_FALSE((*plan)->run({})) << "nothing can run";
  }

  static AttentionLibrary *library;
};

AttentionLibrary *CudnnPlans::library = nullptr;

TEST_F(CudnnPlans, EveryHeadSizeForwardAndBackward) {
  for (int64_t size : {64, 72, 80, 96, 128, 192, 256})
    for (bool causal : {false, true})
      for (bool backward : {false, true}) {
        AttentionForm f = form(8, causal ? 2 : 8, size, causal, false);
        f.backward = backward;
        expectPlan(f, 8, 1024, ("size " + std::to_string(size)).c_str());
      }
}

TEST_F(CudnnPlans, PicturesOfOneProjection) {
  AttentionForm f = form(16, 16, 64, false, true);
  expectPlan(f, 8, 1025, "forward");
  f.backward = true;
  expectPlan(f, 8, 1025, "backward");
  f.ordered = false;
  expectPlan(f, 8, 1025, "backward, unordered");
}

TEST_F(CudnnPlans, LongAndShortSamples) {
  AttentionForm f = form(16, 8, 128, true, true);
  f.backward = true;
  expectPlan(f, 4, 128, "short");
  expectPlan(f, 1, 4096, "long");
  expectPlan(f, 64, 384, "many");
  f.ordered = false;
  expectPlan(f, 1, 16384, "unordered");
}

TEST_F(CudnnPlans, WhatItRefuses) {
  AttentionForm f = form(8, 8, 128, true, false);
  f.samples = 4, f.longest = 256;
  f.size = f.valueSize = 260;
  auto plan = library->plan(f);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.status().code(), Code::NotFound) << plan.status().message();
}

TEST(CudnnDevice, TooOld) {
  auto opened = openAttentionLibrary({nullptr, 80, "", h200});
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.status().message().find("compute capability 8.0"), std::string::npos)
      << opened.status().message();
}

} // namespace
