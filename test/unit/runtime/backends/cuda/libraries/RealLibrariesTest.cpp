#include "runtime/backends/cuda/libraries/MatrixLibrary.h"
#include "test/unit/runtime/backends/cuda/libraries/FakeFolder.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

/// With a device it starts; without one it says so in its own words.
TEST(RealLibraries, CublasLtLoads) {
  Setting folder("OMNIBAL_CUDA_LIBRARIES", OMNIBAL_CUDA_WHEELS "/nvidia/cu13/lib");
  auto opened = cuda::MatrixLibrary::open("a device", directStream());
  if (opened) {
    EXPECT_EQ((*opened)->description().rfind("cuBLASLt 13.", 0), 0u) << (*opened)->description();
    return;
  }
  EXPECT_EQ(opened.status().message(),
            "cuBLASLt (" OMNIBAL_CUDA_WHEELS "/nvidia/cu13/lib/libcublasLt.so.13) does not start: "
            "the library was not initialized");
}
