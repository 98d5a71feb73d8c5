#include "passes/cost/Calibration.h"
#include <functional>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace omnibal::cost {
namespace {

using nlohmann::json;

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
  ASSERT_TRUE(bool(read)) << read.status().message();
  EXPECT_EQ(read->labelsPerToken, 0.5);
  EXPECT_EQ(read->actionNs, 700);
  EXPECT_EQ(read->link->latencyNs, 20000);
  EXPECT_EQ(read->link->bytesPerSecond, 5000000000);
  EXPECT_EQ(read->dataParallel->bytesPerSecond, 1000000000);
  ASSERT_NE(read->find("aa"), nullptr);
  EXPECT_DOUBLE_EQ(read->find("aa")->at({4, 999, 1}, 7), 100 + 4 * 2000.5);
  EXPECT_DOUBLE_EQ(read->find("bb")->at({9, 100, 5000}, 50), 10 + 300 + 2500 + 1000);
  EXPECT_EQ(read->find("cc"), nullptr);
  EXPECT_EQ(read->find("aa")->tileSquareNs, 0);
  EXPECT_EQ(read->target + read->compute, ""); // the table does not say

  json object = json::parse(table);
  object["program"] = {{"target", "cuda"}, {"compute", "bfloat16"}};
  read = parseCalibration(object.dump(), "t.json");
  ASSERT_TRUE(bool(read)) << read.status().message();
  EXPECT_EQ(read->target, "cuda");
  EXPECT_EQ(read->compute, "bfloat16");
}

TEST(Calibration, SquaresOfPictures) {
  json object = json::parse(table);
  object["functions"][0]["tile_square_ns"] = 0.25;
  auto read = parseCalibration(object.dump(), "t.json");
  ASSERT_TRUE(bool(read)) << read.status().message();
  // Of pictures of 8, 6 and 2 units, and of one of all sixteen.
  EXPECT_DOUBLE_EQ(read->find("aa")->at({16, 9, 1, 104}, 7), 100 + 16 * 2000.5 + 26);
  EXPECT_DOUBLE_EQ(read->find("aa")->at({16, 9, 1}, 7), 100 + 16 * 2000.5 + 64);
}

TEST(Calibration, LinksMayBeMissing) {
  json object = json::parse(table);
  object.erase("link");
  object.erase("data_parallel");
  auto read = parseCalibration(object.dump(), "t.json");
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
std::string errorAfter(const std::function<void(json &)> &change) {
  json object = json::parse(table);
  change(object);
  auto read = parseCalibration(object.dump(), "t.json");
  return read ? "no error" : read.status().message();
}

TEST(Calibration, SaysWhatIsWrong) {
  auto message = [](const std::string &text) {
    auto read = parseCalibration(text, "t.json");
    return read ? "no error" : read.status().message();
  };
  EXPECT_EQ(message("{").rfind("t.json: not valid JSON", 0), 0u);
  EXPECT_EQ(message("[]"), "t.json: an object is expected");
  EXPECT_EQ(message(std::string(1000000, '[')), "t.json: nested deeper than 64");
  auto expect = [](const std::string &part, const std::function<void(json &)> &change) {
    std::string error = errorAfter(change);
    EXPECT_EQ(error.rfind("t.json" + part, 0), 0u) << error;
  };
  expect(".schema: \"omnibal.calibration/1\" is expected",
         [](json &o) { o["schema"] = "omnibal.calibration/2"; });
  expect(": the field \"speed\" is unknown", [](json &o) { o["speed"] = 1; });
  expect(".labels_per_token: a number from 0.0 to 1.0 is expected",
         [](json &o) { o["labels_per_token"] = 1.5; });
  expect(".action_ns: ", [](json &o) { o["action_ns"] = -1; });
  expect(".link.bytes_per_s: ", [](json &o) { o["link"]["bytes_per_s"] = 0; });
  expect(".link: the field \"mtu\" is unknown", [](json &o) { o["link"]["mtu"] = 9000; });
  expect(".data_parallel: an object is expected", [](json &o) { o["data_parallel"] = 3; });
  expect(": the field \"functions\" is missing", [](json &o) { o.erase("functions"); });
  expect(".functions: an array is expected", [](json &o) { o["functions"] = 1; });
  expect(".functions[1].token_ns: ", [](json &o) { o["functions"][1]["token_ns"] = -3; });
  expect(".functions[0].tile_ns: ", [](json &o) { o["functions"][0]["tile_ns"] = "fast"; });
  expect(".functions[0].fixed_ns: ", [](json &o) { o["functions"][0]["fixed_ns"] = 1e300; });
  expect(".functions[0].digest: ", [](json &o) { o["functions"][0]["digest"] = ""; });
  expect(".functions[0]: the field \"ns\" is unknown",
         [](json &o) { o["functions"][0]["ns"] = 1; });
  expect(".functions[1].digest: the digest aa comes twice",
         [](json &o) { o["functions"][1]["digest"] = "aa"; });
}

TEST(Calibration, AFileThatIsNotThere) {
  auto read = readCalibration("no-such-table.json");
  ASSERT_FALSE(bool(read));
  EXPECT_EQ(read.status().message().rfind("no-such-table.json", 0), 0u);
}

} // namespace
} // namespace omnibal::cost
