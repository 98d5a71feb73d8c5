// Index files beside shards: when they are made, used and thrown away, and that a wrong one is
// never believed.
#include "runtime/data/Dataset.h"
#include "runtime/data/ShardScan.h"
#include "runtime/data/TarIndex.h"
#include "runtime/support/Checksum.h"
#include "test/unit/runtime/data/TestTar.h"
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace omnibal::rt {
namespace {

using namespace test;

namespace fs = std::filesystem;

constexpr int many = 600; // samples of two members

std::vector<std::pair<std::string, std::string>> members(int samples, const std::string &prefix) {
  const std::string picture = readFile(OMNIBAL_TEST_DATA "/images/rgb.png");
  std::vector<std::pair<std::string, std::string>> list;
  for (int i = 0; i < samples; ++i) {
    const std::string key = prefix + std::to_string(i);
    list.push_back({key + ".json",
                    R"({"input_ids":[1,)" + std::to_string(i) + R"(],"labels":[1,2],"images":1})"});
    list.push_back({key + ".0.png", picture});
  }
  return list;
}

struct Shard {
  TemporaryFolder folder;
  std::string path = folder / "s.tar", index = path + ".index";
  explicit Shard(int samples = many) { writeFile(path, makeTar(members(samples, "k"))); }

  /// What opening the shard gives, sample by sample.
  std::string read(const std::optional<PictureGrid> &grid = std::nullopt) const {
    auto data = Dataset::open({path}, grid);
    if (!data)
      return data.status().message();
    std::string text;
    for (int64_t i = 0; i < (*data)->size(); ++i) {
      auto sample = (*data)->sample(i);
      EXPECT_TRUE(sample) << sample.status().message();
      EXPECT_EQ((*data)->find((*data)->key(i)), i);
      text += (*data)->key(i) + " " + std::to_string(sample->inputIds[1]) + " " +
              std::to_string((*data)->tiles(i)) + "\n";
    }
    EXPECT_EQ((*data)->find("nobody"), -1);
    return text;
  }
  std::string expected(int samples = many, int64_t tiles = 1) const {
    std::string text;
    for (int i = 0; i < samples; ++i)
      text +=
          "k" + std::to_string(i) + " " + std::to_string(i) + " " + std::to_string(tiles) + "\n";
    return text;
  }
};

TEST(ShardIndex, IsLeftBesideALargeShardAndGivesTheSame) {
  Shard shard;
  EXPECT_EQ(shard.read(), shard.expected());
  ASSERT_TRUE(fs::exists(shard.index));
  const auto made = fs::last_write_time(shard.index);
  EXPECT_EQ(shard.read(), shard.expected());
  EXPECT_EQ(fs::last_write_time(shard.index), made);
  Shard small(3);
  EXPECT_EQ(small.read(), small.expected(3));
  EXPECT_FALSE(fs::exists(small.index));
}

TEST(ShardIndex, IsNoShard) {
  Shard shard;
  EXPECT_EQ(shard.read(), shard.expected());
  auto data = Dataset::open({shard.path, shard.index}); // as s.tar* gives them
  ASSERT_TRUE(data) << data.status().message();
  EXPECT_EQ((*data)->size(), many);
  EXPECT_FALSE(Dataset::open({shard.index}));
}

/// That the index is used at all: the headers of the shard are gone, and nobody asks for them.
TEST(ShardIndex, IsUsedInPlaceOfTheShard) {
  Shard shard;
  EXPECT_EQ(shard.read(), shard.expected());
  struct stat before{};
  ASSERT_EQ(::stat(shard.path.c_str(), &before), 0);
  {
    std::fstream file(shard.path, std::ios::in | std::ios::out | std::ios::binary);
    file << std::string(512, 'x');
  }
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, shard.path.c_str(), times, 0), 0);
  EXPECT_EQ(shard.read(), shard.expected());
  fs::remove(shard.index);
  EXPECT_NE(shard.read().find("tar"), std::string::npos);
}

TEST(ShardIndex, OfAnotherStateOfTheShardIsMadeAgain) {
  Shard shard;
  EXPECT_EQ(shard.read(), shard.expected());
  writeFile(shard.path, makeTar(members(many + 1, "k")));
  EXPECT_EQ(shard.read(), shard.expected(many + 1));
  // The same size, at another time.
  auto other = members(many + 1, "k");
  std::swap(other[0], other[2]);
  std::swap(other[1], other[3]);
  writeFile(shard.path, makeTar(other));
  EXPECT_EQ(shard.read().substr(0, 14), "k1 1 1\nk0 0 1\n");
}

TEST(ShardIndex, SizesOfPicturesAreAddedAndKept) {
  Shard shard;
  EXPECT_EQ(shard.read(), shard.expected());
  PictureGrid grid;
  grid.patch = 2;
  grid.merge = 2;
  // rgb.png is 28 x 20 pixels, units are 4 x 4.
  EXPECT_EQ(shard.read(grid), shard.expected(many, 35));
  const auto made = fs::last_write_time(shard.index);
  EXPECT_EQ(shard.read(grid), shard.expected(many, 35));
  EXPECT_EQ(shard.read(), shard.expected());
  EXPECT_EQ(fs::last_write_time(shard.index), made);
  PictureGrid other = grid;
  other.patch = 8;
  EXPECT_NE(shard.read(other).find("k0, picture 0"), std::string::npos) << shard.read(other);
}

/// Every damaged byte is noticed, and the shard is read instead.
TEST(ShardIndex, ADamagedOneIsNotBelieved) {
  Shard shard;
  EXPECT_EQ(shard.read(), shard.expected());
  const std::string good = readFile(shard.index);
  ASSERT_TRUE(stampOf(shard.path));
  const ShardStamp stamp = *stampOf(shard.path);
  ASSERT_TRUE(ShardIndex::map(shard.index, stamp));
  for (size_t at = 0; at < good.size(); at += at < 200 ? 1 : 997) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x41);
    writeFile(shard.index, bad);
    EXPECT_FALSE(ShardIndex::map(shard.index, stamp)) << "byte " << at;
  }
  for (size_t length : {size_t(0), size_t(8), size_t(72), good.size() / 2 / 8 * 8, good.size() - 8,
                        good.size() - 1}) {
    writeFile(shard.index, good.substr(0, length));
    EXPECT_FALSE(ShardIndex::map(shard.index, stamp)) << length;
  }
  EXPECT_EQ(shard.read(), shard.expected());
  EXPECT_EQ(readFile(shard.index), good); // made again
}

TEST(ShardIndex, OneThatContradictsItselfIsNotBelieved) {
  constexpr ShardStamp stamp{4096, 1};
  TemporaryFolder folder;
  StoredSample sample{"key", {512, 10}, {}};
  sample.pictures.push_back({{1024, 99}, {2, 3}});
  auto index = ShardIndex::of({sample}, stamp, true);
  ASSERT_TRUE(index) << index.status().message();
  ASSERT_TRUE(index->write(folder / "good"));
  const std::string good = readFile(folder / "good");
  const auto why = [&](std::initializer_list<std::pair<size_t, char>> changes) {
    std::string bytes = good;
    for (auto [at, value] : changes)
      bytes[at] = value;
    std::vector<uint64_t> words((bytes.size() - 16) / 8);
    std::memcpy(words.data(), bytes.data() + 16, words.size() * 8);
    const uint64_t checksum = fnv1aWords(std::span<const uint64_t>(words), fnv1a(""));
    std::memcpy(bytes.data() + 8, &checksum, sizeof checksum);
    writeFile(folder / "bad", bytes);
    auto read = ShardIndex::map(folder / "bad", stamp);
    return read ? "" : read.status().message();
  };
  constexpr size_t largest = 56, keyHash = 72 + 16, keyEnd = 72 + 24, height = 72 + 32 + 16;
  EXPECT_EQ(why({}), "");
  EXPECT_NE(why({{largest + 7, '\x7f'}}).find("the largest picture has another size"),
            std::string::npos);
  EXPECT_NE(why({{keyHash, static_cast<char>(good[keyHash] + 1)}}).find("another hash"),
            std::string::npos);
  EXPECT_NE(why({{keyEnd, 2}}).find("hash"), std::string::npos);
  EXPECT_NE(why({{height, 0}}).find("a picture has no size"), std::string::npos);
}

TEST(ShardIndex, IsMadeByOneOfMany) {
  Shard shard;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] { EXPECT_EQ(shard.read(), shard.expected()); });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(std::distance(fs::directory_iterator(shard.folder.path), fs::directory_iterator()), 2);
}

/// Who may not read a shard hears it when the data set is opened, index or not.
TEST(ShardIndex, OfAnUnreadableShardIsNotUsed) {
  Shard shard;
  EXPECT_EQ(shard.read(), shard.expected());
  ASSERT_EQ(::chmod(shard.path.c_str(), 0200), 0);
  ASSERT_EQ(::chmod(shard.folder.path.c_str(), 0755), 0);
  auto readAsNobody = [&] {
    if (::getuid() == 0 && ::setuid(65534)) // root may read everything
      ::_exit(1);
    const std::string heard = shard.read();
    std::fprintf(stderr, "%s\n", heard.c_str());
    ::_exit(heard == shard.path + ": Permission denied" ? 0 : 1);
  };
  EXPECT_EXIT(readAsNobody(), testing::ExitedWithCode(0), "");
}

/// Nobody writes into these pipes: opening them must not wait for that.
TEST(ShardIndex, PipesAreNeitherShardsNorIndexes) {
  Shard shard;
  ASSERT_EQ(::mkfifo(shard.index.c_str(), 0600), 0);
  EXPECT_EQ(shard.read(), shard.expected());
  EXPECT_TRUE(fs::is_regular_file(shard.index)); // made in its place
  const std::string pipe = shard.folder / "pipe.tar";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  auto data = Dataset::open({pipe});
  ASSERT_FALSE(data);
  EXPECT_NE(data.status().message().find("not a regular file"), std::string::npos)
      << data.status().message();
}

/// Bytes that this process has asked files for.
int64_t bytesRead() {
  std::ifstream io("/proc/self/io");
  std::string name;
  int64_t value = 0;
  io >> name >> value;
  return name == "rchar:" ? value : -1;
}

TEST(TarIndex, ReadsHeadersOnly) {
  TemporaryFolder folder;
  constexpr int count = 200;
  std::vector<std::pair<std::string, std::string>> list;
  for (int i = 0; i < count; ++i)
    list.push_back({"k" + std::to_string(i) + ".0.png", std::string(100'000, 'x')});
  writeFile(folder / "s.tar", makeTar(list));
  const int64_t before = bytesRead();
  auto index = indexTar(folder / "s.tar");
  const int64_t read = bytesRead() - before;
  ASSERT_TRUE(index);
  EXPECT_EQ(static_cast<int>(index->size()), count);
  EXPECT_GE(read, 512 * count);
  EXPECT_LE(read, 2 * 512 * count + 8192) << "contents are not to be read";
}

} // namespace
} // namespace omnibal::rt
