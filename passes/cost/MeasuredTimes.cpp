#include "passes/cost/MeasuredTimes.h"
#include <cmath>

namespace omnibal::cost {

std::optional<double> MeasuredTimes::timeOf(const std::string &digest,
                                            const MicrobatchLoad &load) const {
  const MeasuredTime *time = table.find(digest);
  if (!time)
    return std::nullopt;
  return time->at(load, table.labelsPerToken * static_cast<double>(load.tokens));
}

std::optional<std::pair<double, double>> MeasuredTimes::halvesOf(const LayerFacts &facts) const {
  if (facts.inputGradDigest.empty() && facts.weightGradDigest.empty())
    return std::nullopt;
  auto half = [&](const std::string &digest) -> std::optional<double> {
    return digest.empty() ? 0 : timeOf(digest, facts.load);
  };
  std::optional<double> first = half(facts.inputGradDigest), second = half(facts.weightGradDigest);
  if (!first || !second)
    return std::nullopt;
  return std::pair{*first, *second};
}

std::optional<double> MeasuredTimes::backwardOf(const LayerFacts &facts) const {
  std::optional<double> whole = timeOf(facts.backwardDigest, facts.load);
  auto parts = halvesOf(facts);
  if (parts && (halves || !whole))
    return parts->first + parts->second;
  return whole;
}

void MeasuredTimes::compare(const LayerFacts &facts, const LayerTimes &times) {
  auto add = [&](std::optional<double> time, int64_t ns) {
    measured += time.value_or(0);
    roofline += time ? static_cast<double>(ns) : 0;
  };
  add(timeOf(facts.forwardDigest, facts.load), times.forwardNs);
  add(backwardOf(facts), times.backwardNs());
}

LayerTimes MeasuredTimes::of(const LayerFacts &facts, const LayerTimes &times) const {
  auto orScaled = [&](std::optional<double> time, int64_t ns) -> int64_t {
    return std::llround(time ? *time : static_cast<double>(ns) * scale());
  };
  LayerTimes result;
  result.forwardNs = orScaled(timeOf(facts.forwardDigest, facts.load), times.forwardNs);
  if (facts.backwardDigest.empty())
    return result;
  int64_t backward = orScaled(backwardOf(facts), times.backwardNs());
  // A layer all of whose work is of one half keeps it there.
  double share = facts.inputGradients.empty() ? 0 : 1;
  auto parts = halvesOf(facts);
  if (parts && parts->first + parts->second > 0)
    share = parts->first / (parts->first + parts->second);
  else if (times.backwardNs() > 0)
    share = static_cast<double>(times.inputGradNs) / static_cast<double>(times.backwardNs());
  result.inputGradNs = std::llround(share * static_cast<double>(backward));
  result.weightGradNs = backward - result.inputGradNs;
  std::optional<double> whole = timeOf(facts.backwardDigest, facts.load);
  result.wholeBackwardNs = whole ? std::llround(*whole) : backward;
  return result;
}

bool MeasuredTimes::knows(const LayerFacts &facts) const {
  return table.find(facts.forwardDigest) && (facts.backwardDigest.empty() || backwardOf(facts));
}

} // namespace omnibal::cost
