// A checkpoint comes back bit by bit, and no damage goes unnoticed.
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/SharedTensorFile.h"
#include "test/unit/runtime/checkpoint/Ranks.h"
#include "test/unit/runtime/checkpoint/SaveCheckpoint.h"
#include "test/unit/runtime/data/TestTar.h"
#include <csignal>
#include <gtest/gtest.h>
#include <sys/resource.h>

using namespace omnibal::rt;
using namespace omnibal::test;
namespace fs = std::filesystem;

namespace {

/// Two stages and one replica of the first; values tell step, stage and element.
struct StageData {
  std::vector<float> plain, turned;
  explicit StageData(int64_t step, int stage) : plain(10), turned(6) {
    for (size_t i = 0; i < plain.size(); ++i)
      plain[i] = float(step * 1000 + stage * 100) + float(i) / 3;
    for (size_t i = 0; i < turned.size(); ++i)
      turned[i] = -float(step * 1000 + stage * 100) + float(i) / 7;
  }
  std::vector<NamedTensor> tensors(int stage) {
    std::string name = "s" + std::to_string(stage);
    return {{"weight/" + name, {2, 5}, plain.data(), false},
            {"moment1/" + name, {2, 3}, turned.data(), true}};
  }
};

CheckpointWriteOptions optionsOf(const std::string &folder, int rank) {
  CheckpointWriteOptions options;
  options.folder = folder;
  options.stages = 2;
  options.stage = rank % 2;
  options.writes = rank < 2;
  options.leads = rank == 0;
  options.retention.newest = 2;
  return options;
}

void save(const std::string &folder, int64_t step) {
  RunState state{step, step + 5, ~uint64_t{0}, {{"lr", "cosine"}}};
  auto results = runRanks(3, [&](int rank, const Agreement &agree) {
    StageData run(step, rank % 2);
    return saveCheckpoint(optionsOf(folder, rank), state, run.tensors(rank % 2), agree);
  });
  for (const Status &status : results)
    ASSERT_TRUE(status) << status.message();
}

void expectStep(const std::string &path, int64_t step) {
  auto checkpoint = Checkpoint::open(path);
  ASSERT_TRUE(checkpoint) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->state().step, step);
  EXPECT_EQ(checkpoint->state().dataPosition, step + 5);
  EXPECT_EQ(checkpoint->state().seed, ~uint64_t{0});
  EXPECT_EQ(checkpoint->state().settings.at("lr"), "cosine");
  for (int stage = 0; stage < 2; ++stage) {
    StageData expected(step, stage), got(0, 0);
    for (const NamedTensor &tensor : got.tensors(stage))
      ASSERT_TRUE(checkpoint->read(tensor));
    EXPECT_EQ(got.plain, expected.plain);
    EXPECT_EQ(got.turned, expected.turned);
  }
}

TEST(Checkpoint, ComesBackAndKeepsTheNewest) {
  TemporaryFolder folder;
  for (int64_t step : {10, 20, 30})
    save(folder / "c", step);
  expectStep(folder / "c", 30);
  EXPECT_FALSE(fs::exists(folder / "c/step-00000010"));
  expectStep(folder / "c/step-00000020", 20);
  EXPECT_EQ(readFile(folder / "c/latest"), "step-00000030\n");
  size_t entries = 0;
  for (const auto &entry : fs::directory_iterator(folder / "c")) {
    (void)entry;
    ++entries;
  }
  EXPECT_EQ(entries, 3u); // two steps and the pointer: no temporaries
}

TEST(Checkpoint, StoresTheSourceOrientation) {
  TemporaryFolder folder;
  save(folder / "c", 1);
  auto file = SafetensorsFile::open(folder / "c/step-00000001/stage-0.safetensors");
  ASSERT_TRUE(file) << file.status().message();
  const StoredTensor *tensor = (*file)->find("moment1/s0");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->shape, (std::vector<int64_t>{2, 3}));
  float value;
  ASSERT_TRUE(convertTensor(*tensor, DType::F32, &value, 1, 1)); // row 0, column 1
  EXPECT_EQ(value, StageData(1, 0).turned[2]);                   // memory is [3, 2]
}

TEST(Checkpoint, OfAStageThatTrainsNothing) {
  TemporaryFolder folder;
  auto results = runRanks(2, [&](int rank, const Agreement &agree) {
    StageData run(1, rank);
    std::vector<NamedTensor> tensors;
    if (rank == 0)
      tensors = run.tensors(rank);
    return saveCheckpoint(optionsOf(folder / "c", rank), {1, 6, 0}, tensors, agree);
  });
  for (const Status &status : results)
    ASSERT_TRUE(status) << status.message();
  auto checkpoint = Checkpoint::open(folder / "c");
  ASSERT_TRUE(checkpoint) << checkpoint.status().message();
  StageData expected(1, 0), got(0, 0);
  for (const NamedTensor &tensor : got.tensors(0))
    ASSERT_TRUE(checkpoint->read(tensor));
  EXPECT_EQ(got.plain, expected.plain);
  // Its header counts, too.
  const std::string shard = folder / "c/step-00000001/stage-1.safetensors";
  std::string bytes = readFile(shard);
  ASSERT_EQ(bytes.substr(8, 2), "{}");
  bytes[10] = '\n';
  writeFile(shard, bytes);
  EXPECT_FALSE(Checkpoint::open(folder / "c/step-00000001"));
}

/// Parts of one shard by three ranks, cut anywhere, give the bytes of a shard by one; and parts of
/// it are read.
TEST(Checkpoint, PartsOfSeveralRanksAreTheWhole) {
  constexpr int64_t rows = 37, columns = 21, elements = rows * columns;
  std::vector<float> plain(elements), turned(elements);
  for (int64_t i = 0; i < elements; ++i) {
    plain[i] = float(i) / 3;
    turned[i] = -float(i) / 7;
  }
  std::vector<NamedTensor> whole = {{"weight/a", {rows, columns}, plain.data(), false},
                                    {"moment1/a", {rows, columns}, turned.data(), true}};
  TemporaryFolder folder;
  const RunState state{1, 6, 0};
  CheckpointWriteOptions options;
  options.folder = folder / "whole";
  auto alone = runRanks(
      1, [&](int, const Agreement &agree) { return saveCheckpoint(options, state, whole, agree); });
  ASSERT_TRUE(alone[0]) << alone[0].message();
  const std::string shard = "/step-00000001/stage-0.safetensors";
  for (auto [a, b] : {std::pair<int64_t, int64_t>{0, elements},
                      {100, 100},
                      {30, 500},
                      {37, 74},
                      {1, elements - 1}}) {
    const int64_t bounds[] = {0, a, b, elements};
    auto partsOf = [&](int rank, std::vector<float> &first, std::vector<float> &second) {
      std::vector<NamedTensor> parts = whole;
      const int64_t begin = bounds[rank];
      for (NamedTensor &part : parts) {
        part.data = (part.transposed ? second : first).data() + begin;
        part.first = begin;
        part.count = bounds[rank + 1] - begin;
      }
      return parts;
    };
    const std::string path = folder / ("parts-" + std::to_string(a) + "-" + std::to_string(b));
    auto results = runRanks(3, [&](int rank, const Agreement &agree) {
      CheckpointWriteOptions mine;
      mine.folder = path;
      mine.leads = mine.begins = rank == 0;
      for (const NamedTensor &tensor : whole)
        mine.layout.push_back({tensor.name, StoredType::F32, tensor.shape});
      return saveCheckpoint(mine, state, partsOf(rank, plain, turned), agree);
    });
    for (const Status &status : results)
      ASSERT_TRUE(status) << status.message();
    EXPECT_EQ(readFile(path + shard), readFile(folder / ("whole" + shard)));
    auto checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(checkpoint) << checkpoint.status().message();
    std::vector<float> first(elements), second(elements);
    for (int rank = 0; rank < 3; ++rank)
      ASSERT_TRUE(checkpoint->read(partsOf(rank, first, second)));
    EXPECT_EQ(first, plain);
    EXPECT_EQ(second, turned);
  }
}

TEST(Checkpoint, SettingsOfAnotherKindAreNamed) {
  TemporaryFolder folder;
  save(folder / "c", 1);
  const std::string path = folder / "c/step-00000001/manifest.json";
  nlohmann::json manifest = nlohmann::json::parse(readFile(path));
  for (auto [settings, message] : std::initializer_list<std::pair<nlohmann::json, const char *>>{
           {{1, 2}, "settings is not an object"},
           {{{"epoch", "first"}}, "settings.epoch is not a whole number"},
           {{{"epoch", 1}, {"updates", -1}}, "settings.updates is not a whole number"}}) {
    manifest["settings"] = settings;
    writeFile(path, manifest.dump());
    auto checkpoint = Checkpoint::open(folder / "c/step-00000001");
    ASSERT_FALSE(checkpoint) << settings;
    EXPECT_NE(checkpoint.status().message().find(message), std::string::npos)
        << checkpoint.status().message();
  }
}

TEST(Checkpoint, TheSameStepAgainReplacesIt) {
  TemporaryFolder folder;
  save(folder / "c", 7);
  save(folder / "c", 7);
  expectStep(folder / "c", 7);
}

TEST(Checkpoint, APointerToAnOlderBranchWins) {
  TemporaryFolder folder;
  save(folder / "c", 30);
  save(folder / "c", 20); // resumed from an earlier step
  expectStep(folder / "c", 20);
}

TEST(Checkpoint, DamageIsNamedAndTheLastCompleteOneTaken) {
  TemporaryFolder folder;
  struct {
    const char *file, *word;
    void (*damage)(const std::string &);
  } cases[] = {
      {"stage-1.safetensors", "truncated",
       [](const std::string &p) { fs::resize_file(p, fs::file_size(p) - 1); }},
      {"stage-0.safetensors", "checksum",
       [](const std::string &p) {
         std::string bytes = readFile(p);
         bytes[bytes.size() - 3] ^= 4;
         writeFile(p, bytes);
       }},
      {"stage-0.safetensors", "No such file", [](const std::string &p) { fs::remove(p); }},
      {"manifest.json", "incomplete", [](const std::string &p) { fs::remove(p); }},
      {"manifest.json", "JSON", [](const std::string &p) { fs::resize_file(p, 40); }},
      {"manifest.json", "version", [](const std::string &p) { writeFile(p, "{}"); }},
      {"manifest.json", "files",
       [](const std::string &p) {
         writeFile(p,
                   R"({"version":1,"step":1,"data_position":1,"seed":1,"settings":{},"files":[]})");
       }},
      {"manifest.json", "another release",
       [](const std::string &p) { writeFile(p, R"({"version":99})"); }},
  };
  for (const auto &c : cases) {
    std::string where = folder / "c";
    fs::remove_all(where);
    save(where, 1);
    save(where, 2);
    c.damage(where + "/step-00000002/" + c.file);
    std::vector<std::string> notices;
    auto checkpoint = Checkpoint::open(where, &notices);
    ASSERT_TRUE(checkpoint) << checkpoint.status().message();
    EXPECT_EQ(checkpoint->state().step, 1) << c.file << " " << c.word;
    ASSERT_EQ(notices.size(), 1u);
    EXPECT_NE(notices[0].find(c.file), std::string::npos) << notices[0];
    EXPECT_NE(notices[0].find(c.word), std::string::npos) << notices[0];
    // Asked for by name there is no falling back.
    EXPECT_FALSE(Checkpoint::open(where + "/step-00000002"));
    c.damage(where + "/step-00000001/" + c.file);
    EXPECT_FALSE(Checkpoint::open(where));
  }
  EXPECT_FALSE(Checkpoint::open(folder / "nothing"));
}

/// By one of many ranks: only what it reads from is looked at.
TEST(Checkpoint, AStepIsVerifiedWhereItIsRead) {
  TemporaryFolder folder;
  std::string where = folder / "c", step = where + "/step-00000001";
  save(where, 1);
  std::string damaged = step + "/stage-1.safetensors", bytes = readFile(damaged);
  bytes[bytes.size() - 3] ^= 4;
  writeFile(damaged, bytes);
  EXPECT_FALSE(Checkpoint::open(step));
  auto checkpoint = Checkpoint::openStep(step);
  ASSERT_TRUE(checkpoint) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->state().step, 1);
  StageData first(1, 0), got(0, 0), other(0, 1);
  for (const NamedTensor &tensor : got.tensors(0))
    ASSERT_TRUE(checkpoint->read(tensor));
  EXPECT_EQ(got.plain, first.plain);
  Status status = checkpoint->read(other.tensors(1)[0]);
  EXPECT_NE(status.message().find("stage-1.safetensors: damaged"), std::string::npos)
      << status.message();
  fs::remove(step + "/manifest.json");
  EXPECT_FALSE(Checkpoint::openStep(step));
}

TEST(Checkpoint, AnotherModelIsRefused) {
  TemporaryFolder folder;
  save(folder / "c", 1);
  auto checkpoint = Checkpoint::open(folder / "c");
  ASSERT_TRUE(checkpoint);
  std::vector<float> data(10);
  Status missing = checkpoint->read({"weight/other", {10}, data.data(), false});
  EXPECT_NE(missing.message().find("weight/other"), std::string::npos);
  Status shaped = checkpoint->read({"weight/s0", {5, 2}, data.data(), false});
  EXPECT_NE(shaped.message().find("shape"), std::string::npos);
}

TEST(Checkpoint, AFullDiskChangesNothing) {
  TemporaryFolder folder;
  std::string where = folder / "c";
  save(where, 1);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{}, small{};
  getrlimit(RLIMIT_FSIZE, &before);
  small = before;
  std::vector<float> large(100000);
  small.rlim_cur = 100000;
  setrlimit(RLIMIT_FSIZE, &small);
  // Only the second stage's shard is too large: the first rank must hear of it.
  auto results = runRanks(3, [&](int rank, const Agreement &agree) {
    StageData run(2, rank % 2);
    auto tensors = run.tensors(rank % 2);
    if (rank == 1)
      tensors.push_back({"weight/large", {100000}, large.data(), false});
    return saveCheckpoint(optionsOf(where, rank), RunState{2, 7, 0, {}}, tensors, agree);
  });
  setrlimit(RLIMIT_FSIZE, &before);
  for (const Status &status : results) {
    ASSERT_FALSE(status);
    EXPECT_NE(status.message().find("stage-1.safetensors"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("free some space"), std::string::npos) << status.message();
  }
  expectStep(where, 1);
  EXPECT_FALSE(fs::exists(where + "/step-00000002.incomplete"));
}

TEST(SharedTensorFile, SeveralRanksOneFile) {
  TemporaryFolder folder;
  std::string path = folder / "gradients.safetensors";
  std::vector<TensorHeader> layout = {{"a", StoredType::F32, {2, 3}}, {"b", StoredType::F32, {4}}};
  float a[] = {1, 2, 3, 4, 5, 6}, b[] = {7, 8, 9, 10};
  auto results = runRanks(2, [&](int rank, const Agreement &agree) {
    std::vector<NamedTensor> mine;
    if (rank == 0)
      mine.push_back({"b", {4}, b, false});
    else
      mine.push_back({"a", {2, 3}, a, true});
    return writeSharedTensorFile({path, layout}, mine, rank == 0, agree);
  });
  for (const Status &status : results)
    ASSERT_TRUE(status) << status.message();
  auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file) << file.status().message();
  float got[6];
  ASSERT_TRUE(convertTensor(*(*file)->find("a"), DType::F32, got));
  EXPECT_EQ(std::vector<float>(got, got + 6), (std::vector<float>{1, 3, 5, 2, 4, 6}));
  ASSERT_TRUE(convertTensor(*(*file)->find("b"), DType::F32, got));
  EXPECT_EQ(std::vector<float>(got, got + 4), (std::vector<float>{7, 8, 9, 10}));
  // One rank in error: no file, and nothing of the old one lost.
  auto failed = runRanks(2, [&](int rank, const Agreement &agree) {
    std::vector<NamedTensor> mine;
    if (rank == 1)
      mine.push_back({"unknown", {4}, b, false});
    return writeSharedTensorFile({path, layout}, mine, rank == 0, agree);
  });
  EXPECT_FALSE(failed[0]);
  EXPECT_FALSE(failed[1]);
  EXPECT_TRUE(SafetensorsFile::open(path));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), {}), 1);
}

} // namespace
