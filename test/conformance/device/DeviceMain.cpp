//===- DeviceMain.cpp - main() of the tests of a device's kernels -----------------------------===//
//
// A device reads no index on the host, so it refuses no wrong ones: tests of that are left out
// unless a filter says otherwise.
//
//===-------------------------------------------------------------------------------------------===//
#include "test/conformance/device/Device.h"
#include <cstdio>
#include <gtest/gtest.h>

int main(int argc, char **argv) {
  GTEST_FLAG_SET(filter, "-*Rejects*");
  testing::InitGoogleTest(&argc, argv);
  if (!GTEST_FLAG_GET(list_tests))
    std::printf("Device: %s\n", omnibal::rt::test::deviceKind().description().c_str());
  return RUN_ALL_TESTS();
}
