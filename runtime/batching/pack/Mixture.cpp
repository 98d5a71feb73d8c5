#include "runtime/batching/pack/Mixture.h"
#include "runtime/batching/rows/BatchTypes.h"
#include "runtime/batching/rows/Random.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

namespace omnibal::rt {
namespace {

Status checkWeights(const std::vector<int64_t> &sizes, const std::vector<double> &weights) {
  if (sizes.size() != weights.size() || sizes.empty())
    return invalid(std::to_string(weights.size()) + " weights for " + std::to_string(sizes.size()) +
                   " data sets: one for each is needed");
  double sum = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!(weights[i] >= 0 && weights[i] < 1e18))
      return invalid("the weight of data set " + std::to_string(i) + " is " +
                     std::to_string(weights[i]) + ": 0 or more is expected");
    if (sizes[i] < 1 && weights[i] > 0)
      return invalid("data set " + std::to_string(i) + " has a weight, but no sample");
    if (sizes[i] >= (int64_t(1) << 31))
      return invalid("data set " + std::to_string(i) + " has " + std::to_string(sizes[i]) +
                     " samples; at most 2^31 - 1 are possible");
    sum += weights[i];
  }
  if (sum <= 0)
    return invalid("all weights of the data sets are 0");
  return Status::ok();
}

Status checkMixture(const std::vector<int64_t> &sizes, const std::vector<MixPhase> &phases,
                    int64_t total, int64_t epoch) {
  if (phases.empty() || phases[0].epoch != 0)
    return invalid("the weights of epoch 0 are missing");
  for (size_t i = 0; i < phases.size(); ++i) {
    if (i > 0 && (phases[i].epoch <= phases[i - 1].epoch || phases[i].epoch > largestEpoch))
      return invalid("weights from epoch " + std::to_string(phases[i].epoch) +
                     " on come after those from epoch " + std::to_string(phases[i - 1].epoch) +
                     " on; later ones must begin later");
    OMNIBAL_RETURN_IF_ERROR(
        checkWeights(sizes, phases[i].weights)
            .context("weights from epoch " + std::to_string(phases[i].epoch) + " on"));
  }
  if (total < 1 || epoch < 0 || total > (int64_t(1) << 40) || epoch > largestEpoch)
    return invalid("a mixture of " + std::to_string(total) + " samples in epoch " +
                   std::to_string(epoch) + " is not possible");
  return Status::ok();
}

/// Whole numbers in the ratio of the weights; the largest remainders are rounded up.
std::vector<int64_t> sharesOf(const std::vector<double> &weights, int64_t total) {
  double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> shares(weights.size());
  std::vector<std::pair<double, size_t>> remainders;
  int64_t left = total;
  for (size_t i = 0; i < weights.size(); ++i) {
    double exact = static_cast<double>(total) * (weights[i] / sum);
    shares[i] = static_cast<int64_t>(exact);
    left -= shares[i];
    if (weights[i] > 0)
      remainders.push_back({static_cast<double>(shares[i]) - exact, i});
  }
  std::sort(remainders.begin(), remainders.end());
  for (size_t k = 0; left > 0; ++k, --left)
    ++shares[remainders[k % remainders.size()].second];
  return shares;
}

} // namespace

Result<std::vector<MixedSample>> mixedEpoch(const std::vector<int64_t> &sizes,
                                            const std::vector<MixPhase> &phases, int64_t total,
                                            uint64_t seed, int64_t epoch) {
  OMNIBAL_RETURN_IF_ERROR(checkMixture(sizes, phases, total, epoch));
  std::vector<int64_t> shares, used(sizes.size()); // of this epoch, and of those before it
  for (size_t p = 0; p < phases.size() && phases[p].epoch <= epoch; ++p) {
    shares = sharesOf(phases[p].weights, total);
    const int64_t end = p + 1 < phases.size() ? std::min(phases[p + 1].epoch, epoch) : epoch;
    for (size_t i = 0; i < sizes.size(); ++i)
      used[i] += (end - phases[p].epoch) * shares[i];
  }
  std::vector<MixedSample> samples;
  samples.reserve(total);
  std::vector<uint32_t> order;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t at = used[i], end = at + shares[i], shuffled = -1;
    for (; at < end; ++at) {
      if (int64_t pass = at / sizes[i]; pass != shuffled) {
        order.resize(sizes[i]);
        std::iota(order.begin(), order.end(), 0u);
        Random(seed ^ (i * 0x9e3779b97f4a7c15ull), pass, 'm').shuffle(order.data(), order.size());
        shuffled = pass;
      }
      samples.push_back({static_cast<int32_t>(i), order[at % sizes[i]]});
    }
  }
  return samples;
}

WeightedTurns::WeightedTurns(std::vector<double> theWeights)
    : weights(std::move(theWeights)), credit(weights.size(), 0) {}

int32_t WeightedTurns::next() {
  double sum = 0;
  for (double weight : weights)
    sum += weight;
  if (sum <= 0)
    return -1;
  int32_t chosen = -1;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0)
      continue;
    credit[i] += weights[i] / sum;
    if (chosen < 0 || credit[i] > credit[chosen])
      chosen = static_cast<int32_t>(i);
  }
  credit[chosen] -= 1;
  return chosen;
}

void WeightedTurns::end(int32_t source) {
  weights[source] = 0;
  credit[source] = 0;
}

} // namespace omnibal::rt
