#include "passes/partition/MeasuredTimes.h"
#include <cmath>

namespace omnibal::partition {

std::optional<double> MeasuredTimes::timeOf(const std::string &digest, const Load &load) const {
  const cost::MeasuredTime *time = table.find(digest);
  if (!time)
    return std::nullopt;
  return time->at(load.tiles, load.tokens, load.squares(),
                  table.labelsPerToken * static_cast<double>(load.tokens));
}

void MeasuredTimes::compare(const LayerFacts &facts, const LayerTimes &times) {
  for (auto [digest, ns] : {std::pair{&facts.forwardDigest, times.forwardNs},
                            {&facts.backwardDigest, times.backwardNs()}})
    if (std::optional<double> time = timeOf(*digest, facts.load)) {
      measured += *time;
      roofline += static_cast<double>(ns);
    }
}

LayerTimes MeasuredTimes::of(const LayerFacts &facts, const LayerTimes &times) const {
  auto pick = [&](const std::string &digest, int64_t ns) -> int64_t {
    std::optional<double> time = timeOf(digest, facts.load);
    return std::llround(time ? *time : static_cast<double>(ns) * scale());
  };
  LayerTimes result;
  result.forwardNs = pick(facts.forwardDigest, times.forwardNs);
  if (facts.backwardDigest.empty())
    return result;
  int64_t backward = pick(facts.backwardDigest, times.backwardNs());
  // A layer all of whose work is of one half keeps it there.
  double share = times.backwardNs() > 0 ? static_cast<double>(times.inputGradNs) /
                                              static_cast<double>(times.backwardNs())
                                        : (facts.inputGradients.empty() ? 0 : 1);
  result.inputGradNs = std::llround(share * static_cast<double>(backward));
  result.weightGradNs = backward - result.inputGradNs;
  return result;
}

bool MeasuredTimes::knows(const LayerFacts &facts) const {
  return table.find(facts.forwardDigest) &&
         (facts.backwardDigest.empty() || table.find(facts.backwardDigest));
}

} // namespace omnibal::partition
