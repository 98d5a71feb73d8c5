#include "runtime/batching/pack/Mixture.h"
#include "runtime/batching/rows/BatchTypes.h"
#include "runtime/batching/rows/Random.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>

namespace omnibal::rt {

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

namespace {

Status checkMixture(const Mix &mix, int64_t epoch) {
  const std::vector<MixPhase> &phases = mix.phases;
  if (phases.empty() || phases[0].epoch != 0)
    return invalid("the weights of epoch 0 are missing");
  for (size_t i = 0; i < phases.size(); ++i) {
    if (i > 0 && (phases[i].epoch <= phases[i - 1].epoch || phases[i].epoch > largestEpoch))
      return invalid("weights from epoch " + std::to_string(phases[i].epoch) +
                     " on come after those from epoch " + std::to_string(phases[i - 1].epoch) +
                     " on; later ones must begin later");
    OMNIBAL_RETURN_IF_ERROR(
        checkWeights(mix.sizes, phases[i].weights)
            .context("weights from epoch " + std::to_string(phases[i].epoch) + " on"));
  }
  if (mix.samples < 1 || epoch < mix.start.epoch || mix.samples > (int64_t(1) << 40) ||
      epoch > largestEpoch)
    return invalid("a mixture of " + std::to_string(mix.samples) + " samples in epoch " +
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

/// The samples of a data set that an epoch draws, in the order of their places in its sequence.
class Draw {
public:
  /// `place` may be null: the beginning. The epoch draws the entries from `first` to `end`, counted
  /// from there.
  Draw(int64_t size, const MixPlace *place, uint64_t seed, int64_t first, int64_t end)
      : size(size), next(place ? place->next : 0), seed(seed), first(first), end(end) {
    if (place)
      left = place->left;
  }

  int64_t count() const { return end - first; }
  /// The place of an entry of the epoch, from 0 on.
  int64_t place(int64_t entry) const {
    const auto known = static_cast<int64_t>(left.size());
    return first + entry < known ? left[first + entry] : next + (first + entry - known);
  }
  /// The sample at a place; neighbors are asked for one after the other.
  int64_t sample(int64_t place) {
    if (const int64_t pass = place / size; pass != shuffled) {
      order.resize(size);
      std::iota(order.begin(), order.end(), 0u);
      Random(seed, pass, 'm').shuffle(order.data(), order.size());
      shuffled = pass;
    }
    return order[place % size];
  }

  /// Where the data set stands when all but these places of the epoch's are used.
  MixPlace after(std::vector<int64_t> untrained) const {
    const auto known = static_cast<int64_t>(left.size());
    untrained.insert(untrained.end(), left.begin() + std::min(end, known), left.end());
    return {next + std::max<int64_t>(0, end - known), std::move(untrained)};
  }

private:
  int64_t size, next;
  uint64_t seed;
  int64_t first, end;
  std::span<const int64_t> left;
  int64_t shuffled = -1; ///< the pass whose order is known
  std::vector<uint32_t> order;
};

/// What the epoch draws of each data set.
Result<std::vector<Draw>> drawsOf(const Mix &mix, uint64_t seed, int64_t epoch) {
  OMNIBAL_RETURN_IF_ERROR(checkMixture(mix, epoch));
  const MixStart &start = mix.start;
  if (!start.places.empty() && start.places.size() != mix.sizes.size())
    return Status(Code::Internal, "a mixture goes on with other data sets");
  std::vector<int64_t> shares, used(mix.sizes.size()); // of this epoch, and of those before it
  for (size_t p = 0; p < mix.phases.size() && mix.phases[p].epoch <= epoch; ++p) {
    shares = sharesOf(mix.phases[p].weights, mix.samples);
    const int64_t begin = std::max(mix.phases[p].epoch, start.epoch);
    const int64_t end =
        p + 1 < mix.phases.size() ? std::min(mix.phases[p + 1].epoch, epoch) : epoch;
    for (size_t i = 0; i < mix.sizes.size(); ++i)
      used[i] += std::max<int64_t>(0, end - begin) * shares[i];
  }
  std::vector<Draw> draws;
  for (size_t i = 0; i < mix.sizes.size(); ++i)
    draws.emplace_back(mix.sizes[i], start.places.empty() ? nullptr : &start.places[i],
                       seed ^ (i * 0x9e3779b97f4a7c15ull), used[i], used[i] + shares[i]);
  return draws;
}

} // namespace

Result<std::vector<MixedSample>> mixedEpoch(const Mix &mix, uint64_t seed, int64_t epoch) {
  OMNIBAL_ASSIGN_OR_RETURN(std::vector<Draw> draws, drawsOf(mix, seed, epoch));
  std::vector<MixedSample> samples;
  samples.reserve(mix.samples);
  for (size_t i = 0; i < draws.size(); ++i) {
    Draw draw = std::move(draws[i]); // one order in memory at a time
    for (int64_t entry = 0; entry < draw.count(); ++entry)
      samples.push_back({static_cast<int32_t>(i), draw.sample(draw.place(entry))});
  }
  return samples;
}

Result<MixStart> startAfter(const Mix &mix, uint64_t seed, int64_t epoch,
                            const std::vector<int64_t> &untrained) {
  OMNIBAL_ASSIGN_OR_RETURN(std::vector<Draw> draws, drawsOf(mix, seed, epoch));
  std::vector<int32_t> waiting(std::accumulate(mix.sizes.begin(), mix.sizes.end(), int64_t(0)));
  for (int64_t sample : untrained)
    ++waiting[sample];
  MixStart start{epoch + 1, {}};
  auto found = static_cast<int64_t>(untrained.size());
  int64_t begin = 0; // of the data set's numbers
  for (size_t i = 0; i < draws.size(); ++i) {
    Draw draw = std::move(draws[i]);
    std::vector<int64_t> left;
    for (int64_t entry = draw.count() - 1; entry >= 0 && found > 0; --entry) {
      const int64_t place = draw.place(entry);
      if (int32_t &times = waiting[begin + draw.sample(place)]; times > 0) {
        --times;
        --found;
        left.push_back(place);
      }
    }
    std::reverse(left.begin(), left.end());
    start.places.push_back(draw.after(std::move(left)));
    begin += mix.sizes[i];
  }
  if (found > 0)
    return Status(Code::Internal, "epoch " + std::to_string(epoch) + " has drawn other samples");
  return start;
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
