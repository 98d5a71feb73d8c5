//===- ReferencesFuzz.cpp - Log-probabilities of a reference, a line a pair ------------------===//
//
// The lines of a file are the parts of an input. The data set is always the same two pairs.
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/data/References.h"
#include "test/fuzz/Fuzz.h"
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

namespace omnibal::fuzz {

const Allowance allowance;

namespace {

using namespace rt;

/// A shard with the samples "a" and "b".
std::string shard() {
  constexpr size_t block = 512, checksumAt = 148;
  const std::string contents =
      R"({"input_ids": [1, 2, 1, 3], "labels": [-100, 2, -100, 3], "images": 0, "chosen_tokens": 2})";
  std::string tar;
  for (const char *name : {"a.json", "b.json"}) {
    std::string header(block, '\0');
    std::snprintf(header.data(), 100, "%s", name);
    std::memcpy(header.data() + 100, "0000644\0000000000\0000000000\0", 24);
    std::snprintf(header.data() + 124, 12, "%011zo", contents.size());
    std::memcpy(header.data() + 136, "00000000000", 11);
    header[156] = '0';
    std::memcpy(header.data() + 257, "ustar\00000", 8);
    std::memset(header.data() + checksumAt, ' ', 8);
    unsigned sum = 0;
    for (char c : header)
      sum += static_cast<unsigned char>(c);
    std::snprintf(header.data() + checksumAt, 8, "%06o", sum);
    tar += header + contents + std::string(block - contents.size() % block, '\0');
  }
  return tar + std::string(2 * block, '\0');
}

const Dataset &dataset() {
  static MemoryFile file;
  static const std::shared_ptr<const Dataset> opened = [] {
    file.set(shard());
    auto data = Dataset::open({file.path()});
    require(data.status());
    return *std::move(data);
  }();
  return *opened;
}

std::string linesOf(std::string_view input) {
  std::string lines;
  for (std::string_view part : partsOf(input))
    lines += std::string(part) + "\n";
  return lines;
}

} // namespace

void run(std::string_view input) {
  const Dataset &data = dataset();
  static MemoryFile file;
  file.set(linesOf(input));
  auto references = References::read(file.path(), data, "");
  if (!references)
    return;
  require(references->size() == data.size(), "not as many references as samples");
  for (const References::Entry &entry : references->all())
    require(std::isfinite(entry.values.chosen) && std::isfinite(entry.values.rejected),
            "a log-probability is no number");
  static MemoryFolder folder;
  const std::string again = folder.pathOf("references.jsonl");
  require(references->write(again, data, "w"));
  auto read = References::read(again, data, "w");
  require(read.status());
  for (int64_t i = 0; i < data.size(); ++i) {
    const References::Entry &one = references->all()[i], &other = read->all()[i];
    require(one.digest == other.digest && one.values.chosen == other.values.chosen &&
                one.values.rejected == other.values.rejected,
            "what is written is read otherwise");
  }
  require(!References::read(again, data, "others"), "references by other weights are accepted");
}

} // namespace omnibal::fuzz
