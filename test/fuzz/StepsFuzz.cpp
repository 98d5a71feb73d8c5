//===- StepsFuzz.cpp - steps.jsonl -----------------------------------------------------------===//
#include "runtime/batching/steps/Steps.h"
#include "test/fuzz/Fuzz.h"

namespace omnibal::fuzz {

const Allowance allowance;

void run(std::string_view input) {
  using namespace rt;
  constexpr StepSource::Layout layout{2, 1};
  constexpr int64_t samples = 26;
  static MemoryFile file;
  file.set(input);
  const auto find = [](std::string_view key) -> int64_t {
    return key.size() == 1 && key[0] >= 'a' && key[0] <= 'z' ? key[0] - 'a' : -1;
  };
  auto source = readStepsFile(file.path(), layout, find);
  if (!source)
    return;
  const int64_t steps = (*source)->steps();
  require(steps > 0, "a file without steps");
  auto reader = (*source)->reader(0, {}, steps + 1);
  for (int64_t step = 0; step <= steps; ++step) // the first of the next epoch, too
    for (int64_t m = 0; m < layout.microbatches; ++m) {
      auto group = reader->samples(step, m);
      require(group.status());
      for (int64_t sample : *group)
        require(sample >= 0 && sample < samples, "a sample that does not exist");
    }
}

} // namespace omnibal::fuzz
