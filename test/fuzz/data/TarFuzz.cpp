//===- TarFuzz.cpp - Shards: members, samples, and their pictures' places --------------------===//
//
// Switches: 0 the bytes are the tar as it is; 1 they are its blocks, whose checksums are made to
// fit; else they are members: type, length and text of the name, which size the header claims,
// length and bytes of the contents. 2 omits the end-of-archive marker; 3 opens the data set with a
// grid of patches, which looks into pictures.
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/data/Dataset.h"
#include "runtime/data/TarIndex.h"
#include "runtime/data/pictures/Preprocess.h"
#include "test/fuzz/Fuzz.h"
#include <cstdio>
#include <cstring>
#include <iterator>

namespace omnibal::fuzz {

/// The reader of samples holds a block of 64 KiB, and the archive's reader its own.
const Allowance allowance{size_t{8} << 20, 512};

namespace {

using namespace rt;

constexpr size_t block = 512, sizeAt = 124, checksumAt = 148;

void sealBlock(char *header) {
  std::memset(header + checksumAt, ' ', 8);
  unsigned sum = 0;
  for (size_t i = 0; i < block; ++i)
    sum += static_cast<unsigned char>(header[i]);
  std::snprintf(header + checksumAt, 8, "%06o", sum % 0777777);
}

/// Whatever stands in the blocks that are headers if each believes its size.
void sealBlocks(std::string &tar) {
  for (size_t at = 0; at + block <= tar.size();) {
    sealBlock(tar.data() + at);
    const unsigned long long size =
        std::strtoull(std::string(tar, at + sizeAt, 12).c_str(), nullptr, 8);
    at += block;
    if (size < tar.size())
      at += (size + block - 1) / block * block;
  }
}

/// Fields of a size as others have written them, or might.
void claimSize(char *field, size_t bytes, uint8_t claim) {
  static const char *const others[] = {"77777777777", "00000001000", "-0000000001",
                                       "\0",          "9999",        "00000000777"};
  if (claim == 0) {
    std::snprintf(field, 12, "%011zo", bytes);
  } else if (claim & 1) { // in base 256, up to the sign
    std::memset(field, claim >> 1 & 1 ? '\xff' : '\0', 12);
    field[0] = static_cast<char>(claim >> 1 & 1 ? 0xff : 0x80);
    field[claim >> 3 & 3 ? 5 : 4] = static_cast<char>(claim);
  } else {
    std::snprintf(field, 12, "%s", others[(claim >> 1) % std::size(others)]);
  }
}

std::string tarOf(std::string_view input, bool ends) {
  std::string tar;
  auto take = [&](size_t count) {
    const std::string_view taken = input.substr(0, count);
    input.remove_prefix(taken.size());
    return taken;
  };
  while (input.size() >= 4) {
    const char type = take(1)[0];
    const std::string_view name = take(static_cast<uint8_t>(take(1)[0]));
    const uint8_t claim = input.empty() ? 0 : static_cast<uint8_t>(take(1)[0]);
    const std::string_view contents =
        input.empty() ? input : take(static_cast<uint8_t>(take(1)[0]));
    const size_t at = tar.size();
    tar.resize(at + block);
    char *header = tar.data() + at;
    std::memcpy(header, name.data(), std::min<size_t>(name.size(), 100));
    std::memcpy(header + 100, "0000644\0000000000\0000000000\0", 24);
    claimSize(header + sizeAt, contents.size(), claim);
    std::memcpy(header + 136, "00000000000", 11);
    header[156] = type;
    std::memcpy(header + 257, "ustar\00000", 8);
    sealBlock(header);
    tar += contents;
    tar.resize((tar.size() + block - 1) / block * block);
  }
  if (ends)
    tar.resize(tar.size() + 2 * block);
  return tar;
}

void checkMembers(const std::vector<TarMember> &members, size_t size) {
  int64_t end = 0;
  for (const TarMember &m : members) {
    require(m.bytes >= 0 && m.offset >= end + static_cast<int64_t>(block) &&
                m.offset % static_cast<int64_t>(block) == 0,
            "a member lies in what is before it");
    end = m.offset + m.bytes;
    require(end <= static_cast<int64_t>(size), "a member ends behind the file");
  }
}

void readSamples(const Dataset &data) {
  constexpr int64_t side = 2;
  const Preprocess plain = *Preprocess::parse("{}", "preprocess");
  SampleNeeds few;
  few.tokensCap = 4;
  for (int64_t i = 0; i < data.size(); ++i) {
    require(data.find(data.key(i)) == i, "a sample is not found by its key");
    (void)data.sample(i);
    (void)data.sample(i, few);
    const int64_t tiles = data.tiles(i);
    if (tiles > 64)
      continue;
    if (const auto &grid = data.grid()) {
      std::vector<float> out(static_cast<size_t>(tiles * grid->valuesPerUnit()));
      (void)data.decodePatches(i, plain, out.data());
    } else {
      std::vector<float> out(static_cast<size_t>(tiles * 3 * side * side));
      (void)data.decodeTiles(i, plain, side, side, out.data());
    }
  }
}

} // namespace

void run(std::string_view input) {
  const Switches switches = takeSwitches(input);
  std::string tar(input);
  if (switches[1])
    sealBlocks(tar);
  else if (!switches[0])
    tar = tarOf(input, !switches[2]);
  static MemoryFile file;
  file.set(tar);
  auto members = indexTar(file.path());
  if (!members)
    return;
  checkMembers(*members, tar.size());
  std::optional<PictureGrid> grid;
  if (switches[3]) {
    grid.emplace();
    grid->patch = 1;
    grid->merge = 2;
  }
  if (auto data = Dataset::open({file.path()}, grid))
    readSamples(**data);
}

} // namespace omnibal::fuzz
