//===- DeviceTest.cpp - The device table and the roofline --------------------------------===//
#include "passes/cost/Device.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace omnibal::cost;

namespace {

TEST(Device, TableHasTheDocumentedPeaks) {
  auto h100 = findDevice("h100");
  ASSERT_TRUE(static_cast<bool>(h100));
  EXPECT_EQ(h100->flops.at("bfloat16"), 989000000000000); // dense, not the sparse 1979
  EXPECT_EQ(h100->memoryBytes, int64_t{80} << 30);
  auto a100 = findDevice("a100-80g"), h200 = findDevice("h200");
  ASSERT_TRUE(a100 && h200);
  EXPECT_EQ(a100->flops.at("bfloat16"), 312000000000000);
  EXPECT_EQ(a100->bytesPerSecond, 2039000000000);
  EXPECT_EQ(h100->bytesPerSecond, 3350000000000);
  EXPECT_EQ(h200->bytesPerSecond, 4800000000000);
  EXPECT_EQ(h200->memoryBytes, 141000000000);
  EXPECT_EQ(h200->flopsEfficiency, 1);
}

TEST(Device, EfficienciesAreSharesOfThePeak) {
  auto read = [](const std::string &efficiency) {
    std::string text = R"({"flops": {"float32": 1000}, "memory_bytes": 1, )"
                       R"("bytes_per_s": 100, "efficiency": )" +
                       efficiency + "}";
    return readDevice(nlohmann::json::parse(text), "d");
  };
  auto device = read(R"({"flops": 0.5, "bytes": 0.25})");
  ASSERT_TRUE(static_cast<bool>(device));
  // 500 FLOPs at 500/s and 50 bytes at 25/s.
  EXPECT_EQ(rooflineNs(*device, "float32", {500, 50}), 3000000000);
  for (const char *wrong : {R"({"flops": 0})", R"({"flops": 1.5})", R"({"bytes": "half"})"})
    EXPECT_NE(read(wrong).status().message().find("expected"), std::string::npos) << wrong;
  EXPECT_EQ(read(R"({"flops": 2})").status().message(),
            "d.efficiency.flops: a share of the peak is expected, above 0 and at most 1");
  EXPECT_EQ(read(R"({"flop": 1})").status().message(),
            "d.efficiency: the field \"flop\" is unknown (known: flops, bytes)");
  EXPECT_EQ(read("3").status().message(), "d.efficiency: an object is expected");
}

TEST(Device, UnknownNameListsTheKnown) {
  auto device = findDevice("tpu");
  ASSERT_FALSE(static_cast<bool>(device));
  std::string message = device.status().message();
  EXPECT_NE(message.find("tpu"), std::string::npos);
  EXPECT_NE(message.find("a100-80g, cpu, h100, h100-pcie, h200"), std::string::npos);
}

TEST(Device, MalformedEntriesAreNamed) {
  auto errorOf = [](const char *text) {
    return readDevice(nlohmann::json::parse(text), "d.json.device").status().message();
  };
  EXPECT_EQ(errorOf(R"({})"), "d.json.device: the field \"flops\" is missing");
  EXPECT_EQ(errorOf(R"({"flops": {}})"), "d.json.device.flops: the peak FLOP/s of at least one "
                                         "element type is expected");
  EXPECT_EQ(errorOf(R"({"flops": {"float32": -1}})"),
            "d.json.device.flops.float32: an integer of at least 1 is expected, not -1");
  EXPECT_EQ(errorOf(R"({"flops": {"float32": 1}})"),
            "d.json.device: the field \"memory_bytes\" is missing");
  EXPECT_EQ(errorOf(R"({"flops": {"float32": 1e12}, "memory_bytes": 1})"),
            "d.json.device: the field \"bytes_per_s\" is missing");
}

TEST(Device, RooflineAddsMatrixAndMemoryTime) {
  Device device{"d", {{"float32", 1000}}, 1, 100};
  // 500 FLOPs at 1000/s = 0.5 s; 50 bytes at 100/s = 0.5 s.
  EXPECT_EQ(rooflineNs(device, "float32", {500, 50}), 1000000000);
  // Terabytes and petaflops do not overflow.
  EXPECT_EQ(rooflineNs({"d", {{"float32", 1000000000000}}, 1, 1000000000}, "float32",
                       {int64_t{1} << 60, 0}),
            (int64_t{1} << 60) / 1000 + 1);
}

} // namespace
