// Programs with several train modes: one broken program for each rule, files, and what is printed.
#include "runtime/program/Printer.h"
#include "runtime/program/ProgramIO.h"
#include "runtime/program/RankGrid.h"
#include "runtime/program/Verifier.h"
#include "runtime/program/Workspace.h"
#include "runtime/support/AtomicFile.h"
#include "test/support/TemporaryFolder.h"
#include "test/unit/runtime/program/TinyModes.h"
#include <algorithm>
#include <functional>
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

/// Short micro-batches in halves of backwards, and fewer long ones.
Program shortAndLong(int32_t stages = 2, int32_t replicas = 2) {
  const TinyOptions options[] = {{.stages = stages,
                                  .microbatches = 3,
                                  .dataParallel = replicas,
                                  .tied = true,
                                  .split = true,
                                  .tokensCap = 8},
                                 {.stages = stages,
                                  .microbatches = 2,
                                  .dataParallel = replicas,
                                  .tied = true,
                                  .tokensCap = 24}};
  return tinyModes(options);
}

/// Pairs of replicas run the long micro-batches together; the ranks of a pair have entries.
Program withPairs() {
  Program p = shortAndLong(2, 4);
  p.trainModes[1].degree = 2;
  std::vector<Stage> list;
  for (const Stage &stage : p.stageList)
    for (int32_t part = 0; part < 2; ++part) {
      list.push_back(stage);
      list.back().part = part;
    }
  p.stageList = std::move(list);
  return p;
}

Mode &mode(Program &p, int stage, const char *name) { return p.stageList[stage].modes.at(name); }

TEST(TrainModes, Names) {
  for (size_t i : {0, 1, 2, 10, 63})
    EXPECT_EQ(trainModeNumber(trainModeName(i)), i);
  EXPECT_EQ(trainModeName(0), "train");
  EXPECT_EQ(trainModeName(2), "train.2");
  for (const char *name : {"", "evaluate", "forward", "train.", "train.0", "train.01", "train.-1",
                           "train.1x", "train.99999999999999999999", "train1"})
    EXPECT_EQ(trainModeNumber(name), std::nullopt) << name;
}

TEST(TrainModes, CapsAreEachModesOwn) {
  const Program p = shortAndLong();
  EXPECT_EQ(p.caps(), (MicrobatchCaps{0, 24}));
  EXPECT_EQ(p.capsOf("train"), (MicrobatchCaps{0, 8}));
  EXPECT_EQ(p.capsOf("train.1"), (MicrobatchCaps{0, 24}));
  EXPECT_EQ(p.capsOf("evaluate"), p.caps());
}

TEST(TrainModes, AreVerifiedAtTheirCaps) {
  for (int stages : {1, 2})
    for (int replicas : {1, 2}) {
      const Status status = verifyProgram(shortAndLong(stages, replicas));
      EXPECT_TRUE(status) << stages << " " << replicas << ": " << status.message();
    }
}

TEST(TrainModes, ReplicasShareTheMicrobatchesOfAMode) {
  Program p = withPairs();
  EXPECT_TRUE(verifyProgram(p)) << verifyProgram(p).message();
  EXPECT_EQ(p.entries(), 2);
  EXPECT_FALSE(p.hasOwnParts());
  EXPECT_EQ(p.dataRanks("train"), 4);
  for (const char *name : {"train.1", "evaluate", "forward"}) {
    EXPECT_EQ(p.dataRanks(name), 2) << name;
    EXPECT_EQ(p.capsOf(name).parts, 2) << name;
  }
  const RankGrid grid(p); // rank = replica x 2 stages + stage
  EXPECT_EQ(grid.contextOf(3, 1, 2), (std::vector<int>{5, 7}));
  EXPECT_EQ(grid.contextOf(3, 1, 1), (std::vector<int>{7}));
  EXPECT_EQ(grid.ranksOf(p, p.stageOf(1, 1)), (std::vector<int>{3, 7}));
  p.stageList[1].part = 0;
  EXPECT_NE(verifyProgram(p).message().find("an entry is of stage 0, part 0 where"),
            std::string::npos);
}

TEST(TrainModes, BatchValuesOfTheLargestStep) {
  int64_t most = 0;
  const TinyOptions options[] = {{.microbatches = 3, .tokensCap = 8}, {.microbatches = 2}};
  for (const TinyOptions &each : options) {
    const Program alone = tinyProgram(each);
    most = std::max(most, batchBytesOfStep(alone, alone.stageList[0]));
  }
  const Program both = tinyModes(options);
  EXPECT_EQ(batchBytesOfStep(both, both.stageList[0]), most);
}

struct Broken {
  const char *rule, *message;
  std::function<void(Program &)> change;
};

class BrokenModes : public testing::TestWithParam<Broken> {};

TEST_P(BrokenModes, AreRefused) {
  Program p = shortAndLong();
  GetParam().change(p);
  const Status status = verifyProgram(p);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.message().substr(0, status.message().find(':')), GetParam().rule)
      << status.message();
  EXPECT_NE(status.message().find(GetParam().message), std::string::npos) << status.message();
}

void dropActions(Mode &mode, ActionKind kind) {
  std::erase_if(mode.actions, [&](const Action &a) { return a.kind == kind; });
}

const Broken cases[] = {
    {"p1", "microbatches must be at least 1", [](Program &p) { p.trainModes[1].microbatches = 0; }},
    {"p1", "tokens_cap", [](Program &p) { p.trainModes[1].tokensCap = -1; }},
    // Each mode's functions and regions are for its own caps.
    {"p2", "does not lie in the workspace", [](Program &p) { p.trainModes[0].tokensCap = 9; }},
    {"p2", "does not lie in the workspace", [](Program &p) { p.trainModes[1].tokensCap = 25; }},
    {"p4", "do not fit the region",
     [](Program &p) { mode(p, 0, "train.1").regions[0].bytes = 8 * tinyWidth * 4; }},
    {"p4", "its micro-batches are not those of the manifest",
     [](Program &p) { p.trainModes[1].microbatches = 3; }},
    {"p4", "mode train.1: 0 stages give the result \"loss\"",
     [](Program &p) { mode(p, 1, "train.1").results.clear(); }},
    {"p5", "mode train.1, stage 0, transfer 0: piece",
     [](Program &p) { mode(p, 0, "train.1").transfers[0].pieces[0].sendOffset = {1 << 20, 0, 0}; }},
    {"p6", "mode train.1",
     [](Program &p) { dropActions(mode(p, 0, "train.1"), ActionKind::Update); }},
    {"p7", "mode train.1",
     [](Program &p) { dropActions(mode(p, 0, "train.1"), ActionKind::WaitSend); }},
    {"p8", "mode train.1",
     [](Program &p) {
       // The first gradient is to come before the activation goes.
       auto &actions = mode(p, 0, "train.1").actions;
       std::stable_partition(actions.begin(), actions.end(), [](const Action &a) {
         return a.index == 1 && a.microbatch == 0 &&
                (a.kind == ActionKind::PostRecv || a.kind == ActionKind::WaitRecv);
       });
     }},
    {"p9", "mode train.1",
     [](Program &p) {
       auto &regions = mode(p, 1, "train.1").regions;
       auto named = [&](const char *name) -> Region & {
         return *std::find_if(regions.begin(), regions.end(),
                              [&](const Region &r) { return r.name == name; });
       };
       named("dh").offsets = named("kept").offsets;
     }},
    {"p15", "mode train.1: its chunks and their layers",
     [](Program &p) { mode(p, 0, "train.1").chunks[0].layers = {"another"}; }},
    {"p15", "mode train.1: the buckets and shared groups",
     [](Program &p) {
       p.dataParallel = 1;
       dropActions(mode(p, 0, "train.1"), ActionKind::ReduceGradients);
     }},
    {"p16", "the degree 3 of \"G1\" does not divide data_parallel, 2",
     [](Program &p) { p.trainModes[1].degree = 3; }},
    {"p16", "the degree 0 of", [](Program &p) { p.trainModes[0].degree = 0; }},
    {"p16", "with model_parallel above 1 there is none above 1",
     [](Program &p) {
       p.trainModes[1].degree = 2;
       p.modelParallel = 2;
     }},
    {"p16", "the degree 2 of \"G0\" does not divide the largest, 3",
     [](Program &p) {
       p.dataParallel = 6;
       p.trainModes[0].degree = 2;
       p.trainModes[1].degree = 3;
     }},
    {"p16", "the name \"G0\" is empty or occurs twice",
     [](Program &p) { p.trainModes[1].name = "G0"; }},
    {"p16", "the name \"\" is empty", [](Program &p) { p.trainModes[1].name.clear(); }},
    {"p16", "but plans of single steps are for one without",
     [](Program &p) { p.stepProblem = "{}"; }},
    {"p16", "2 modes, but stages.json has 1",
     [](Program &p) {
       for (Stage &stage : p.stageList)
         stage.modes.erase("train.1");
     }},
    {"p16", "mode train.1: the manifest has 1 train modes",
     [](Program &p) { p.trainModes.erase(p.trainModes.begin()); }},
};
INSTANTIATE_TEST_SUITE_P(Rules, BrokenModes, testing::ValuesIn(cases));

TEST(TrainModes, CapsAscend) {
  const TinyOptions falling[] = {{.tokensCap = 24}, {.tokensCap = 8}};
  const Status status = verifyProgram(tinyModes(falling));
  EXPECT_NE(status.message().find("p16: manifest, train_modes: the caps do not ascend: 8 tokens of "
                                  "\"G1\" come after 24"),
            std::string::npos)
      << status.message();
}

TEST(TrainModes, EveryModeTrainsTheSame) {
  const TinyOptions both[] = {{.tokensCap = 8}, {.tokensCap = 24}};
  Program p = tinyModes(both);
  ASSERT_TRUE(verifyProgram(p));
  // The table trains in one mode only.
  std::erase_if(mode(p, 0, "train.1").chunks[0].backward,
                [](const LayerCall &call) { return call.layer == "embedding"; });
  const Status status = verifyProgram(p);
  EXPECT_NE(status.message().find("p15: stage 0, mode train.1: the parameters that get gradients"),
            std::string::npos)
      << status.message();
}

class ModeFiles : public testing::Test {
protected:
  nlohmann::json manifest() {
    return nlohmann::json::parse(*readWholeFile(folder / "manifest.json"));
  }
  std::string errorWith(const std::function<void(nlohmann::json &)> &change) {
    nlohmann::json changed = manifest();
    change(changed);
    EXPECT_TRUE(writeFileAtomically(other / "manifest.json", changed.dump()));
    for (const char *file : {"functions.json", "stages.json", "constants.safetensors"})
      std::filesystem::copy_file(folder / file, other / file,
                                 std::filesystem::copy_options::overwrite_existing);
    auto loaded = loadProgram(other.path);
    return loaded ? "" : loaded.status().message();
  }
  test::TemporaryFolder folder, other;
};

TEST_F(ModeFiles, RoundTrip) {
  const Program p = shortAndLong();
  ASSERT_TRUE(writeProgram(p, {}, {}, folder.path));
  auto loaded = loadProgram(folder.path);
  ASSERT_TRUE(loaded) << loaded.status().message();
  EXPECT_EQ(settingsToJson(loaded->program), settingsToJson(p));
  EXPECT_EQ(functionsToJson(loaded->program), functionsToJson(p));
  EXPECT_EQ(stagesToJson(loaded->program), stagesToJson(p));
  EXPECT_EQ(manifest()["version"], "omnibal.program/3");
  EXPECT_EQ(manifest()["train_modes"][1].dump(),
            R"({"degree":1,"microbatches":2,"name":"G1","schedule":"1f1b","tiles_cap":0,)"
            R"("tokens_cap":24})");
  for (const char *moved : {"tiles_cap", "tokens_cap", "microbatches", "schedule"})
    EXPECT_FALSE(manifest().contains(moved)) << moved;
  for (int rank : {0, 1}) {
    auto part = loadProgramOfRank(folder.path, rank);
    ASSERT_TRUE(part) << part.status().message();
    EXPECT_EQ(settingsToJson(part->program), settingsToJson(p));
  }
}

TEST_F(ModeFiles, RanksOfAPairReadTheirOwnEntries) {
  const Program p = withPairs();
  ASSERT_TRUE(writeProgram(p, {}, {}, folder.path));
  for (int rank = 0; rank < 8; ++rank) {
    auto loaded = loadProgramOfRank(folder.path, rank);
    ASSERT_TRUE(loaded) << loaded.status().message();
    const std::vector<Stage> &list = loaded->program.stageList;
    ASSERT_EQ(list.size(), 4u);
    const int stage = rank % 2, part = rank / 2 % 2;
    for (size_t entry = 0; entry < list.size(); ++entry)
      EXPECT_EQ(list[entry].modes.at("train").actions.empty(),
                entry != static_cast<size_t>(stage * 2 + part))
          << rank << " " << entry;
  }
}

TEST_F(ModeFiles, OneModeIsWrittenAsBefore) {
  const Program p = tinyProgram({.stages = 2});
  ASSERT_TRUE(writeProgram(p, {}, {}, folder.path));
  EXPECT_EQ(manifest()["version"], "omnibal.program/1");
  EXPECT_FALSE(manifest().contains("train_modes"));
  EXPECT_EQ(manifest()["tokens_cap"], 24);
  auto loaded = loadProgram(folder.path);
  ASSERT_TRUE(loaded) << loaded.status().message();
  ASSERT_EQ(loaded->program.trainModes.size(), 1u);
  EXPECT_EQ(loaded->program.trainModes[0].name, "");
  EXPECT_EQ(loaded->program.trainModes[0].schedule, "1f1b");
}

TEST_F(ModeFiles, ErrorsNameTheField) {
  ASSERT_TRUE(writeProgram(shortAndLong(), {}, {}, folder.path));
  ASSERT_EQ(errorWith([](auto &) {}), "");
  struct Case {
    const char *message;
    std::function<void(nlohmann::json &)> change;
  };
  const Case wrong[] = {
      {"the field \"train_modes\" is missing", [](auto &m) { m.erase("train_modes"); }},
      {"train_modes: at least two are expected, or one with a degree above 1",
       [](auto &m) { m["train_modes"].erase(1); }},
      {"train_modes: at least two are expected, or one with a degree above 1",
       [](auto &m) { m["train_modes"] = nlohmann::json::array(); }},
      {"train_modes[1]: the field \"degree\" is missing",
       [](auto &m) { m["train_modes"][1].erase("degree"); }},
      {"train_modes[0]: the field \"more\" is unknown",
       [](auto &m) { m["train_modes"][0]["more"] = 1; }},
      {"the field \"tokens_cap\" is unknown", [](auto &m) { m["tokens_cap"] = 24; }},
      {"the field \"train_modes\" is unknown", [](auto &m) { m["version"] = "omnibal.program/1"; }},
      {"p16: manifest, train_modes: the name", [](auto &m) { m["train_modes"][1]["name"] = "G0"; }},
      {"version \"omnibal.program/4\", but this omnibal-run reads \"omnibal.program/1\", "
       "\"omnibal.program/2\" and \"omnibal.program/3\"",
       [](auto &m) { m["version"] = "omnibal.program/4"; }}};
  for (const Case &c : wrong) {
    const std::string message = errorWith(c.change);
    EXPECT_NE(message.find(c.message), std::string::npos) << c.message << "\n" << message;
  }
}

TEST(TrainModes, ArePrinted) {
  const std::string text = printProgram(shortAndLong());
  for (const char *expected :
       {", 2 stages x 2 replicas\nmode train, length group \"G0\": caps V = 0 tiles, N = 8 tokens, "
        "3 micro-batches, 1f1b\nmode train.1, length group \"G1\": caps V = 0 tiles, N = 24 "
        "tokens, "
        "2 micro-batches, 1f1b\n",
        "  mode train: 3 micro-batches\n", "  mode train.1: 2 micro-batches\n"})
    EXPECT_NE(text.find(expected), std::string::npos) << expected << "\n" << text;
}

} // namespace
} // namespace omnibal::rt
