// Programs survive writing and reading, and whoever changes one behind our back is told.
#include "runtime/program/BucketShares.h"
#include "runtime/program/Names.h"
#include "runtime/program/Printer.h"
#include "runtime/program/ProgramIO.h"
#include "runtime/program/RankGrid.h"
#include "runtime/program/StagesText.h"
#include "runtime/support/AtomicFile.h"
#include "test/unit/runtime/program/TinyProgram.h"
#include <algorithm>
#include <array>
#include <filesystem>
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

namespace fs = std::filesystem;

class ProgramFiles : public testing::Test {
protected:
  void SetUp() override {
    std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder = fs::temp_directory_path() / ("omnibal-program-" + name + std::to_string(getpid()));
    fs::remove_all(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  Program withConstant() {
    Program p = tinyProgram({.stages = 2});
    for (Stage &stage : p.stageList) {
      // Four numbers at the end of the persistent part; everything after it moves up.
      stage.constants.push_back({"four", DType::F32, {4}, stage.persistentBytes});
      stage.persistentBytes += 64;
      stage.arenaBytes += 64;
      for (auto &[name, mode] : stage.modes)
        for (Region &r : mode.regions)
          for (int64_t &offset : r.offsets)
            offset += 64;
    }
    return p;
  }
  Status write(const Program &p, const std::string &to) {
    return writeProgram(p, {{"four", DType::F32, {4}, std::string(16, '\0')}}, code, to);
  }
  std::string read(const std::string &file) { return *readWholeFile(folder / file); }
  void overwrite(const std::string &file, const std::string &text) {
    ASSERT_TRUE(writeFileAtomically(folder / file, text));
  }
  std::string loadError() {
    auto loaded = loadProgram(folder);
    return loaded ? "" : loaded.status().message();
  }

  GeneratedCode code{"kernels.so", "not really code"};
  fs::path folder;
};

TEST_F(ProgramFiles, RoundTrip) {
  Program p = withConstant();
  ASSERT_TRUE(write(p, folder)) << write(p, folder).message();
  auto loaded = loadProgram(folder);
  ASSERT_TRUE(loaded) << loaded.status().message();
  EXPECT_EQ(functionsToJson(loaded->program), functionsToJson(p));
  EXPECT_EQ(stagesToJson(loaded->program), stagesToJson(p));
  EXPECT_EQ(settingsToJson(loaded->program), settingsToJson(p));
  EXPECT_EQ(loaded->kernels, folder.string() + "/kernels.so");
  EXPECT_NE(loaded->constants->find("four"), nullptr);
}

TEST_F(ProgramFiles, SharesOfReplicasComeBack) {
  for (bool inBFloat16 : {false, true}) {
    Program p =
        tinyProgram({.stages = 2, .dataParallel = 3, .inBFloat16 = inBFloat16, .zero = true});
    ASSERT_TRUE(write(p, folder)) << write(p, folder).message();
    auto loaded = loadProgram(folder);
    ASSERT_TRUE(loaded) << loaded.status().message();
    EXPECT_EQ(loaded->program.zero, 1);
    EXPECT_EQ(stagesToJson(loaded->program), stagesToJson(p));
    EXPECT_EQ(settingsToJson(loaded->program), settingsToJson(p));
    EXPECT_EQ(loaded->program.stageList[1].buckets[0].share->bounds,
              (std::vector<int64_t>{0, 0, 0, 66}));
  }
  EXPECT_FALSE(settingsToJson(tinyProgram({.dataParallel = 2})).contains("zero"));
}

TEST_F(ProgramFiles, PartsOfStagesComeBack) {
  const Program p = tinyProgram({.stages = 2, .dataParallel = 2, .modelParallel = 3});
  ASSERT_TRUE(write(p, folder)) << write(p, folder).message();
  auto loaded = loadProgram(folder);
  ASSERT_TRUE(loaded) << loaded.status().message();
  EXPECT_EQ(loaded->program.modelParallel, 3);
  EXPECT_EQ(settingsToJson(loaded->program), settingsToJson(p));
  EXPECT_NE(printProgram(p).find("2 stages x 2 replicas x 3 parts"), std::string::npos);
  EXPECT_FALSE(settingsToJson(tinyProgram({.dataParallel = 2})).contains("model_parallel"));
  // Of 12 ranks, the parts of a stage read the same one.
  for (int rank = 0; rank < 12; ++rank) {
    auto own = loadProgramOfRank(folder, rank);
    ASSERT_TRUE(own) << own.status().message();
    for (int stage : {0, 1})
      EXPECT_EQ(own->program.stageList[stage].modes.at("train").actions.empty(),
                stage != rank / 3 % 2)
          << rank;
  }
}

TEST(ProgramSettings, NumberOfPartsIsChecked) {
  const Program p = tinyProgram({});
  const nlohmann::json functions = nlohmann::json::parse(functionsToJson(p));
  for (const char *text : {"1", "0", "-2", "65537", "2.5", "\"2\""}) {
    nlohmann::json settings = settingsToJson(p);
    settings["model_parallel"] = nlohmann::json::parse(text);
    const auto read = programFromJson(settings, functions);
    ASSERT_FALSE(read) << text;
    EXPECT_NE(read.status().message().find("model_parallel"), std::string::npos)
        << read.status().message();
    EXPECT_NE(read.status().message().find("from 2 to 65536"), std::string::npos)
        << read.status().message();
  }
}

/// By hand: parameters of 20000, 30000 and 1 elements in 4 blocks of 16384.
TEST(BucketShares, AreCutAtBlocksAndParameters) {
  Stage stage;
  for (int64_t elements : {30000, 20000, 1}) {
    Parameter &q = stage.parameters.emplace_back();
    q.shape = {elements};
    q.gradOffset = elements == 20000 ? 0 : 80000 + elements; // the second one comes first
  }
  std::swap(stage.parameters[0].gradOffset, stage.parameters[2].gradOffset);
  Bucket bucket{{0, 1, 2}, std::nullopt};
  EXPECT_EQ(elementsOf(stage, bucket, 1), 50001);
  EXPECT_EQ(cutIntoShares(50001, 2), (std::vector<int64_t>{0, 32768, 50001}));
  EXPECT_EQ(cutIntoShares(50001, 3), (std::vector<int64_t>{0, 16384, 32768, 50001}));
  EXPECT_EQ(cutIntoShares(50001, 5), (std::vector<int64_t>{0, 0, 16384, 32768, 49152, 50001}));
  EXPECT_EQ(largestShare({0, 32768, 50001}), 32768);
  EXPECT_EQ(cutIntoShares(0, 2), (std::vector<int64_t>{0, 0, 0}));
  bucket.share.emplace().bounds = {0, 32768, 50001};
  std::vector<std::array<int64_t, 5>> pieces;
  for (const BucketPiece &piece : piecesOf(stage, bucket, 1))
    pieces.push_back({piece.parameter, piece.first, piece.count, piece.at, piece.owner});
  EXPECT_EQ(pieces, (std::vector<std::array<int64_t, 5>>{{1, 0, 20000, 0, 0},
                                                         {0, 0, 12768, 20000, 0},
                                                         {0, 12768, 17232, 32768, 1},
                                                         {2, 0, 1, 50000, 1}}));
  bucket.share.reset();
  EXPECT_EQ(piecesOf(stage, bucket, 1).size(), 3u);
  EXPECT_EQ(blocksOf(17232, 32768 % normBlock), 2);
  EXPECT_EQ(blocksOf(12768, 20000 % normBlock), 1);
}

/// By hand: rounded up to 256, the same parameters have 20224, 30208 and 256 elements.
TEST(BucketShares, HaveWholeBlocksOfCodes) {
  Stage stage;
  for (int64_t elements : {20000, 30000, 1}) {
    Parameter &q = stage.parameters.emplace_back();
    q.shape = {elements};
    q.gradOffset = 200000 * static_cast<int64_t>(stage.parameters.size());
  }
  Bucket bucket{{0, 1, 2}, BucketShare{}};
  const int64_t grain = bucketGrain(OptimizerKind::AdamW8bit);
  EXPECT_EQ(bucketGrain(OptimizerKind::Muon), 1);
  ASSERT_EQ(elementsOf(stage, bucket, grain), 50688);
  bucket.share->bounds = cutIntoShares(50688, 2);
  EXPECT_EQ(bucket.share->bounds, (std::vector<int64_t>{0, 32768, 50688}));
  std::vector<std::array<int64_t, 5>> pieces;
  for (const BucketPiece &piece : piecesOf(stage, bucket, grain))
    pieces.push_back({piece.parameter, piece.first, piece.count, piece.at, piece.owner});
  EXPECT_EQ(pieces, (std::vector<std::array<int64_t, 5>>{{0, 0, 20000, 0, 0},
                                                         {1, 0, 12544, 20224, 0},
                                                         {1, 12544, 17456, 32768, 1},
                                                         {2, 0, 1, 50432, 1}}));
}

/// Every rank has one place, and the groups of a kind hold every rank once.
TEST(RankGrid, CoordinatesAndGroups) {
  const RankGrid grid(3, 2, 4);
  EXPECT_EQ(grid.ranks(), 24);
  for (int rank = 0; rank < grid.ranks(); ++rank)
    EXPECT_EQ(grid.rankOf(grid.placeOf(rank)), rank);
  EXPECT_EQ(grid.placeOf(13), (RankPlace{1, 1, 1}));
  EXPECT_EQ(grid.partsOf(1, 1), (std::vector<int>{12, 13, 14, 15}));
  EXPECT_EQ(grid.replicasOf(1, 1), (std::vector<int>{5, 13, 21}));
  EXPECT_EQ(grid.sharersOf(1, std::vector<int>{0, 1}, 1), (std::vector<int>{9, 13}));
  EXPECT_EQ(grid.holdersOf(1).size(), 12u);
  // With one part as programs have it: replica by replica.
  const RankGrid plain(2, 3);
  EXPECT_EQ(plain.placeOf(4), (RankPlace{1, 1, 0}));
  EXPECT_EQ(plain.replicasOf(2), (std::vector<int>{2, 5}));
}

/// Stage by stage, then: whoever is what has the same place in sums.
TEST(RankGrid, ReplicasAsNeighbors) {
  const RankGrid grid(3, 2, 4, RankOrder::Replica), plain(3, 2, 4);
  std::vector<int> numbers;
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    const RankPlace place = grid.placeOf(rank);
    EXPECT_EQ(grid.rankOf(place), rank);
    EXPECT_EQ(grid.numberOf(place), plain.rankOf(place));
    EXPECT_EQ(grid.placeAt(grid.numberOf(place)), place);
    numbers.push_back(grid.numberOf(place));
  }
  std::sort(numbers.begin(), numbers.end());
  for (int i = 0; i < grid.ranks(); ++i)
    EXPECT_EQ(numbers[i], i);
  // rank = (stage x 3 replicas + replica) x 4 parts + part
  EXPECT_EQ(grid.placeOf(13), (RankPlace{0, 1, 1}));
  EXPECT_EQ(grid.partsOf(1, 1), (std::vector<int>{16, 17, 18, 19}));
  EXPECT_EQ(grid.replicasOf(1, 1), (std::vector<int>{13, 17, 21}));
  EXPECT_EQ(grid.sharersOf(1, std::vector<int>{0, 1}, 1), (std::vector<int>{5, 17}));
  EXPECT_EQ(RankGrid(4, 2, 1, RankOrder::Replica).contextOf(3, 1, 2), (std::vector<int>{6, 7}));
}

TEST_F(ProgramFiles, ReplicasAsNeighbors) {
  Program p = tinyProgram({.stages = 2, .dataParallel = 2});
  p.rankOrder = RankOrder::Replica;
  ASSERT_TRUE(write(p, folder));
  const int stageOf[] = {0, 0, 1, 1};
  for (int rank = 0; rank < 4; ++rank) {
    auto own = loadProgramOfRank(folder, rank);
    ASSERT_TRUE(own) << own.status().message();
    EXPECT_EQ(own->program.rankOrder, RankOrder::Replica);
    for (const Stage &stage : own->program.stageList)
      EXPECT_EQ(stage.modes.at("train").actions.empty(), stage.id != stageOf[rank]) << rank;
  }
}

TEST_F(ProgramFiles, ARankReadsItsOwnStage) {
  Program p = withConstant();
  ASSERT_GE(p.stageList.size(), 2u);
  ASSERT_TRUE(write(p, folder));
  auto whole = loadProgram(folder);
  ASSERT_TRUE(whole) << whole.status().message();
  const int stages = static_cast<int>(p.stageList.size());
  for (int rank = 0; rank < 2 * stages; ++rank) {
    auto part = loadProgramOfRank(folder, rank);
    ASSERT_TRUE(part) << part.status().message();
    EXPECT_EQ(part->identity, whole->identity);
    for (Stage &stage : p.stageList)
      if (stage.id != rank % stages)
        for (auto &[name, mode] : stage.modes) {
          mode.actions.clear();
          mode.regions.clear();
        }
    EXPECT_EQ(stagesToJson(part->program), stagesToJson(p)) << rank;
    EXPECT_EQ(functionsToJson(part->program), functionsToJson(p));
    p = withConstant();
  }
  p.stageList[0].parameters[0].name += "2"; // another program has another identity
  ASSERT_TRUE(write(p, folder));
  EXPECT_NE(loadProgramOfRank(folder, 1)->identity, whole->identity);
}

TEST(StagesText, FindsTheEndsOfValues) {
  using Elements = std::vector<std::string_view>;
  EXPECT_EQ(elementsOfArray(" [ ] \n"), Elements());
  EXPECT_EQ(elementsOfArray(R"([1, "a,]\"", {"x": [1, "]"]} ,[[]]])"),
            (Elements{"1", R"("a,]\"")", R"({"x": [1, "]"]})", "[[]]"}));
  for (const char *text : {"", "{}", "[", "[1", "[1,", "[\"", "[] []", "[1] 2", "[1]]"})
    EXPECT_EQ(elementsOfArray(text), std::nullopt) << text;

  EXPECT_EQ(withoutMembers(R"({"a": "b", "b" : [1, {"a": "]"}], "c": {"b":2,"a":[]}})", {"b"}),
            R"({"a": "b", "b" :[], "c": {"b":[],"a":[]}})");
  EXPECT_EQ(withoutMembers(R"({"x\"b": 1, "y": ["b", "b"]})", {"b"}),
            R"({"x\"b": 1, "y": ["b", "b"]})");
  for (const char *text : {"", "\"", "\"b", "\"b\"", "\"b\":", "{\"b\":[", "{\"b\":\"\\"})
    EXPECT_LE(withoutMembers(text, {"b"}).size(), std::string(text).size() + 2) << text;
}

TEST_F(ProgramFiles, TokenTypesOfAPrefix) {
  Program p = withConstant();
  ASSERT_EQ(settingsToJson(p)["info"].count("prefix_inputs"), 0u);
  p.info.prefixInputs = {"token_type_ids"};
  ASSERT_TRUE(write(p, folder)) << write(p, folder).message();
  auto loaded = loadProgram(folder);
  ASSERT_TRUE(loaded) << loaded.status().message();
  EXPECT_EQ(loaded->program.info.prefixInputs, p.info.prefixInputs);
}

TEST_F(ProgramFiles, WhetherTokensNeedOnlyKeysAndValues) {
  Program p = withConstant();
  ASSERT_EQ(settingsToJson(p)["info"].count("incremental"), 0u);
  p.info.incremental = true;
  ASSERT_TRUE(write(p, folder)) << write(p, folder).message();
  auto loaded = loadProgram(folder);
  ASSERT_TRUE(loaded) << loaded.status().message();
  EXPECT_TRUE(loaded->program.info.incremental);
}

TEST_F(ProgramFiles, TokensOfASampleWhereAModelHasATableOfPositions) {
  Program p = withConstant();
  ASSERT_EQ(settingsToJson(p)["info"].count("positions"), 0u);
  p.info.positions = 2048;
  ASSERT_TRUE(write(p, folder)) << write(p, folder).message();
  auto loaded = loadProgram(folder);
  ASSERT_TRUE(loaded) << loaded.status().message();
  EXPECT_EQ(loaded->program.info.positions, 2048);
  p.info.positions = -1;
  EXPECT_FALSE(write(p, folder));
}

TEST_F(ProgramFiles, WhatTheRoutersLossCounts) {
  Program p = withConstant();
  ASSERT_EQ(settingsToJson(p)["info"].count("router_loss_coefficient"), 0u);
  p.info.routerLossCoefficient = 1e-3;
  for (Stage &stage : p.stageList)
    if (Mode &mode = stage.modes.at("train"); !mode.results.empty())
      mode.results.push_back({routerLossResult, DType::F32, {}, mode.results[0].region, 0});
  ASSERT_TRUE(write(p, folder)) << write(p, folder).message();
  auto loaded = loadProgram(folder);
  ASSERT_TRUE(loaded) << loaded.status().message();
  EXPECT_EQ(loaded->program.info.routerLossCoefficient, 1e-3);
  EXPECT_NE(printProgram(p).find("balancing loss counts 0.001 times"), std::string::npos);
}

TEST_F(ProgramFiles, WhatRewardsOfPairsAreMultipliedBy) {
  Program p = withConstant();
  ASSERT_EQ(settingsToJson(p)["info"].count("preference_beta"), 0u);
  p.info.preferenceBeta = 0.25;
  for (Stage &stage : p.stageList)
    for (auto &[name, mode] : stage.modes)
      if (name != "forward" && !mode.results.empty())
        for (const char *result : {chosenRewardResult, rejectedRewardResult, preferredResult}) {
          mode.results.push_back(mode.results[0]);
          mode.results.back().name = result;
        }
  ASSERT_TRUE(write(p, folder)) << write(p, folder).message();
  auto loaded = loadProgram(folder);
  ASSERT_TRUE(loaded) << loaded.status().message();
  EXPECT_TRUE(loaded->program.info.learnsFromPairs());
  EXPECT_EQ(loaded->program.info.preferenceBeta, 0.25);
  EXPECT_NE(printProgram(p).find("pairs of answers, whose rewards count 0.25 times"),
            std::string::npos);
  p.info.preferenceBeta = -0.25;
  EXPECT_FALSE(write(p, folder));
}

TEST_F(ProgramFiles, PicturesOfTheirOwnSizes) {
  Program p = withConstant();
  ASSERT_EQ(settingsToJson(p)["info"].count("pictures"), 0u);
  p.info.tokensPerTile = 1;
  p.info.tileShape = {4, 96};
  p.info.grid = PictureGrid{4, 2, 2, 16, 7};
  ASSERT_TRUE(write(p, folder)) << write(p, folder).message();
  auto loaded = loadProgram(folder);
  ASSERT_TRUE(loaded) << loaded.status().message();
  EXPECT_EQ(loaded->program.info.grid, p.info.grid);
  EXPECT_EQ(settingsToJson(p)["info"]["pictures"].dump(),
            R"({"grid_side":7,"merge":2,"patch":4,"temporal":2,"window":16})");
  EXPECT_NE(printProgram(p).find("patches of 4 pixels"), std::string::npos);
  EXPECT_NE(printProgram(p).find("7 x 7 positions, bilinear on corners\n"), std::string::npos);
}

TEST_F(ProgramFiles, TableResampledByCubicInterpolation) {
  Program p = withConstant();
  p.info.tokensPerTile = 1;
  p.info.tileShape = {4, 96};
  p.info.grid = PictureGrid{4, 2, 2, 0, 7, Interpolation::Bicubic, false};
  ASSERT_TRUE(write(p, folder)) << write(p, folder).message();
  auto loaded = loadProgram(folder);
  ASSERT_TRUE(loaded) << loaded.status().message();
  EXPECT_EQ(loaded->program.info.grid, p.info.grid);
  EXPECT_NE(printProgram(p).find("7 x 7 positions, bicubic\n"), std::string::npos);
}

TEST_F(ProgramFiles, CodeOfAnotherKindReplacesTheOld) {
  ASSERT_TRUE(write(withConstant(), folder));
  code.file = "kernels.fatbin";
  ASSERT_TRUE(write(withConstant(), folder));
  EXPECT_FALSE(fs::exists(folder / "kernels.so"));
  EXPECT_EQ(loadProgram(folder)->kernels, folder.string() + "/kernels.fatbin");
}

TEST_F(ProgramFiles, SameInputSameBytes) {
  fs::path other = folder.string() + "-again";
  ASSERT_TRUE(write(withConstant(), folder));
  ASSERT_TRUE(write(withConstant(), other));
  for (const char *file :
       {"manifest.json", "functions.json", "stages.json", "constants.safetensors"})
    EXPECT_EQ(*readWholeFile(folder / file), *readWholeFile(other / file)) << file;
  fs::remove_all(other);
}

TEST_F(ProgramFiles, DamageIsFound) {
  ASSERT_TRUE(write(withConstant(), folder));
  for (const char *file :
       {"functions.json", "stages.json", "constants.safetensors", "kernels.so"}) {
    std::string text = read(file), damaged = text;
    damaged[damaged.size() / 2] ^= 1;
    overwrite(file, damaged);
    EXPECT_NE(loadError().find(std::string(file) + ": the contents do not match"),
              std::string::npos)
        << loadError();
    overwrite(file, text.substr(0, text.size() - 1));
    EXPECT_NE(loadError().find(std::string(file) + ": " + std::to_string(text.size() - 1)),
              std::string::npos)
        << loadError();
    overwrite(file, text);
  }
  EXPECT_EQ(loadError(), "");
}

TEST_F(ProgramFiles, ManifestErrorsNameTheField) {
  EXPECT_NE(loadError().find("no manifest.json"), std::string::npos);
  ASSERT_TRUE(write(withConstant(), folder));
  auto manifest = nlohmann::json::parse(read("manifest.json"));
  auto with = [&](auto change) {
    auto copy = manifest;
    change(copy);
    overwrite("manifest.json", copy.dump());
    return loadError();
  };
  EXPECT_NE(with([](auto &m) { m["version"] = "omnibal.program/9"; }).find("omnibal.program/9"),
            std::string::npos);
  EXPECT_NE(with([](auto &m) { m["stages"] = "two"; }).find("stages: an integer from"),
            std::string::npos);
  EXPECT_NE(with([](auto &m) { m.erase("tiles_cap"); }).find("\"tiles_cap\" is missing"),
            std::string::npos);
  EXPECT_NE(with([](auto &m) { m["compute"] = "bfloat16"; }).find("target host has float32"),
            std::string::npos);
  EXPECT_NE(with([](auto &m) {
              m["files"]["kernels.ptx"] = m["files"]["kernels.so"];
            }).find("generated code twice"),
            std::string::npos);
  EXPECT_NE(with([](auto &m) { m["more"] = 1; }).find("\"more\" is unknown"), std::string::npos);
}

TEST_F(ProgramFiles, MissingConstant) {
  Status status = writeProgram(withConstant(), {}, {}, folder);
  ASSERT_TRUE(status) << status.message();
  EXPECT_NE(loadError().find("constant \"four\" is missing"), std::string::npos) << loadError();
}

TEST(Printing, ShowsWhatAPersonAsksFor) {
  std::string text = printProgram(tinyProgram({.stages = 2, .tied = true}));
  for (const char *expected :
       {"function @head.backward", "gemm a=kept[N, 6] b=weight[6, 11] c=logits[N, 11]",
        "table f32 [11, 6] trainable, shared group 0 (copy)", "backward chunk 1 mb 1",
        "transfer 1 (gradients): stage 1 -> stage 0: h[N, 6]", "memory: arena", "reduce_shared 0"})
    EXPECT_NE(text.find(expected), std::string::npos) << expected << "\n" << text;
}

TEST(Printing, Extents) {
  EXPECT_EQ(toString(Extent{0, 0, 0}), "0");
  EXPECT_EQ(toString(Extent{1, 0, 0}), "1");
  EXPECT_EQ(toString(Extent{0, 1, 0}), "V");
  EXPECT_EQ(toString(Extent{64, 1025, 1}), "64 + 1025 V + N");
}

} // namespace
} // namespace omnibal::rt
