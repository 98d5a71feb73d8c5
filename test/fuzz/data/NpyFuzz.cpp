//===- NpyFuzz.cpp - Arrays of batches -------------------------------------------------------===//
//
// Switches: 0 the bytes are the file as it is; else the text of a header, a zero byte and data,
// where the length of the header is made to fit; 1 the version 2; 2 as much data as the shape's
// first number of int64 needs; 3 as much as its two first numbers of int32 need.
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/batching/io/Npy.h"
#include "test/fuzz/Fuzz.h"
#include <cstdlib>

namespace omnibal::fuzz {

const Allowance allowance;

namespace {

using namespace rt;

/// The bytes of an array of so many, if they are few.
size_t dataBytes(const std::string &header, bool twoDimensions) {
  constexpr unsigned long long few = 64;
  size_t at = std::min(header.find('('), header.size());
  char *rest = nullptr;
  const unsigned long long rows =
      std::strtoull(header.c_str() + std::min(at + 1, header.size()), &rest, 10);
  const unsigned long long columns = *rest == ',' ? std::strtoull(rest + 1, nullptr, 10) : 0;
  if (rows > few || columns > few)
    return 0;
  return twoDimensions ? rows * columns * 4 : rows * 8;
}

std::string sealed(std::string_view input, const Switches &switches) {
  const size_t end = std::min(input.find('\0'), input.size());
  const std::string header(input.substr(0, end));
  std::string file("\x93NUMPY", 6);
  const bool wide = switches[1];
  file += wide ? '\x02' : '\x01';
  file += '\0';
  appendLittleEndian(file, header.size(), wide ? 4 : 2);
  file += header;
  if (switches[2] || switches[3])
    return file + std::string(dataBytes(header, switches[3]), '\x05');
  return file + std::string(input.substr(std::min(end + 1, input.size())));
}

void writeAndRead(const std::vector<int64_t> &values) {
  static const MemoryFolder folder;
  const std::string path = folder.pathOf("values.npy");
  auto writer = NpyWriter::int64(path, static_cast<int64_t>(values.size()));
  require(writer.status());
  require(writer->append(values));
  require(writer->commit());
  auto again = readNpy(path);
  require(again.status());
  require(*again == values, "the values changed");
}

} // namespace

void run(std::string_view input) {
  const Switches switches = takeSwitches(input);
  static MemoryFile file;
  file.set(switches[0] ? std::string(input) : sealed(input, switches));
  if (auto values = readNpy(file.path()))
    writeAndRead(*values);
  int64_t announced = -1, taken = 0;
  const auto begin = [&](int64_t rows) {
    announced = rows;
    return Status::ok();
  };
  const auto take = [&](int64_t row, std::span<const int32_t> part) {
    require(row == taken && part.size() % 2 == 0, "a block begins elsewhere");
    taken += static_cast<int64_t>(part.size() / 2);
    return Status::ok();
  };
  if (readNpyRows(file.path(), 2, begin, take))
    require(taken == announced, "other rows than announced");
}

} // namespace omnibal::fuzz
