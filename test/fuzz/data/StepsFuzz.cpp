//===- StepsFuzz.cpp - steps.jsonl, for programs of one and of two train modes ---------------===//
#include "runtime/batching/steps/Steps.h"
#include "test/fuzz/Fuzz.h"
#include <algorithm>

namespace omnibal::fuzz {

const Allowance allowance;

namespace {

using namespace rt;

void read(const std::string &path, const std::vector<ModeUse> &modes) {
  constexpr StepSource::Layout layout{2, 1};
  constexpr int64_t samples = 26;
  const auto find = [](std::string_view key) -> int64_t {
    return key.size() == 1 && key[0] >= 'a' && key[0] <= 'z' ? key[0] - 'a' : -1;
  };
  auto source = readStepsFile(path, layout, find, modes);
  if (!source)
    return;
  const int64_t steps = (*source)->steps();
  require(steps > 0, "a file without steps");
  auto reader = (*source)->reader(0, {}, steps + 1);
  for (int64_t step = 0; step <= steps; ++step) { // the first of the next epoch, too
    auto mode = reader->mode(step);
    require(mode.status());
    require(*mode < std::max<size_t>(modes.size(), 1), "a mode that does not exist");
    for (int64_t m = 0; m < layout.microbatches; ++m) {
      auto group = reader->samples(step, m);
      require(group.status());
      for (int64_t sample : *group)
        require(sample >= 0 && sample < samples, "a sample that does not exist");
    }
  }
}

} // namespace

void run(std::string_view input) {
  static MemoryFile file;
  file.set(input);
  read(file.path(), {});
  read(file.path(), {{"short", 0, 8, 1, 2}, {"long", 0, 24, 1, 1}});
}

} // namespace omnibal::fuzz
