// Opening a data set of many samples from its index files: time, memory and lookups.
//
//   bench_dataset [SAMPLES] [SHARDS] [PICTURES]      default: 10,000,000 samples of 1 picture in
//   2000 shards
//
// The shards are sparse files of the right size with index files for them: nothing of a shard is
// read when its index is valid.
#include "runtime/data/Dataset.h"
#include "runtime/data/ShardScan.h"
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace omnibal::rt;

namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path = fs::temp_directory_path() / ("bench-dataset-" + std::to_string(getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

bool writeShard(const fs::path &path, int64_t first, int64_t count, int64_t pictures) {
  std::vector<StoredSample> samples(count);
  int64_t at = 512;
  auto place = [&](int64_t bytes) {
    Extract extract{at, bytes};
    at += (bytes + 511) / 512 * 512 + 512;
    return extract;
  };
  for (int64_t i = 0; i < count; ++i) {
    samples[i].key = "sample-" + std::to_string(first + i);
    samples[i].json = place(2000);
    for (int64_t p = 0; p < pictures; ++p)
      samples[i].pictures.push_back({place(50'000 + i % 1000), {448, 448}});
  }
  std::ofstream(path).put(0);
  fs::resize_file(path, static_cast<uintmax_t>(at + 1024));
  const std::optional<ShardStamp> stamp = stampOf(path.string());
  if (!stamp)
    return false;
  const Result<ShardIndex> index = ShardIndex::of(samples, *stamp, true);
  return index && index->write(path.string() + ".index");
}

/// kB of a field of /proc/self/status.
int64_t memory(const std::string &field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field + ":"))
      return std::atoll(line.c_str() + field.size() + 1);
  return -1;
}

double seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

} // namespace

int main(int argc, char **argv) {
  const int64_t samples = argc > 1 ? std::atoll(argv[1]) : 10'000'000;
  const int64_t shards = argc > 2 ? std::atoll(argv[2]) : 2000;
  const int64_t pictures = argc > 3 ? std::atoll(argv[3]) : 1;
  if (samples < shards || shards < 1 || pictures < 0)
    return std::fprintf(stderr, "at least one shard, and a sample in each\n"), 2;
  Folder folder;
  for (int64_t s = 0; s < shards; ++s) {
    const int64_t begin = samples * s / shards, end = samples * (s + 1) / shards;
    char name[32];
    std::snprintf(name, sizeof name, "shard-%06lld.tar", static_cast<long long>(s));
    if (!writeShard(folder.path / name, begin, end - begin, pictures))
      return std::fprintf(stderr, "writing %s failed\n", name), 1;
  }
  auto began = std::chrono::steady_clock::now();
  auto data = Dataset::open({folder.path.string()});
  const double opening = seconds(began);
  if (!data || (*data)->size() != samples)
    return std::fprintf(stderr, "%s\n", data.status().message().c_str()), 1;
  began = std::chrono::steady_clock::now();
  int64_t found = 0, lookups = 0;
  for (int64_t i = 0; i < samples; i += 1 + samples / 1'000'000, ++lookups)
    found += (*data)->find((*data)->key(i)) == i;
  if (found != lookups)
    return std::fprintf(stderr, "%lld keys were not found\n",
                        static_cast<long long>(lookups - found)),
           1;
  std::printf("%lld samples in %lld shards: opened in %.2f s; %lld MB of this process, %lld MB of "
              "index files that "
              "processes share; a key is found in %.2f us\n",
              static_cast<long long>(samples), static_cast<long long>(shards), opening,
              static_cast<long long>(memory("RssAnon") / 1000),
              static_cast<long long>(memory("RssFile") / 1000),
              seconds(began) / static_cast<double>(lookups) * 1e6);
}
