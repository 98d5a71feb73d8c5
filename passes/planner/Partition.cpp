#include "passes/planner/Partition.h"
#include <algorithm>
#include <limits>

namespace omnibal::planner {
namespace {

/// Linear partition by dynamic programming: least largest stage sum, ties to the earliest cuts.
std::vector<int64_t> balance(const std::vector<int64_t> &weights, int64_t stages) {
  int64_t n = static_cast<int64_t>(weights.size());
  std::vector<int64_t> prefix(n + 1, 0);
  for (int64_t i = 0; i < n; ++i)
    prefix[i + 1] = prefix[i] + weights[i];
  constexpr int64_t unreachable = std::numeric_limits<int64_t>::max();
  // best[k][i]: least largest sum of the first i layers in k stages.
  std::vector<std::vector<int64_t>> best(stages + 1, std::vector<int64_t>(n + 1, unreachable));
  std::vector<std::vector<int64_t>> from(stages + 1, std::vector<int64_t>(n + 1, 0));
  best[0][0] = 0;
  for (int64_t k = 1; k <= stages; ++k)
    for (int64_t i = k; i <= n; ++i)
      for (int64_t j = k - 1; j < i; ++j) {
        if (best[k - 1][j] == unreachable)
          continue;
        int64_t largest = std::max(best[k - 1][j], prefix[i] - prefix[j]);
        if (largest < best[k][i]) {
          best[k][i] = largest;
          from[k][i] = j;
        }
      }
  std::vector<int64_t> cuts(stages + 1, n);
  for (int64_t k = stages; k > 0; --k)
    cuts[k - 1] = from[k][cuts[k]];
  return cuts;
}

} // namespace

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
    weights.push_back(layer.paramBytes);
  return balance(weights, problem.cluster.stages);
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
  return balance(weights, problem.cluster.stages);
}

} // namespace omnibal::planner
