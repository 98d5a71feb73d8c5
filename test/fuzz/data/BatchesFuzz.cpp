//===- BatchesFuzz.cpp - The folder of omnibal-batch -----------------------------------------===//
//
// The parts are batches.json and, as lists of numbers, samples.npy, groups.npy, lengths.npy (two
// numbers a sample), squares.npy and rows.npy (two numbers a row), and groups.json; a part that is
// missing is a file that is. A folder with several length groups is opened for a program whose
// train modes are these.
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/batching/io/BatchesFolder.h"
#include "runtime/batching/io/CheckBatches.h"
#include "runtime/batching/lengths/EpochJudge.h"
#include "runtime/batching/lengths/GroupedFolder.h"
#include "runtime/batching/steps/Steps.h"
#include "runtime/support/Json.h"
#include "test/fuzz/Fuzz.h"
#include <algorithm>

namespace omnibal::fuzz {

/// The packers keep tables over loads beside the samples.
const Allowance allowance{size_t{16} << 20, 1024};

namespace {

using namespace rt;

constexpr const char *names[] = {"samples.npy", "groups.npy", "lengths.npy", "squares.npy",
                                 "rows.npy"};
constexpr const char *groupsFile = "groups.json";
/// Which of the arrays have two columns.
constexpr bool isOfPairs(size_t i) { return i == 2 || i == 4; }

std::string npyOf(const std::vector<int64_t> &values, bool pairs) {
  const size_t rows = pairs ? values.size() / 2 : values.size();
  const std::string header = std::string("{'descr': '") + (pairs ? "<i4" : "<i8") +
                             "', 'fortran_order': False, 'shape': (" + std::to_string(rows) +
                             (pairs ? ", 2)}" : ",)}");
  std::string file("\x93NUMPY\x01\x00", 8);
  appendLittleEndian(file, header.size(), 2);
  file += header;
  for (size_t i = 0; i < (pairs ? 2 * rows : rows); ++i)
    appendLittleEndian(file, static_cast<uint64_t>(values[i]), pairs ? 4 : 8);
  return file;
}

/// Returns whether the part is a list of integers.
bool writeArray(const MemoryFolder &folder, const char *name, std::string_view text, bool pairs) {
  auto list = parseJson(text, name);
  if (!list || !list->is_array())
    return false;
  std::vector<int64_t> values;
  for (const nlohmann::json &element : *list) {
    const std::optional<int64_t> value = integerOf(element);
    if (!value)
      return false;
    values.push_back(*value);
  }
  folder.write(name, npyOf(values, pairs));
  return true;
}

void checkEpochs(const std::string &folder, const Composition &composition) {
  // Only the first epoch is in the folder: what later ones are is computed.
  for (int64_t later : {0, 1}) {
    auto batches = compose(composition, later);
    if (batches && !composition.mix.isSet()) {
      BatchOptions options = composition.options;
      options.epoch += later;
      require(checkBatches(composition.lengths, options, *batches).context(folder));
    }
  }
}

void checkGrouped(const GroupedFolder &folder) {
  // Ranks are free in a program, but here an input could ask for millions of them.
  constexpr int32_t mostRanks = 64;
  if (folder.groups.replicas > mostRanks)
    return;
  if (auto epoch = composeGrouped(folder, 1))
    require(judgeEpoch(folder.lengths, folder.groups, *epoch).status());
}

} // namespace

void run(std::string_view input) {
  static const MemoryFolder folder;
  const std::vector<std::string_view> parts = partsOf(input);
  folder.write("batches.json", parts[0]);
  for (size_t i = 0; i < std::size(names); ++i) {
    folder.remove(names[i]);
    if (i + 1 < parts.size())
      writeArray(folder, names[i], parts[i + 1], isOfPairs(i));
  }
  folder.remove(groupsFile);
  if (std::size(names) + 1 < parts.size())
    folder.write(groupsFile, parts[std::size(names) + 1]);
  auto composition = readComposition(folder.path());
  auto grouped = readGroupedFolder(folder.path());
  BatchesUse use;
  use.layout = {2, 2};
  use.tilesCap = 8;
  use.tokensCap = 64;
  use.samples = composition ? composition->lengths.size() : 8;
  if (grouped) {
    use.samples = grouped->lengths.size();
    use.layout.replicas = grouped->groups.replicas;
    if (grouped->groups.groups.size() > 1)
      for (const LengthGroup &g : grouped->groups.groups)
        use.modes.push_back({g.name, g.tilesCap, g.tokensCap, g.degree, g.microbatches});
  }
  auto source = openBatches(folder.path(), use);
  if (!source)
    return;
  auto reader = (*source)->reader(use.layout.replicas - 1, {}, (*source)->steps());
  for (int64_t step = 0; step < (*source)->steps(); ++step) {
    auto mode = reader->mode(step);
    require(mode.status());
    require(*mode < std::max<size_t>(use.modes.size(), 1), "a mode that does not exist");
    for (int64_t m = 0; m < use.layout.microbatches; ++m) {
      auto group = reader->samples(step, m);
      require(group.status());
      for (int64_t sample : *group)
        require(sample >= 0 && sample < use.samples, "a sample that does not exist");
    }
  }
  if (grouped)
    checkGrouped(*grouped);
  if (composition)
    checkEpochs(folder.path(), *composition);
}

} // namespace omnibal::fuzz
