//===- ShardIndexFuzz.cpp - SHARD.tar.index --------------------------------------------------===//
//
// Switches: 0 the bytes are the file as it is; else its magic, stamp and checksum are made to fit,
// and unless 1 is given its size.
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/data/ShardIndex.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/Checksum.h"
#include "test/fuzz/Fuzz.h"
#include <cstring>
#include <span>

namespace omnibal::fuzz {

const Allowance allowance;

namespace {

using namespace rt;

constexpr ShardStamp stamp{1 << 20, 1'700'000'000'000'000'000};
constexpr size_t headerBytes = 72, sampleBytes = 32, pictureBytes = 24;

void put(std::string &bytes, size_t at, uint64_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}
uint64_t get(const std::string &bytes, size_t at) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

void seal(std::string &bytes, bool sized) {
  bytes.resize(std::max(bytes.size(), headerBytes));
  std::memcpy(bytes.data(), "omnidx01", 8);
  put(bytes, 16, static_cast<uint64_t>(stamp.bytes));
  put(bytes, 24, static_cast<uint64_t>(stamp.modified));
  const uint64_t samples = get(bytes, 32), pictures = get(bytes, 40), keys = get(bytes, 48);
  constexpr uint64_t few = 64;
  if (sized && samples <= few && pictures <= few && keys <= few * few)
    bytes.resize(headerBytes + samples * sampleBytes + pictures * pictureBytes + keys);
  bytes.resize((bytes.size() + 7) / 8 * 8);
  std::vector<uint64_t> words((bytes.size() - 16) / 8);
  std::memcpy(words.data(), bytes.data() + 16, words.size() * 8);
  put(bytes, 8, fnv1aWords(std::span<const uint64_t>(words), fnv1a("")));
}

} // namespace

void run(std::string_view input) {
  const Switches switches = takeSwitches(input);
  std::string bytes(input);
  if (!switches[0])
    seal(bytes, !switches[1]);
  static MemoryFile file;
  file.set(bytes);
  auto index = ShardIndex::map(file.path(), stamp);
  if (!index)
    return;
  int64_t largest = 0;
  for (const StoredSample &sample : index->contents())
    for (const StoredPicture &picture : sample.pictures)
      largest = std::max(largest, picture.bytes);
  require(index->largestPicture() == largest, "the largest picture is another one");
  auto again = ShardIndex::of(index->contents(), stamp, index->sized());
  require(again.status());
  static const MemoryFolder folder;
  require(again->write(folder.pathOf("index")));
  auto written = readWholeFile(folder.pathOf("index"));
  require(written.status());
  require(*written == bytes, "the index is written in another way than it was read");
}

} // namespace omnibal::fuzz
