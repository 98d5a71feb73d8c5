// Which entry of the device table stands for what a driver finds.
#include "runtime/support/DeviceTable.h"
#include <gtest/gtest.h>

using namespace omnibal::rt;

namespace {

std::string_view nameFor(std::string_view driverName) {
  const DeviceFigures *device = deviceOfProduct(driverName);
  return device ? device->name : "none";
}

TEST(DeviceTable, KnowsWhatDriversCallThem) {
  EXPECT_EQ(nameFor("NVIDIA H100 80GB HBM3"), "h100");
  EXPECT_EQ(nameFor("NVIDIA H100 PCIe"), "h100-pcie");
  EXPECT_EQ(nameFor("NVIDIA H200"), "h200");
  EXPECT_EQ(nameFor("NVIDIA A100-SXM4-80GB"), "a100-80g");
  EXPECT_EQ(nameFor("Tesla T4"), "none");
  EXPECT_EQ(nameFor(""), "none");
  EXPECT_EQ(deviceOfProduct("NVIDIA H100 PCIe")->float32Flops, 51'000'000'000'000);
}

} // namespace
