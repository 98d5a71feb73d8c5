// Steps files and folders of omnibal-batch, good and bad.
#include "runtime/batching/steps/Steps.h"
#include "runtime/batching/io/BatchesFolder.h"
#include "test/unit/runtime/data/TestTar.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <set>

namespace omnibal::rt {
namespace {

using test::TemporaryFolder;
using test::writeFile;

int64_t find(std::string_view key) { return key.size() == 2 && key[0] == 'k' ? key[1] - '0' : -1; }

using Step = std::vector<std::vector<int64_t>>; ///< samples by group

/// The steps from 0 to `end` as every replica's reader gives them.
std::vector<Step> stepsOf(const std::shared_ptr<StepSource> &source, StepSource::Layout layout,
                          int64_t end) {
  std::vector<Step> steps(end, Step(layout.microbatches * layout.replicas));
  for (int64_t replica = 0; replica < layout.replicas; ++replica) {
    auto reader = source->reader(replica, {}, end);
    for (int64_t s = 0; s < end; ++s)
      for (int64_t m = 0; m < layout.microbatches; ++m) {
        auto samples = reader->samples(s, m);
        EXPECT_TRUE(samples) << samples.status().message();
        steps[s][m * layout.replicas + replica] = *samples;
      }
  }
  return steps;
}

class Steps : public testing::Test {
protected:
  std::string stepsError(const std::string &text) {
    writeFile(folder / "steps.jsonl", text);
    return errorOf(readStepsFile(folder / "steps.jsonl", {1, 2}, find));
  }
  /// As NumPy writes it.
  void writeNpy(const std::string &name, const std::vector<int64_t> &values,
                const std::string &type = "<i8") {
    std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" +
                         std::to_string(values.size()) + ",), }";
    header.resize(117, ' ');
    header += '\n';
    std::string bytes = std::string("\x93NUMPY\x01\x00", 8) + char(header.size()) + '\0' + header;
    bytes.append(reinterpret_cast<const char *>(values.data()), values.size() * 8);
    writeFile(folder / name, bytes);
  }
  static BatchesUse use(int64_t microbatches, int64_t replicas, int64_t samples) {
    BatchesUse result;
    result.layout = {microbatches, replicas};
    result.tilesCap = 9;
    result.tokensCap = 100;
    result.samples = samples;
    return result;
  }
  std::string batchesError(int64_t microbatches, int64_t replicas, int64_t samples) {
    return errorOf(openBatches(folder.path, use(microbatches, replicas, samples)));
  }
  static std::string errorOf(const Result<std::shared_ptr<StepSource>> &source) {
    return source ? "" : source.status().message();
  }
  TemporaryFolder folder;
};

void expectPart(const std::string &message, const std::string &part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST_F(Steps, LinesBecomeGroups) {
  writeFile(folder / "steps.jsonl",
            "{\"groups\": [[\"k1\", \"k2\"], []]}\n\n{\"groups\": [[\"k0\"], [\"k3\"]]}");
  auto steps = readStepsFile(folder / "steps.jsonl", {1, 2}, find);
  ASSERT_TRUE(steps) << steps.status().message();
  EXPECT_EQ((*steps)->steps(), 2);
  EXPECT_TRUE((*steps)->repeats());
  EXPECT_EQ(stepsOf(*steps, {1, 2}, 3),
            (std::vector<Step>{{{1, 2}, {}}, {{0}, {3}}, {{1, 2}, {}}}));
}

TEST_F(Steps, ErrorsNameTheLine) {
  std::string good = "{\"groups\": [[], []]}\n";
  expectPart(stepsError(good + "{\"groups\": [["), "steps.jsonl, line 2: not valid JSON");
  expectPart(stepsError(good + good + "{\"groups\": [[]]}"), "line 3: 1 groups");
  expectPart(stepsError("{\"groups\": [[\"k1\"], [\"lost\"]]}"),
             "line 1: groups[1] names the sample \"lost\"");
  expectPart(stepsError("{\"groups\": [[1], []]}"), "line 1: groups[0] names the sample 1");
  // Deep enough that whatever walks it by calling itself would end the process.
  std::string deep = std::string(1 << 20, '[') + std::string(1 << 20, ']');
  expectPart(stepsError("{\"groups\": [" + deep + ", []]}"), "line 1: nested deeper than 64");
  expectPart(stepsError("[]"), "line 1: an object with an array \"groups\"");
  expectPart(stepsError("{\"groups\": [3, []]}"), "groups[0] is not an array");
  expectPart(stepsError("\n"), "there is no step");
  EXPECT_FALSE(readStepsFile(folder / "none.jsonl", {1, 2}, find));
}

TEST_F(Steps, BatchesFillTheLastStep) {
  writeNpy("samples.npy", {4, 3, 2, 1, 0});
  writeNpy("groups.npy", {0, 1, 3, 3, 4, 4, 5});
  auto steps = openBatches(folder.path, use(2, 2, 5));
  ASSERT_TRUE(steps) << steps.status().message();
  EXPECT_TRUE((*steps)->repeats()); // nothing says how the groups came about
  std::vector<Step> expected = {{{4}, {3, 2}, {}, {1}}, {{}, {0}, {}, {}}};
  EXPECT_EQ(stepsOf(*steps, {2, 2}, 2), expected);
}

TEST_F(Steps, BadBatches) {
  writeNpy("samples.npy", {4, 3});
  writeNpy("groups.npy", {0, 1, 2, 2});
  expectPart(batchesError(1, 2, 5), "3 groups are no multiple of the program's 2");
  expectPart(batchesError(1, 1, 4), "sample 4 does not exist");
  writeNpy("groups.npy", {0, 9, 2, 2});
  expectPart(batchesError(1, 1, 5), "offset 1 is out of order");
  writeNpy("groups.npy", {0, 1});
  expectPart(batchesError(1, 1, 5), "do not span samples.npy");
  writeNpy("groups.npy", {0, 2}, "<f8");
  expectPart(batchesError(1, 1, 5), "int64 array is expected");
  writeFile(folder / "groups.npy", "something");
  expectPart(batchesError(1, 1, 5), "not a NumPy file");
}

/// Lengths whose packing has several groups.
SampleLengths someLengths(int64_t samples) {
  SampleLengths lengths;
  for (int64_t i = 0; i < samples; ++i) {
    lengths.tiles.push_back(static_cast<int32_t>(i * 7 % 4));
    lengths.tokens.push_back(static_cast<int32_t>(5 + i * 13 % 40));
  }
  return lengths;
}

TEST_F(Steps, LaterEpochsAreComposedAnew) {
  BatchesRecord record;
  record.options.tilesCap = 8;
  record.options.tokensCap = 90;
  record.options.ranks = 2;
  record.options.epoch = 3; // the folder itself may hold a later epoch
  SampleLengths lengths = someLengths(60);
  record.samples = lengths.size();
  auto batches = balance(lengths, record.options);
  ASSERT_TRUE(batches) << batches.status().message();
  ASSERT_TRUE(writeBatchesFolder(folder.path, lengths, *batches, describe(record, *batches)));
  BatchesUse facts = use(3, 2, 60);
  facts.tilesOf = [&](int64_t i) { return lengths.tiles[i]; };
  auto source = openBatches(folder.path, facts);
  ASSERT_TRUE(source) << source.status().message();
  EXPECT_FALSE((*source)->repeats());
  int64_t step = 0;
  std::vector<Step> all = stepsOf(*source, facts.layout, 40);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    record.options.epoch = 3 + epoch;
    auto expected = balance(lengths, record.options);
    ASSERT_TRUE(expected);
    for (int64_t g = 0; g < expected->groups(); ++g) {
      std::vector<int64_t> group(expected->samples.begin() + expected->offsets[g],
                                 expected->samples.begin() + expected->offsets[g + 1]);
      EXPECT_EQ(all[step + g / 6][g % 6], group) << "epoch " << epoch << " group " << g;
    }
    for (int64_t g = expected->groups(); g % 6 != 0; ++g)
      EXPECT_TRUE(all[step + g / 6][g % 6].empty());
    step += (expected->groups() + 5) / 6;
  }
  auto again = openBatches(folder.path, facts);
  EXPECT_EQ((*again)->fingerprint(), (*source)->fingerprint());
  EXPECT_EQ(stepsOf(*again, facts.layout, 40), all);

  // What does not fit the program or the data is said before anything runs.
  BatchesUse other = facts;
  other.layout.replicas = 3;
  expectPart(errorOf(openBatches(folder.path, other)), "batches.json: the groups are balanced over "
                                                       "2 ranks, but the program has 3");
  other = facts;
  other.tokensCap = 89;
  expectPart(errorOf(openBatches(folder.path, other)),
             "groups of up to 8 tiles and 90 tokens, but the program was compiled for 9 tiles and "
             "89 tokens");
  other = facts;
  other.samples = 61;
  expectPart(errorOf(openBatches(folder.path, other)),
             "lengths of 60 samples, but --data holds 61");
  other = facts;
  other.tilesOf = [&](int64_t i) { return i == 17 ? 9 : lengths.tiles[i]; };
  other.nameOf = [](int64_t i) { return "key" + std::to_string(i); };
  expectPart(errorOf(openBatches(folder.path, other)),
             "lengths.npy: sample 17 (key17) has 9 pictures in --data, but 3 here");
}

TEST_F(Steps, LaterEpochsKnowThePictures) {
  BatchesRecord record;
  record.options.tilesCap = 8;
  record.options.tokensCap = 90;
  record.options.ranks = 2;
  record.options.cost = {1, 1, 0, 50};
  record.knowsPictures = true;
  SampleLengths lengths = someLengths(60);
  for (int32_t units : lengths.tiles) // three units: one picture or three
    lengths.squaredTiles.push_back(lengths.squaredTiles.size() % 8 < 4 ? units : units * units);
  record.samples = lengths.size();
  auto batches = balance(lengths, record.options);
  ASSERT_TRUE(batches) << batches.status().message();
  auto open = [&](const SampleLengths &data) {
    EXPECT_TRUE(writeBatchesFolder(folder.path, data, *batches, describe(record, *batches)));
    BatchesUse facts = use(3, 2, 60);
    facts.units = true;
    facts.squaredTilesOf = [&](int64_t i) { return lengths.squaredTilesOf(i); };
    return openBatches(folder.path, facts);
  };
  auto source = open(lengths);
  ASSERT_TRUE(source) << source.status().message();
  record.options.epoch = 1;
  auto expected = balance(lengths, record.options);
  record.options.epoch = 0;
  int64_t first = (batches->groups() + 5) / 6;
  std::vector<Step> all = stepsOf(*source, {3, 2}, first + expected->groups() / 6);
  for (int64_t g = 0; g < expected->groups() / 6 * 6; ++g)
    EXPECT_EQ(all[first + g / 6][g % 6],
              std::vector<int64_t>(expected->samples.begin() + expected->offsets[g],
                                   expected->samples.begin() + expected->offsets[g + 1]));

  SampleLengths other = lengths;
  ASSERT_EQ(other.tiles[5], 3);
  other.squaredTiles[5] = 5;
  expectPart(errorOf(open(other)), "the pictures of sample 5 have units whose squares sum to 9 in "
                                   "--data, but to 5 in squares.npy");
  other.squaredTiles[5] = SampleLengths::unknown; // part of a mix
  auto mixed = open(other);
  ASSERT_TRUE(mixed) << mixed.status().message();
  EXPECT_NE((*mixed)->fingerprint(), (*source)->fingerprint());
}

TEST_F(Steps, FingerprintsTellFoldersApart) {
  std::set<uint64_t> seen;
  SampleLengths lengths = someLengths(30);
  auto fingerprint = [&](uint64_t seed, const SampleLengths &table, bool settings) {
    BatchesRecord record;
    record.options.tilesCap = 8;
    record.options.tokensCap = 90;
    record.options.seed = seed;
    record.samples = table.size();
    auto batches = balance(lengths, record.options); // the groups of `lengths` in every case
    EXPECT_TRUE(writeBatchesFolder(folder.path, table, *batches, describe(record, *batches)));
    if (!settings)
      std::filesystem::remove(folder / "lengths.npy");
    auto source = openBatches(folder.path, use(1, 1, 30));
    EXPECT_TRUE(source) << source.status().message();
    return source ? (*source)->fingerprint() : 0;
  };
  SampleLengths other = lengths;
  other.tokens[3] -= 1;
  EXPECT_TRUE(seen.insert(fingerprint(1, lengths, true)).second);
  EXPECT_TRUE(seen.insert(fingerprint(2, lengths, true)).second);
  EXPECT_TRUE(seen.insert(fingerprint(1, other, true)).second); // later epochs would differ
  EXPECT_TRUE(seen.insert(fingerprint(1, lengths, false)).second);
  EXPECT_FALSE(seen.insert(fingerprint(1, lengths, true)).second);
}

TEST_F(Steps, GroupsOverTheProgramsCapsAreNamed) {
  SampleLengths lengths{{0, 0, 1}, {40, 200, 30}};
  BatchesRecord record;
  record.options.tilesCap = 8;
  record.options.tokensCap = 90;
  record.options.oversize = Oversize::OwnGroup;
  record.samples = 3;
  auto batches = balance(lengths, record.options);
  ASSERT_TRUE(batches) << batches.status().message();
  ASSERT_TRUE(writeBatchesFolder(folder.path, lengths, *batches, describe(record, *batches)));
  std::string message = batchesError(1, 1, 3);
  expectPart(message, "(first sample 1) has 0 tiles and 200 tokens, but the program was compiled");
}

TEST_F(Steps, OtherToolsMaySayLess) {
  writeNpy("samples.npy", {1, 0});
  writeNpy("groups.npy", {0, 1, 2});
  writeFile(folder / "lengths.npy", "whatever");
  writeFile(folder / "batches.json", "{\"made by\": \"hand\"}");
  auto source = openBatches(folder.path, use(1, 1, 2));
  ASSERT_TRUE(source) << source.status().message();
  EXPECT_TRUE((*source)->repeats());
  writeFile(folder / "batches.json", "{\"method\": \"plan\", \"epoch\": 0}");
  expectPart(batchesError(1, 1, 2), "batches.json");
  writeFile(folder / "batches.json", "{");
  expectPart(batchesError(1, 1, 2), "batches.json: not valid JSON");
}

} // namespace
} // namespace omnibal::rt
