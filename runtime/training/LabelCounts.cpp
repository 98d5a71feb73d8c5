#include "runtime/training/LabelCounts.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

/// Counts that travel at a time.
constexpr int64_t countsAtOnce = 1 << 16;

/// Adds those of a part of the samples; a sample that cannot be read has none.
void countPart(const Session &s, const Dataset &dataset, int64_t first, std::span<double> counts) {
  if (s.program().info.learnsFromPairs()) {
    std::fill(counts.begin(), counts.end(), 1.0);
    return;
  }
  const std::vector<std::string> nothingElse;
  const SampleNeeds needs{&nothingElse, s.program().caps().tokens};
  s.executor->pool().parallelFor(static_cast<int64_t>(counts.size()), [&](int64_t i, int) {
    if (const Result<Sample> sample = dataset.sample(first + i, needs))
      counts[i] = static_cast<double>(labelTokensOf(*sample));
  });
}

} // namespace

Result<std::shared_ptr<const LabelCounts>> countLabels(const Session &s, const Dataset &dataset) {
  auto all = std::make_shared<LabelCounts>();
  all->reserve(static_cast<size_t>(dataset.size()));
  const int64_t ranks = s.communicator.size(), rank = s.communicator.rank();
  const std::vector<int> everyone = s.communicator.everyone();
  std::vector<double> block;
  for (int64_t first = 0; first < dataset.size(); first += countsAtOnce) {
    const int64_t count = std::min(countsAtOnce, dataset.size() - first);
    block.assign(static_cast<size_t>(count), 0.0);
    const int64_t begin = count * rank / ranks, end = count * (rank + 1) / ranks;
    countPart(s, dataset, first + begin, std::span(block).subspan(begin, end - begin));
    OMNIBAL_RETURN_IF_ERROR(s.communicator.allReduce(std::span<double>(block), everyone));
    for (double each : block)
      all->push_back(static_cast<int32_t>(each));
  }
  return std::shared_ptr<const LabelCounts>(std::move(all));
}

} // namespace omnibal::rt
