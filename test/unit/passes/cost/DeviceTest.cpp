//===- DeviceTest.cpp - The device table and the roofline --------------------------------===//
#include "passes/cost/Device.h"
#include <gtest/gtest.h>

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
    auto value = llvm::json::parse(R"({"flops": {"float32": 1000}, "memory_bytes": 1, )"
                                   R"("bytes_per_s": 100, "efficiency": )" +
                                   efficiency + "}");
    return readDevice(*value->getAsObject(), "d");
  };
  auto device = read(R"({"flops": 0.5, "bytes": 0.25})");
  ASSERT_TRUE(static_cast<bool>(device));
  // 500 FLOPs at 500/s and 50 bytes at 25/s.
  EXPECT_EQ(rooflineNs(*device, "float32", {500, 50}), 3000000000);
  for (const char *wrong : {R"({"flops": 0})", R"({"flops": 1.5})", R"({"bytes": "half"})"})
    EXPECT_NE(llvm::toString(read(wrong).takeError()).find("must be a share of the peak"),
              std::string::npos)
        << wrong;
  EXPECT_EQ(llvm::toString(read(R"({"flop": 1})").takeError()),
            "d.efficiency: unknown key `flop` (known: flops, bytes)");
  EXPECT_NE(llvm::toString(read("3").takeError()).find("must be an object"), std::string::npos);
}

TEST(Device, UnknownNameListsTheKnown) {
  auto device = findDevice("tpu");
  ASSERT_FALSE(static_cast<bool>(device));
  std::string message = llvm::toString(device.takeError());
  EXPECT_NE(message.find("tpu"), std::string::npos);
  EXPECT_NE(message.find("a100-80g, cpu, h100, h100-pcie, h200"), std::string::npos);
}

TEST(Device, MalformedEntriesAreNamed) {
  auto errorOf = [](const char *text) {
    auto value = llvm::json::parse(text);
    auto device = readDevice(*value->getAsObject(), "d.json.device");
    return device ? std::string() : llvm::toString(device.takeError());
  };
  EXPECT_NE(errorOf(R"({})").find("d.json.device: `flops`"), std::string::npos);
  EXPECT_NE(errorOf(R"({"flops": {"float32": -1}})").find("`float32`"), std::string::npos);
  EXPECT_NE(errorOf(R"({"flops": {"float32": 1}})").find("`memory_bytes`"), std::string::npos);
  EXPECT_NE(errorOf(R"({"flops": {"float32": 1}, "memory_bytes": 1})").find("`bytes_per_s`"),
            std::string::npos);
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
