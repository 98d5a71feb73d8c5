// The folder of omnibal-batch: written, read back, complete or without batches.json; cost files.
#include "runtime/batching/io/BatchesFolder.h"
#include "runtime/batching/io/CheckBatches.h"
#include "runtime/batching/io/CostFile.h"
#include "runtime/batching/io/Npy.h"
#include "runtime/batching/steps/Steps.h"
#include "runtime/support/AtomicFile.h"
#include "test/unit/runtime/data/TestTar.h"
#include <algorithm>
#include <filesystem>
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

using nlohmann::ordered_json;
using test::TemporaryFolder;
using test::writeFile;

/// Five samples; sample 3 is over the caps of 4 tiles and 100 tokens and has a group of its own.
struct Example {
  SampleLengths lengths{{1, 2, 0, 9, 2}, {10, 90, 50, 20, 10}};
  BatchesRecord record;
  Batches batches;
  Example() {
    record.options = {.oversize = Oversize::OwnGroup,
                      .tilesCap = 4,
                      .tokensCap = 100,
                      .ranks = 2,
                      .seed = 18446744073709551615u,
                      .epoch = 3,
                      .cost = {.tileNs = 1.5, .tokenNs = 0.25}};
    record.samples = 5;
    record.after.distRatioVit = 0.125;
    record.seconds = 0.5;
    record.peakRssBytes = 1 << 20;
    batches = {{4, 1, 3, 0, 2}, {0, 2, 3, 4, 5}, {3}, 3, "sum"};
  }
};

std::string errorOf(const Status &status) { return status.isOk() ? "" : status.message(); }

TEST(BatchesFolder, ReadBack) {
  TemporaryFolder folder;
  Example e;
  std::string path = folder / "new/batches";
  Status written = writeBatchesFolder(path, e.lengths, e.batches, describe(e.record, e.batches));
  ASSERT_TRUE(written) << written.message();
  EXPECT_EQ(*readNpy(path + "/samples.npy"), e.batches.samples);
  EXPECT_EQ(*readNpy(path + "/groups.npy"), e.batches.offsets);
  auto read = readComposition(path);
  ASSERT_TRUE(read) << read.status().message();
  EXPECT_EQ(read->lengths.tiles, e.lengths.tiles);
  EXPECT_EQ(read->lengths.tokens, e.lengths.tokens);
  const BatchOptions &o = read->options, &given = e.record.options;
  EXPECT_EQ(o.method, given.method);
  EXPECT_EQ(o.oversize, given.oversize);
  EXPECT_EQ(o.tilesCap, given.tilesCap);
  EXPECT_EQ(o.tokensCap, given.tokensCap);
  EXPECT_EQ(o.ranks, given.ranks);
  EXPECT_EQ(o.seed, given.seed);
  EXPECT_EQ(o.epoch, given.epoch);
  EXPECT_EQ(o.cost.tileNs, 1.5);
  EXPECT_EQ(o.cost.tokenNs, 0.25);
  EXPECT_EQ(o.cost.squareNs, 0);
}

TEST(BatchesFolder, SizesOfPictures) {
  TemporaryFolder folder;
  Example e;
  e.lengths.squaredTiles = {1, 2, 0, SampleLengths::unknown, 4};
  e.record.knowsPictures = true;
  e.record.options.cost.tileSquareNs = 0.125;
  auto write = [&] {
    return writeBatchesFolder(folder.path, e.lengths, e.batches, describe(e.record, e.batches));
  };
  ASSERT_TRUE(write());
  EXPECT_EQ(*readNpy(folder / "squares.npy"), e.lengths.squaredTiles);
  auto read = readComposition(folder.path);
  ASSERT_TRUE(read) << read.status().message();
  EXPECT_EQ(read->lengths.squaredTiles, e.lengths.squaredTiles);
  EXPECT_EQ(read->options.cost.tileSquareNs, 0.125);
  auto expect = [&](const std::string &part) {
    auto bad = readComposition(folder.path);
    ASSERT_FALSE(bad);
    EXPECT_NE(bad.status().message().find(part), std::string::npos) << bad.status().message();
  };
  for (int64_t wrong : {1, 5}) { // of two units
    e.lengths.squaredTiles[1] = wrong;
    ASSERT_TRUE(write());
    expect("squares.npy: sample 1 has squares of " + std::to_string(wrong) +
           ", which no pictures of 2 units have");
  }
  auto shorter = NpyWriter::int64(folder / "squares.npy", 2);
  ASSERT_TRUE(shorter && shorter->append(std::vector<int64_t>{1, 2}) && shorter->commit());
  expect("squares.npy: 2 samples, but lengths.npy has 5");
  std::filesystem::remove(folder / "squares.npy");
  expect("squares.npy");

  // A table that does not say: what an earlier one said is gone.
  e.lengths.squaredTiles[1] = 2;
  ASSERT_TRUE(write());
  e.lengths.squaredTiles.clear();
  e.record.knowsPictures = false;
  e.record.options.cost.tileSquareNs = 0;
  ASSERT_TRUE(write());
  EXPECT_FALSE(std::filesystem::exists(folder / "squares.npy"));
  EXPECT_FALSE(readComposition(folder.path)->lengths.knowsPictures());
  ordered_json object = describe(e.record, e.batches);
  EXPECT_FALSE(object.contains("picture_sizes"));
  EXPECT_FALSE(object["cost"].contains("tile_square_ns"));
}

TEST(BatchesFolder, Description) {
  Example e;
  ordered_json object = describe(e.record, e.batches);
  EXPECT_EQ(object["method"], "plan");
  EXPECT_EQ(object["groups"], 4);
  EXPECT_EQ(object["groups_lower_bound"], 3);
  EXPECT_EQ(object["steps"], 2);
  EXPECT_EQ(object["oversize"], ordered_json({3}));
  EXPECT_EQ(object["seed"], 18446744073709551615u);
  EXPECT_DOUBLE_EQ(object["gap"], 4. / 3 - 1);
  EXPECT_EQ(object["after"]["dist_ratio_vit"], 0.125);
  EXPECT_TRUE(object["before"].contains("dist_ratio_cost"));
  e.record.options.cost = {};
  object = describe(e.record, e.batches);
  EXPECT_FALSE(object["before"].contains("dist_ratio_cost"));
  EXPECT_FALSE(object.contains("cost"));
}

TEST(BatchesFolder, LaterEpochsOfAMix) {
  TemporaryFolder folder;
  Composition first;
  for (int32_t i = 0; i < 300; ++i) {
    first.lengths.tiles.push_back(i % 4);
    first.lengths.tokens.push_back(10 + i);
  }
  first.options = {.tilesCap = 9, .tokensCap = 1000, .ranks = 2, .cost = {}};
  first.mix = {{100, 200}, {{0, {3, 1}}, {4, {0, 1}}, {6, {1, 1}}}, 300};
  auto batches = compose(first, 0);
  ASSERT_TRUE(batches) << batches.status().message();
  BatchesRecord record;
  record.options = first.options;
  record.mix = first.mix;
  record.samples = 300;
  ASSERT_TRUE(writeBatchesFolder(folder.path, first.lengths, *batches, describe(record, *batches)));
  auto read = readComposition(folder.path);
  ASSERT_TRUE(read) << read.status().message();
  EXPECT_EQ(read->mix.sizes, first.mix.sizes);
  EXPECT_EQ(read->mix.phases, first.mix.phases);
  auto again = compose(*read, 0), later = compose(*read, 3);
  ASSERT_TRUE(again && later);
  EXPECT_EQ(again->samples, batches->samples);
  EXPECT_EQ(again->offsets, batches->offsets);
  EXPECT_NE(later->samples, batches->samples);
  for (const Batches *epoch : {&*again, &*later})
    EXPECT_EQ(std::count_if(epoch->samples.begin(), epoch->samples.end(),
                            [](int64_t sample) { return sample < 100; }),
              225);
  for (auto [epoch, expected] : {std::pair{4, 0}, {5, 0}, {6, 150}, {60, 150}}) {
    auto changed = compose(*read, epoch);
    ASSERT_TRUE(changed) << changed.status().message();
    EXPECT_EQ(std::count_if(changed->samples.begin(), changed->samples.end(),
                            [](int64_t sample) { return sample < 100; }),
              expected);
  }
  // What a mix says of later epochs is not more than the first one has.
  BatchesUse use;
  use.layout = {1, 2};
  use.tilesCap = 9;
  use.tokensCap = 1000;
  use.samples = 300;
  EXPECT_EQ(errorOf(readCheckedGroups(folder.path, *read, use).status()), "");
  read->mix.samples = INT32_MAX;
  EXPECT_NE(errorOf(readCheckedGroups(folder.path, *read, use).status()).find("\"mix\" says"),
            std::string::npos);
}

TEST(BatchesFolder, WithoutItsLastFileAFolderIsNotComplete) {
  TemporaryFolder folder;
  Example e;
  ordered_json description = describe(e.record, e.batches);
  ASSERT_TRUE(writeBatchesFolder(folder.path, e.lengths, e.batches, description));
  // Something stands in the way of samples.npy: no batches.json is left that would vouch for it.
  std::filesystem::remove(folder / "samples.npy");
  std::filesystem::create_directories(folder / "samples.npy/in-the-way");
  Status second = writeBatchesFolder(folder.path, e.lengths, e.batches, description);
  EXPECT_NE(errorOf(second).find("samples.npy"), std::string::npos) << errorOf(second);
  auto read = readComposition(folder.path);
  ASSERT_FALSE(read);
  EXPECT_NE(read.status().message().find("batches.json is missing"), std::string::npos);
  for (const auto &entry : std::filesystem::directory_iterator(folder.path))
    EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos) << entry.path();
}

TEST(BatchesFolder, BadDescriptionsNameTheField) {
  TemporaryFolder folder;
  Example e;
  ordered_json good = describe(e.record, e.batches);
  ASSERT_TRUE(writeBatchesFolder(folder.path, e.lengths, e.batches, good));
  auto expect = [&](const std::string &key, const ordered_json &value, const std::string &part) {
    ordered_json bad = good;
    value.is_null() ? void(bad.erase(key)) : void(bad[key] = value);
    writeFile(folder / "batches.json", bad.dump());
    auto read = readComposition(folder.path);
    ASSERT_FALSE(read) << key;
    EXPECT_NE(read.status().message().find(part), std::string::npos) << read.status().message();
    EXPECT_NE(read.status().message().find("batches.json"), std::string::npos);
  };
  expect("method", "best", "batches.json.method: one of plan");
  expect("method", nullptr, "\"method\" is missing");
  expect("tiles_cap", 0, "tiles_cap: an integer of at least 1 is expected, not 0");
  expect("ranks", 1.5, "ranks: an integer from 1 to 2147483647 is expected");
  expect("ranks", 3000000000, "expected, not 3000000000");
  expect("seed", -1, "batches.json.seed: ");
  expect("epoch", "x", "batches.json.epoch: ");
  expect("epoch", INT64_MAX, "epoch: an integer from 0 to 1048576 is expected");
  expect("oversize_policy", 1, "batches.json.oversize_policy: a string");
  expect("cost", {{"tile_ns", -1}, {"token_ns", 0}, {"square_ns", 0}},
         "batches.json.cost.tile_ns: a number of at least 0.0 is expected");
  expect("samples", 6, "5 samples, but batches.json says 6");
  writeFile(folder / "batches.json", "[]");
  EXPECT_FALSE(readComposition(folder.path));
}

TEST(BatchesFolder, Names) {
  for (auto method :
       {BatchMethod::Plan, BatchMethod::Isf, BatchMethod::Random, BatchMethod::Sorted})
    EXPECT_EQ(batchMethodNamed(name(method)), method);
  for (auto policy : {Oversize::Error, Oversize::OwnGroup, Oversize::Skip})
    EXPECT_EQ(oversizeNamed(name(policy)), policy);
  EXPECT_FALSE(batchMethodNamed("Plan"));
}

TEST(CostFile, GoodAndBad) {
  TemporaryFolder folder;
  std::string path = folder / "cost.json";
  writeFile(path, R"({"tile_ns": 2e6, "square_ns": 0.5})");
  auto cost = readCostFile(path);
  ASSERT_TRUE(cost) << cost.status().message();
  EXPECT_EQ(cost->step.cost.tileNs, 2e6);
  EXPECT_EQ(cost->step.cost.tokenNs, 0);
  EXPECT_EQ(cost->step.cost.squareNs, 0.5);
  EXPECT_EQ(cost->step.cost.tileSquareNs, 0); // a file of before there was such a term
  writeFile(path, R"({"tile_square_ns": 0.25})");
  EXPECT_EQ(readCostFile(path)->step.cost.tileSquareNs, 0.25);
  for (auto [text, part] :
       {std::pair{R"({"tile_ns": -1})", "cost.json.tile_ns: a number of at least"},
        std::pair{R"({"tile_ns": "1"})", "cost.json.tile_ns: a number of at least"},
        std::pair{R"({"tile_square_ns": -1})", "cost.json.tile_square_ns: a number of at least"},
        std::pair{R"({"tile": 1})", "\"tile\" is unknown"}, std::pair{R"({})", "must be above 0"},
        std::pair{R"([1])", "an object is expected"},
        std::pair{R"({"tile_ns": 1,)", "not valid JSON"}}) {
    writeFile(path, text);
    auto bad = readCostFile(path);
    ASSERT_FALSE(bad) << text;
    EXPECT_EQ(bad.status().message().rfind(path, 0), 0u);
    EXPECT_NE(bad.status().message().find(part), std::string::npos) << bad.status().message();
  }
}

TEST(CheckBatches, FindsWhatIsWrong) {
  Example good;
  Status status = checkBatches(good.lengths, good.record.options, good.batches);
  EXPECT_TRUE(status) << errorOf(status);
  auto expect = [&](auto change, const std::string &part) {
    Example bad;
    change(bad);
    std::string message = errorOf(checkBatches(bad.lengths, bad.record.options, bad.batches));
    EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
  };
  expect([](Example &e) { e.batches.samples[4] = 1; }, "sample 1 occurs twice");
  expect([](Example &e) { e.batches.samples[4] = 5; }, "sample 5 does not exist");
  expect([](Example &e) { e.batches.samples[4] = -1; }, "sample -1 does not exist");
  expect([](Example &e) { e.batches.offsets[4] = 4; }, "do not span");
  expect([](Example &e) { e.batches.offsets[1] = 4; }, "group 1 ends before it begins");
  expect([](Example &e) { e.batches.offsets = {0, 1, 3, 4, 5}; }, "group 1 is above the caps");
  expect([](Example &e) { e.batches.offsets[2] = 2; }, "group 1 is empty");
  // Singles that do not fill the last row are well with one empty group, not with two.
  Example singles;
  singles.batches.offsets = {0, 1, 2, 3, 4, 5, 5};
  status = checkBatches(singles.lengths, singles.record.options, singles.batches);
  EXPECT_TRUE(status) << errorOf(status);
  expect([](Example &e) { e.batches.offsets = {0, 1, 2, 3, 4, 5, 5, 5, 5}; }, "group 7 is empty");
  expect([](Example &e) { e.record.options.ranks = 3; }, "no multiple of 3 ranks");
  expect([](Example &e) { e.batches.oversize.clear(); }, "sample 3 is over a cap and not listed");
  expect([](Example &e) { e.batches.oversize.push_back(4); }, "sample 4 is listed");
  expect([](Example &e) { e.record.options.oversize = Oversize::Skip; },
         "sample 3 is not left out");
  expect(
      [](Example &e) {
        e.batches.samples.pop_back();
        e.batches.offsets = {0, 1, 2, 3, 4};
      },
      "sample 2 is missing");
}

} // namespace
} // namespace omnibal::rt
