// Steps of several train modes, from folders with length groups and from steps files.
#include "runtime/batching/io/Npy.h"
#include "runtime/batching/lengths/GroupedFolder.h"
#include "runtime/batching/steps/Steps.h"
#include "runtime/support/AtomicFile.h"
#include "test/support/TemporaryFolder.h"
#include "test/unit/runtime/batching/GroupedFolders.h"
#include <functional>
#include <gtest/gtest.h>
#include <set>

namespace omnibal::rt {
namespace {

/// A few long texts among many short ones.
SampleLengths texts(int64_t count) {
  SampleLengths lengths;
  for (int64_t i = 0; i < count; ++i) {
    lengths.tiles.push_back(0);
    lengths.tokens.push_back(static_cast<int32_t>(i % 9 == 4 ? 40 + i % 23 : 1 + i * 7 % 15));
  }
  return lengths;
}

BatchesUse useOf(const LengthGroups &groups, int64_t samples) {
  BatchesUse use;
  use.layout = {1, groups.replicas, {}};
  for (const LengthGroup &g : groups.groups) {
    use.modes.push_back({g.name, 0, g.tokensCap, g.degree, g.microbatches});
    use.layout.degrees.push_back(g.degree);
  }
  use.tokensCap = groups.groups.back().tokensCap;
  use.samples = samples;
  return use;
}

class GroupedSteps : public testing::Test {
protected:
  GroupedEpoch write(const EpochOptions &options = {}) {
    auto epoch = writeGroupedFolder(folder.path, lengths, groups, options);
    EXPECT_TRUE(epoch) << epoch.status().message();
    return *epoch;
  }
  std::string error(const BatchesUse &use) {
    auto source = openBatches(folder.path, use);
    return source ? "" : source.status().message();
  }
  std::string error() { return error(useOf(groups, lengths.size())); }

  test::TemporaryFolder folder;
  SampleLengths lengths = texts(300);
  LengthGroups groups = textGroups(2, {{20, 3}, {70, 2}});
};

/// Compares the steps that readers of all replicas give from `first` on with an epoch's rows.
int64_t expectEpoch(StepSource &source, const LengthGroups &groups, const GroupedEpoch &epoch,
                    int64_t number, int64_t first, int64_t end) {
  const int64_t steps = epoch.stepOf.back() + 1;
  for (int64_t replica = 0; replica < groups.replicas; ++replica) {
    auto reader = source.reader(replica, {number, first}, end);
    int64_t row = 0, firstGroup = 0; // of the row
    for (int64_t step = 0; step < steps; ++step) {
      auto mode = reader->mode(first + step);
      EXPECT_TRUE(mode) << mode.status().message();
      EXPECT_EQ(*mode, static_cast<size_t>(epoch.modeOf[row])) << "step " << step;
      for (int64_t m = 0; m < groups.groups[*mode].microbatches; ++m) {
        std::vector<int64_t> expected;
        if (row < epoch.rows() && epoch.stepOf[row] == step) {
          const LengthGroup &own = groups.groups[*mode];
          const int64_t group = firstGroup + replica / own.degree;
          firstGroup += own.ranks;
          ++row;
          expected.assign(epoch.samples.begin() + epoch.offsets[group],
                          epoch.samples.begin() + epoch.offsets[group + 1]);
        }
        auto samples = reader->samples(first + step, m);
        EXPECT_TRUE(samples) << samples.status().message();
        EXPECT_EQ(*samples, expected) << "step " << step << ", micro-batch " << m;
      }
      EXPECT_EQ(reader->position(first + step).epoch, number);
    }
    EXPECT_EQ(row, epoch.rows());
  }
  return first + steps;
}

TEST_F(GroupedSteps, EpochsFollowEachOther) {
  EpochOptions options{.seed = 5, .epoch = 0, .curriculum = {4, 1}};
  GroupedEpoch epoch = write(options);
  auto source = openBatches(folder.path, useOf(groups, lengths.size()));
  ASSERT_TRUE(source) << source.status().message();
  EXPECT_FALSE((*source)->repeats());
  EXPECT_EQ((*source)->steps(), epoch.stepOf.back() + 1);
  // The curriculum is of the first epoch alone.
  EXPECT_EQ(std::set<int32_t>(epoch.modeOf.begin(), epoch.modeOf.begin() + 12), std::set{0});
  EXPECT_EQ(std::set<int32_t>(epoch.modeOf.begin(), epoch.modeOf.end()).size(), 2u);
  int64_t step = 0;
  for (int64_t number = 0; number < 3; ++number) {
    options.epoch = number;
    auto expected = packEpoch(lengths, groups, options);
    ASSERT_TRUE(expected);
    step = expectEpoch(**source, groups, *expected, number, step, 1000);
  }
}

/// Rows of a mode in which replicas share micro-batches have fewer groups.
TEST_F(GroupedSteps, NeighborsReadOneGroup) {
  groups = textGroups(4, {{20, 3}, {70, 2}, {90, 1}});
  for (size_t i : {1, 2}) {
    groups.groups[i].degree = i == 1 ? 2 : 4;
    groups.groups[i].ranks = 4 / groups.groups[i].degree;
    groups.groups[i].cost.tokenNs /= 8 * static_cast<double>(i); // they are wanted
  }
  EpochOptions options{.seed = 2, .epoch = 0};
  const GroupedEpoch epoch = write(options);
  EXPECT_GT(std::set<int32_t>(epoch.modeOf.begin(), epoch.modeOf.end()).size(), 1u);
  auto source = openBatches(folder.path, useOf(groups, lengths.size()));
  ASSERT_TRUE(source) << source.status().message();
  int64_t step = 0;
  for (int64_t number = 0; number < 2; ++number) {
    options.epoch = number;
    auto expected = packEpoch(lengths, groups, options);
    ASSERT_TRUE(expected);
    step = expectEpoch(**source, groups, *expected, number, step, 1000);
  }
}

/// Whoever goes on in the middle, at any step, reads what it would have read.
TEST_F(GroupedSteps, ResumedAnywhere) {
  write({.curriculum = {3, 1}});
  const BatchesUse use = useOf(groups, lengths.size());
  auto source = openBatches(folder.path, use), again = openBatches(folder.path, use);
  ASSERT_TRUE(source && again);
  EXPECT_EQ((*source)->fingerprint(), (*again)->fingerprint());
  const int64_t end = 2 * (*source)->steps() + 2;
  auto reader = (*source)->reader(1, {}, end);
  for (int64_t step = 0; step < end; ++step) {
    auto mode = reader->mode(step);
    ASSERT_TRUE(mode);
    const DataPosition position = reader->position(step);
    auto resumed = (*again)->reader(1, position, end);
    EXPECT_EQ(*resumed->mode(step), *mode) << step;
    for (int64_t m = 0; m < groups.groups[*mode].microbatches; ++m)
      EXPECT_EQ(*resumed->samples(step, m), *reader->samples(step, m)) << step;
    EXPECT_EQ(*resumed->checksum(step), *reader->checksum(step)) << step;
  }
}

TEST_F(GroupedSteps, FingerprintsKnowRowsAndGroups) {
  auto fingerprint = [&]() -> uint64_t {
    auto source = openBatches(folder.path, useOf(groups, lengths.size()));
    EXPECT_TRUE(source) << source.status().message();
    return (*source)->fingerprint();
  };
  std::set<uint64_t> seen;
  GroupedEpoch epoch = write();
  seen.insert(fingerprint());
  write({.seed = 2, .curriculum = {}});
  seen.insert(fingerprint());
  write({.epoch = 1, .curriculum = {}});
  seen.insert(fingerprint());
  groups.groups[1].cost.stepNs *= 2; // later epochs may differ
  write();
  seen.insert(fingerprint());
  groups.groups[1].cost.stepNs /= 2;
  EXPECT_EQ(seen.size(), 4u);
  // The same groups in the same order, but of other steps.
  EpochGroups one(Batches{});
  one.batches.samples = {0, 1, 2, 3};
  one.batches.offsets = {0, 1, 2, 3, 4};
  one.modes = {0, 0};
  one.firstRows = {0, 2, 4};
  EpochGroups other = one;
  other.firstRows = {0, 1, 4};
  EpochGroups third = one;
  third.modes = {0, 1};
  for (const EpochGroups &each : {one, other, third})
    seen.insert(StepSource::create(each, {1, 1})->fingerprint());
  EXPECT_EQ(seen.size(), 7u);
}

TEST_F(GroupedSteps, ModesBelongTogetherByName) {
  write();
  BatchesUse use = useOf(groups, lengths.size());
  std::swap(use.modes[0], use.modes[1]);
  auto source = openBatches(folder.path, use);
  ASSERT_TRUE(source) << source.status().message();
  auto reader = (*source)->reader(0, {}, 2);
  auto straight = openBatches(folder.path, useOf(groups, lengths.size()));
  EXPECT_NE(*reader->mode(0), *(*straight)->reader(0, {}, 2)->mode(0));
  // Larger caps of the program do no harm.
  use.modes[0].tokensCap += 10;
  EXPECT_EQ(error(use), "");
}

TEST_F(GroupedSteps, WhatDoesNotFitIsRefusedWithBothValues) {
  write();
  struct Case {
    const char *message;
    std::function<void(BatchesUse &)> change;
  };
  const Case cases[] = {
      {"the folder has 2 length groups, but the program has one train mode; compile the program",
       [](BatchesUse &u) { u.modes.clear(); }},
      {"the folder has 2 length groups, but the program has 3 train modes (G0, G1, G2)",
       [](BatchesUse &u) { u.modes.push_back({"G2", 0, 100, 1, 1}); }},
      {"groups.json: the length groups are for 2 ranks, but the program has 4 data-parallel ranks",
       [](BatchesUse &u) { u.layout.replicas = 4; }},
      {"length group \"G1\" is no train mode of the program, which has G0, long",
       [](BatchesUse &u) { u.modes[1].name = "long"; }},
      {"length group \"G1\" has tokens_cap 70, but the program's train mode 69",
       [](BatchesUse &u) { u.modes[1].tokensCap = 69; }},
      {"length group \"G0\" has degree 1, but the program's train mode 2",
       [](BatchesUse &u) { u.modes[0].degree = 2; }},
      {"length group \"G0\" has microbatches 3, but the program's train mode 4",
       [](BatchesUse &u) { u.modes[0].microbatches = 4; }},
      {"lengths.npy: lengths of 300 samples, but --data holds 301",
       [](BatchesUse &u) { u.samples = 301; }},
      {"lengths.npy: sample 0 has 1 pictures in --data, but 0 here",
       [](BatchesUse &u) { u.tilesOf = [](int64_t) { return 1; }; }}};
  for (const Case &c : cases) {
    BatchesUse use = useOf(groups, lengths.size());
    c.change(use);
    const std::string message = error(use);
    EXPECT_NE(message.find(c.message), std::string::npos) << c.message << "\n" << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  // Tiles count where there are pictures.
  lengths.tiles[7] = 1;
  write();
  EXPECT_NE(error().find("\"G0\" has tiles_cap 1, but the program's train mode 0"),
            std::string::npos)
      << error();
}

TEST_F(GroupedSteps, OneLengthGroupIsForProgramsOfOneMode) {
  const LengthGroups both = groups;
  groups = textGroups(2, {{70, 2}});
  write();
  EXPECT_NE(
      error(useOf(both, lengths.size()))
          .find("the folder has one length group, but the program has 2 train modes (G0, G1)"),
      std::string::npos);
  BatchesUse single;
  single.layout = {2, 2};
  single.tokensCap = 70;
  single.samples = lengths.size();
  auto source = openBatches(folder.path, single);
  ASSERT_TRUE(source) << source.status().message();
  auto reader = (*source)->reader(0, {}, 3);
  EXPECT_EQ(*reader->mode(2), 0u);
}

TEST_F(GroupedSteps, DamageIsFound) {
  const GroupedEpoch epoch = write();
  auto writeRows = [&](const std::vector<int32_t> &values) {
    auto file = NpyWriter::int32(folder / "rows.npy", static_cast<int64_t>(values.size()) / 2, 2);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->append(values));
    ASSERT_TRUE(file->commit());
  };
  std::vector<int32_t> rows;
  for (int64_t r = 0; r < epoch.rows(); ++r)
    rows.insert(rows.end(), {epoch.modeOf[r], epoch.stepOf[r]});
  struct Case {
    const char *message;
    std::function<void(std::vector<int32_t> &)> change;
  };
  const Case cases[] = {
      {"(g2): ", [](auto &r) { r.resize(r.size() - 2); }},
      {"(g2): row 0 is of length group 7", [](auto &r) { r[0] = 7; }},
      {"(g2): row 0 is of length group -1", [](auto &r) { r[0] = -1; }},
      {"(g3): row 0 is of step 3, but step 0 comes next", [](auto &r) { r[1] = 3; }},
      {"(g3)", [](auto &r) { r.insert(r.end(), {0, 1000000}); }},
      {"(g2)", [](auto &r) { r.clear(); }}};
  for (const Case &c : cases) {
    std::vector<int32_t> changed = rows;
    c.change(changed);
    writeRows(changed);
    const std::string message = error();
    EXPECT_NE(message.find(c.message), std::string::npos) << c.message << "\n" << message;
    EXPECT_NE(message.find("rows.npy"), std::string::npos) << message;
    EXPECT_NE(message.find("run omnibal-batch again"), std::string::npos) << message;
  }
  writeRows(rows);
  EXPECT_EQ(error(), "");
  auto changeJson = [&](const char *name, const std::function<void(nlohmann::json &)> &change) {
    const std::string text = test::readFile(folder / name);
    nlohmann::json value = nlohmann::json::parse(text);
    change(value);
    test::writeFile(folder / name, value.dump());
    const std::string message = error();
    test::writeFile(folder / name, text);
    return message;
  };
  EXPECT_NE(changeJson("batches.json", [](auto &j) { j["length_groups"] = 3; })
                .find("the program has 2 train modes"),
            std::string::npos);
  EXPECT_NE(changeJson("batches.json", [](auto &j) { j["method"] = "isf"; })
                .find("batches.json.method: with length groups one of plan, hbp is expected"),
            std::string::npos);
  EXPECT_NE(changeJson("batches.json", [](auto &j) { j["seed"] = -1; }).find("batches.json.seed"),
            std::string::npos);
  EXPECT_NE(changeJson("groups.json", [](auto &j) { j["groups"].erase(1); })
                .find("groups.json: 1 length groups, but batches.json says 2"),
            std::string::npos);
  EXPECT_NE(changeJson("groups.json", [](auto &j) { j["groups"][1]["tokens_cap"] = 30; })
                .find("is above the caps of G1"),
            std::string::npos);
}

int64_t find(std::string_view key) { return key.size() == 2 && key[0] == 'k' ? key[1] - '0' : -1; }

class ModeLines : public testing::Test {
protected:
  Result<std::shared_ptr<StepSource>> open(const std::string &text) {
    test::writeFile(folder / "steps.jsonl", text);
    return readStepsFile(folder / "steps.jsonl", {2, 1}, find, modes);
  }
  std::string error(const std::string &text) {
    auto source = open(text);
    return source ? "" : source.status().message();
  }
  test::TemporaryFolder folder;
  std::vector<ModeUse> modes = {{"short", 0, 8, 1, 2}, {"long", 0, 24, 1, 1}};
};

TEST_F(ModeLines, EachHasItsMicrobatches) {
  auto source = open("{\"groups\": [[\"k1\"], [\"k2\"]], \"mode\": \"short\"}\n"
                     "{\"groups\": [[\"k3\", \"k4\"]], \"mode\": 1}\n\n"
                     "{\"groups\": [[], [\"k5\"]], \"mode\": 0}\n");
  ASSERT_TRUE(source) << source.status().message();
  EXPECT_EQ((*source)->steps(), 3);
  auto reader = (*source)->reader(0, {}, 5);
  const std::vector<size_t> expected = {0, 1, 0, 0, 1};
  for (int64_t step = 0; step < 5; ++step)
    EXPECT_EQ(*reader->mode(step), expected[step]) << step;
  EXPECT_EQ(*reader->samples(4, 0), (std::vector<int64_t>{3, 4}));
  auto again = (*source)->reader(0, {}, 3);
  EXPECT_EQ(*again->samples(0, 1), std::vector<int64_t>{2});
  EXPECT_EQ(*again->samples(1, 0), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(*again->samples(2, 0), std::vector<int64_t>{});
  EXPECT_EQ(*again->samples(2, 1), std::vector<int64_t>{5});
}

TEST_F(ModeLines, ErrorsNameTheLine) {
  auto expect = [&](const std::string &text, const std::string &part) {
    EXPECT_NE(error(text).find(part), std::string::npos) << error(text);
  };
  const std::string good = "{\"groups\": [[], []], \"mode\": 0}\n";
  expect(good + "{\"groups\": [[], []]}",
         "line 2: the step has no \"mode\"; give its name or its number, from 0 on: short, long");
  expect(good + "{\"groups\": [[], []], \"mode\": 2}", "line 2: the \"mode\" 2 is no train mode");
  expect("{\"groups\": [[], []], \"mode\": \"other\"}", "line 1: the \"mode\" \"other\" is no");
  expect("{\"groups\": [[], []], \"mode\": [0]}", "line 1: the \"mode\" [0] is no");
  expect("{\"groups\": [[], []], \"mode\": -1}", "line 1: the \"mode\" -1 is no");
  expect("{\"groups\": [[], []], \"mode\": \"long\"}", "line 1: 2 groups, but the program needs "
                                                       "micro-batches x data-parallel ranks = 1");
}

} // namespace
} // namespace omnibal::rt
