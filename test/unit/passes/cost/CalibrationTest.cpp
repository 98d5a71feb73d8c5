#include "passes/cost/Calibration.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include <functional>
#include <gtest/gtest.h>

namespace omnibal::cost {
namespace {

namespace json = llvm::json;

constexpr const char *table = R"({
  "schema": "omnibal.calibration/1",
  "program": {"model": "m.onnx", "stages": 2}, "machine": {"cores": 2}, "noise": 0.01,
  "labels_per_token": 0.5, "action_ns": 700,
  "link": {"latency_ns": 20000, "bytes_per_s": 5000000000},
  "data_parallel": {"latency_ns": 30000, "bytes_per_s": 1000000000},
  "functions": [
    {"digest": "aa", "name": "vision_0.forward", "layer": "vision.layers.0", "fixed_ns": 100,
     "tile_ns": 2000.5, "token_ns": 0, "square_ns": 0, "label_ns": 0, "error": 0.01,
     "measured": [[4, 64, 4096, 0, 8102]]},
    {"digest": "bb", "name": "head_0.backward", "layer": "head", "fixed_ns": 10, "tile_ns": 0,
     "token_ns": 3, "square_ns": 0.5, "label_ns": 20, "error": 0, "measured": []}]})";

TEST(Calibration, ReadsWhatWasMeasured) {
  auto read = parseCalibration(table, "t.json");
  ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
  EXPECT_EQ(read->labelsPerToken, 0.5);
  EXPECT_EQ(read->actionNs, 700);
  EXPECT_EQ(read->link->latencyNs, 20000);
  EXPECT_EQ(read->link->bytesPerSecond, 5000000000);
  EXPECT_EQ(read->dataParallel->bytesPerSecond, 1000000000);
  ASSERT_NE(read->find("aa"), nullptr);
  EXPECT_DOUBLE_EQ(read->find("aa")->at(4, 999, 1, 7), 100 + 4 * 2000.5);
  EXPECT_DOUBLE_EQ(read->find("bb")->at(9, 100, 5000, 50), 10 + 300 + 2500 + 1000);
  EXPECT_EQ(read->find("cc"), nullptr);
  EXPECT_EQ(read->target + read->compute, ""); // the table does not say

  json::Object object = *json::parse(table)->getAsObject();
  object["program"] = json::Object{{"target", "cuda"}, {"compute", "bfloat16"}};
  read = parseCalibration(llvm::formatv("{0}", json::Value(std::move(object))).str(), "t.json");
  ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
  EXPECT_EQ(read->target, "cuda");
  EXPECT_EQ(read->compute, "bfloat16");
}

TEST(Calibration, LinksMayBeMissing) {
  json::Object object = *json::parse(table)->getAsObject();
  object.erase("link");
  object.erase("data_parallel");
  auto read =
      parseCalibration(llvm::formatv("{0}", json::Value(std::move(object))).str(), "t.json");
  ASSERT_TRUE(bool(read));
  EXPECT_FALSE(read->link || read->dataParallel);
  // Another table's link and functions come in, what is there already stays.
  auto other = parseCalibration(table, "o.json");
  ASSERT_TRUE(bool(other));
  other->functions["aa"].fixedNs = 1;
  other->functions["cc"].fixedNs = 5;
  read->add(*other);
  EXPECT_EQ(read->link->latencyNs, 20000);
  EXPECT_EQ(read->find("aa")->fixedNs, 100);
  EXPECT_EQ(read->find("cc")->fixedNs, 5);
}

/// The message for the table after a change.
std::string errorAfter(const std::function<void(json::Object &)> &change) {
  json::Object object = *json::parse(table)->getAsObject();
  change(object);
  auto read =
      parseCalibration(llvm::formatv("{0}", json::Value(std::move(object))).str(), "t.json");
  return read ? "no error" : llvm::toString(read.takeError());
}

json::Object &function(json::Object &object, size_t i) {
  return *(*object.getArray("functions"))[i].getAsObject();
}

TEST(Calibration, SaysWhatIsWrong) {
  auto message = [](llvm::StringRef text) {
    auto read = parseCalibration(text, "t.json");
    return read ? "no error" : llvm::toString(read.takeError());
  };
  EXPECT_EQ(message("{").rfind("t.json: not JSON", 0), 0u);
  EXPECT_EQ(message("[]"), "t.json: a calibration table is a JSON object");
  auto expect = [](const std::string &part, const std::function<void(json::Object &)> &change) {
    std::string error = errorAfter(change);
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  expect("`schema` must be", [](auto &o) { o["schema"] = "omnibal.calibration/2"; });
  expect("unknown key `speed`", [](auto &o) { o["speed"] = 1; });
  expect("`labels_per_token` must be a number from 0",
         [](auto &o) { o["labels_per_token"] = 1.5; });
  expect("`action_ns`", [](auto &o) { o["action_ns"] = -1; });
  expect("link: `bytes_per_s`", [](auto &o) { (*o.getObject("link"))["bytes_per_s"] = 0; });
  expect("link: unknown key `mtu`", [](auto &o) { (*o.getObject("link"))["mtu"] = 9000; });
  expect("data_parallel: must be an object", [](auto &o) { o["data_parallel"] = 3; });
  expect("`functions` must be a list", [](auto &o) { o.erase("functions"); });
  expect("functions[1]: `token_ns`", [](auto &o) { function(o, 1)["token_ns"] = -3; });
  expect("functions[0]: `tile_ns`", [](auto &o) { function(o, 0)["tile_ns"] = "fast"; });
  expect("functions[0]: `fixed_ns`", [](auto &o) { function(o, 0)["fixed_ns"] = 1e300; });
  expect("functions[0]: `digest`", [](auto &o) { function(o, 0)["digest"] = ""; });
  expect("functions[0]: unknown key `ns`", [](auto &o) { function(o, 0)["ns"] = 1; });
  expect("functions[1]: the digest aa comes twice",
         [](auto &o) { function(o, 1)["digest"] = "aa"; });
}

TEST(Calibration, AFileThatIsNotThere) {
  auto read = readCalibration("no-such-table.json");
  ASSERT_FALSE(bool(read));
  EXPECT_EQ(llvm::toString(read.takeError()).rfind("no-such-table.json: cannot be read", 0), 0u);
}

} // namespace
} // namespace omnibal::cost
