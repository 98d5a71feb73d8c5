#include "runtime/training/evaluation/SamplesInOrder.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

/// Samples whose lengths are looked up at a time.
constexpr int64_t samplesOfPart = 4096;

} // namespace

std::shared_ptr<StepSource> SamplesInOrder::nextPart() {
  const Program &p = s.program();
  std::vector<std::vector<int64_t>> cut = cutInOrder(loads, p.caps().tiles, p.caps().tokens);
  const int64_t ofRun = layout.microbatches * layout.replicas;
  auto count = static_cast<int64_t>(cut.size());
  if (next < dataset.size()) // the last group may still grow, and runs are to be full
    count = std::max<int64_t>(0, count - 1) / ofRun * ofRun;
  Batches groups;
  groups.offsets.push_back(0);
  size_t used = 0;
  for (int64_t g = 0; g < count; ++g) {
    for (int64_t i : cut[g])
      groups.samples.push_back(numbers[i]);
    used += cut[g].size();
    groups.offsets.push_back(static_cast<int64_t>(groups.samples.size()));
  }
  numbers.erase(numbers.begin(), numbers.begin() + static_cast<ptrdiff_t>(used));
  loads.erase(loads.begin(), loads.begin() + static_cast<ptrdiff_t>(used));
  return StepSource::create(std::move(groups), layout);
}

/// Each rank reads some of the next samples and tells the others their lengths.
Status SamplesInOrder::lookUp() {
  const int64_t ranks = s.communicator.size();
  const int64_t count = std::min(samplesOfPart, dataset.size() - next);
  const int64_t share = (count + ranks - 1) / ranks, first = s.communicator.rank() * share;
  std::vector<Length> mine(share), all(share * ranks);
  Status status;
  for (int64_t i = 0; status && i < share && first + i < count; ++i)
    status = lengthOf(next + first + i, mine[i]);
  OMNIBAL_RETURN_IF_ERROR(s.agree(std::move(status)));
  OMNIBAL_RETURN_IF_ERROR(s.communicator.allGather(std::as_bytes(std::span(mine)),
                                                   std::as_writable_bytes(std::span(all)),
                                                   s.communicator.everyone()));
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(next + i);
    loads.push_back({all[i].tiles, all[i].tokens});
  }
  next += count;
  return Status::ok();
}

Status SamplesInOrder::lengthOf(int64_t number, Length &length) const {
  const SampleNeeds needs{&rules.tokenInputs, rules.tokensCap};
  OMNIBAL_ASSIGN_OR_RETURN(Sample sample, dataset.sample(number, needs));
  OMNIBAL_RETURN_IF_ERROR(checkSample(sample, rules).context(dataset.describe(number)));
  length = {sample.tiles, sample.tokens()};
  return Status::ok();
}

} // namespace omnibal::rt
