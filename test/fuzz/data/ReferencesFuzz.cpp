//===- ReferencesFuzz.cpp - Log-probabilities of a reference, a line a pair ------------------===//
//
// The lines of a file are the parts of an input. The data set is always the same two pairs.
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/data/References.h"
#include "test/fuzz/Fuzz.h"
#include "test/unit/runtime/data/TestTar.h"
#include <cmath>
#include <string>

namespace omnibal::fuzz {

const Allowance allowance;

namespace {

using namespace rt;

/// A shard with the samples "a" and "b".
std::string shard() {
  const std::string contents =
      R"({"input_ids": [1, 2, 1, 3], "labels": [-100, 2, -100, 3], "images": 0, "chosen_tokens": 2})";
  return test::makeTar({{"a.json", contents}, {"b.json", contents}});
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
