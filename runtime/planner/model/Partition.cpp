#include "runtime/planner/model/Partition.h"
#include <algorithm>

namespace omnibal::planner {
namespace {

/// The first `end` layers in `stages` parts: the least largest sum, found by bisection. Parts as
/// full as a limit allows are as few as can be, and a part more is always possible.
int64_t leastLargest(const std::vector<int64_t> &prefix, int64_t end, int64_t stages) {
  auto enough = [&](int64_t limit) {
    int64_t begin = 0;
    for (int64_t part = 0; part < stages && begin < end; ++part) {
      auto after =
          std::upper_bound(prefix.begin() + begin, prefix.begin() + end + 1, prefix[begin] + limit);
      begin = std::max<int64_t>(begin, after - prefix.begin() - 1);
    }
    return begin >= end;
  };
  int64_t low = 0, high = prefix[end];
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (enough(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

} // namespace

std::vector<int64_t> levelCuts(const std::vector<int64_t> &weights, int64_t parts) {
  int64_t n = static_cast<int64_t>(weights.size());
  std::vector<int64_t> prefix(n + 1, 0);
  for (int64_t i = 0; i < n; ++i)
    prefix[i + 1] = prefix[i] + weights[i];
  std::vector<int64_t> cuts(parts + 1, n);
  for (int64_t k = parts; k > 0; --k) {
    int64_t end = cuts[k], limit = leastLargest(prefix, end, k);
    auto begin = std::lower_bound(prefix.begin(), prefix.begin() + end, prefix[end] - limit);
    // The stages before need a layer each, this one too.
    cuts[k - 1] = k == 1 ? 0 : std::clamp<int64_t>(begin - prefix.begin(), k - 1, end - 1);
  }
  return cuts;
}

std::vector<int64_t> cutsByLayerCount(const Problem &problem) {
  int64_t n = static_cast<int64_t>(problem.layers.size()), stages = problem.cluster.stages;
  std::vector<int64_t> cuts{0};
  for (int64_t s = 0; s < stages; ++s)
    cuts.push_back(cuts.back() + n / stages + (s < n % stages ? 1 : 0));
  return cuts;
}

std::vector<int64_t> cutsByParameters(const Problem &problem) {
  std::vector<int64_t> weights;
  for (const Layer &layer : problem.layers)
    weights.push_back(residentBytes(problem.cluster, layer));
  return levelCuts(weights, problem.cluster.stages);
}

std::vector<int64_t> cutsByTime(const Problem &problem) {
  std::vector<int64_t> weights;
  for (const Layer &layer : problem.layers) {
    int64_t sum = 0;
    for (int64_t m = 0; m < (problem.factors.empty() ? 1 : problem.microbatches); ++m) {
      Decimal factor = problem.factor(m, layer.kind);
      sum += factor.times(layer.forwardNs) + factor.times(layer.inputGradNs) +
             factor.times(layer.weightGradNs);
    }
    weights.push_back(sum);
  }
  return levelCuts(weights, problem.cluster.stages);
}

} // namespace omnibal::planner
