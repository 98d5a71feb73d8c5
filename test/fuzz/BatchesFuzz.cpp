//===- BatchesFuzz.cpp - The folder of omnibal-batch -----------------------------------------===//
//
// The parts are batches.json and, as lists of numbers, samples.npy, groups.npy, lengths.npy (two
// numbers a sample) and squares.npy; a part that is missing is a file that is.
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/batching/io/BatchesFolder.h"
#include "runtime/batching/io/CheckBatches.h"
#include "runtime/batching/steps/Steps.h"
#include "runtime/support/Json.h"
#include "test/fuzz/Fuzz.h"

namespace omnibal::fuzz {

/// The packers keep tables over loads beside the samples.
const Allowance allowance{size_t{16} << 20, 1024};

namespace {

using namespace rt;

constexpr const char *names[] = {"samples.npy", "groups.npy", "lengths.npy", "squares.npy"};

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

} // namespace

void run(std::string_view input) {
  static const MemoryFolder folder;
  const std::vector<std::string_view> parts = partsOf(input);
  folder.write("batches.json", parts[0]);
  for (size_t i = 0; i < std::size(names); ++i) {
    folder.remove(names[i]);
    if (i + 1 < parts.size())
      writeArray(folder, names[i], parts[i + 1], i == 2);
  }
  auto composition = readComposition(folder.path());
  BatchesUse use;
  use.layout = {2, 2};
  use.tilesCap = 8;
  use.tokensCap = 64;
  use.samples = composition ? composition->lengths.size() : 8;
  auto source = openBatches(folder.path(), use);
  if (!source)
    return;
  auto reader = (*source)->reader(1, {}, (*source)->steps());
  for (int64_t step = 0; step < (*source)->steps(); ++step)
    for (int64_t m = 0; m < use.layout.microbatches; ++m) {
      auto group = reader->samples(step, m);
      require(group.status());
      for (int64_t sample : *group)
        require(sample >= 0 && sample < use.samples, "a sample that does not exist");
    }
  if (composition)
    checkEpochs(folder.path(), *composition);
}

} // namespace omnibal::fuzz
