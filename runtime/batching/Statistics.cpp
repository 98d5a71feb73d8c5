#include "runtime/batching/Balance.h"
#include "runtime/batching/rows/Imbalance.h"
#include "runtime/batching/rows/Random.h"
#include <algorithm>
#include <cmath>

namespace omnibal::rt {
namespace {

constexpr int64_t block = 8; ///< rows whose mean is looked at

/// What a micro-batch weighs.
struct Weights {
  LoadSums sums;
  double cost = 0;
};

/// Sum of the tokens and number of the samples of rows, as blocks of eight are complete.
class StepVariance {
public:
  void add(double tokens, int64_t samples) {
    sum += tokens;
    count += samples;
    if (++rows % block != 0)
      return;
    if (count > 0) {
      means.push_back(sum / static_cast<double>(count));
      inverse += 1 / static_cast<double>(count);
    }
    sum = 0;
    count = 0;
  }
  /// Relative to means of as many independent samples; 0 where there are no two blocks, or no
  /// variance.
  double ratio(double variance) const {
    if (means.size() < 2 || variance <= 0)
      return 0;
    double n = static_cast<double>(means.size()), mean = 0, squares = 0;
    for (double m : means)
      mean += m / n;
    for (double m : means)
      squares += (m - mean) * (m - mean);
    return squares / (n - 1) / (variance * inverse / n);
  }

private:
  std::vector<double> means;
  double inverse = 0, sum = 0;
  int64_t count = 0, rows = 0;
};

double varianceOf(const SampleLengths &lengths, const std::vector<int64_t> &samples) {
  double n = static_cast<double>(std::max<size_t>(samples.size(), 1)), mean = 0, squares = 0;
  for (int64_t s : samples)
    mean += lengths.tokens[s];
  mean /= n;
  for (int64_t s : samples)
    squares += (lengths.tokens[s] - mean) * (lengths.tokens[s] - mean);
  return squares / n;
}

} // namespace

BalanceStatistics statistics(const SampleLengths &lengths, const Batches &batches, int32_t ranks,
                             const LoadCost &cost) {
  BalanceStatistics result;
  RowRatio tiles, tokens, costs;
  StepVariance variance;
  std::vector<Weights> row(ranks);
  for (int64_t g = 0; g + ranks <= batches.groups(); g += ranks) {
    double rowTokens = 0;
    for (int32_t r = 0; r < ranks; ++r) {
      LoadSums sums;
      for (int64_t i = batches.offsets[g + r]; i < batches.offsets[g + r + 1]; ++i)
        sums.add(lengths, batches.samples[i]);
      rowTokens += sums.tokens;
      row[r] = {sums, cost.of(sums)};
    }
    variance.add(rowTokens, batches.offsets[g + ranks] - batches.offsets[g]);
    tiles.add(ranks, [&](int32_t r) { return row[r].sums.tiles; });
    tokens.add(ranks, [&](int32_t r) { return row[r].sums.tokens; });
    costs.add(ranks, [&](int32_t r) { return row[r].cost; });
  }
  result.distRatioVit = tiles.mean();
  result.distRatioLlm = tokens.mean();
  result.distRatioCost = costs.mean();
  result.stepVariance = variance.ratio(varianceOf(lengths, batches.samples));
  return result;
}

Batches unbalanced(const SampleLengths &lengths, const Batches &batches, uint64_t seed) {
  // In ascending order first: a function of the set of samples and the seed.
  std::vector<bool> taken(lengths.size());
  for (int64_t sample : batches.samples)
    taken[sample] = true;
  int64_t groups = batches.groups(), n = static_cast<int64_t>(batches.samples.size());
  Batches plain;
  plain.samples.reserve(n);
  for (int64_t sample = 0; sample < lengths.size(); ++sample)
    if (taken[sample])
      plain.samples.push_back(sample);
  Random(seed, 0, 'u').shuffle(plain.samples.data(), plain.samples.size());
  plain.offsets.resize(groups + 1);
  for (int64_t g = 0; g < groups; ++g)
    plain.offsets[g + 1] = plain.offsets[g] + n / groups + (g < n % groups);
  return plain;
}

BalanceStatistics unbalancedStatistics(const SampleLengths &lengths, const Batches &batches,
                                       int32_t ranks, uint64_t seed, const LoadCost &cost) {
  Batches plain = unbalanced(lengths, batches, seed);
  BalanceStatistics result;
  RowRatio tiles, tokens, costs;
  std::vector<Weights> row(ranks);
  double padding = 0, padded = 0;
  for (int64_t g = 0; g < plain.groups(); ++g) {
    int64_t begin = plain.offsets[g], end = plain.offsets[g + 1];
    LoadSums sums;
    double longest = 0, size = static_cast<double>(end - begin);
    for (int64_t i = begin; i < end; ++i) {
      sums.add(lengths, plain.samples[i]);
      longest = std::max<double>(longest, lengths.tokens[plain.samples[i]]);
    }
    LoadSums computed = sums;
    computed.tokens = longest * size;
    computed.squaredTokens = longest * longest * size;
    padding += computed.tokens - sums.tokens;
    padded += computed.tokens;
    row[g % ranks] = {sums, cost.of(computed)};
    if ((g + 1) % ranks != 0)
      continue;
    tiles.add(ranks, [&](int32_t r) { return row[r].sums.tiles; });
    tokens.add(ranks, [&](int32_t r) { return row[r].sums.tokens; });
    costs.add(ranks, [&](int32_t r) { return row[r].cost; });
  }
  result.stepVariance = statistics(lengths, plain, ranks).stepVariance;
  result.padRatio = padded > 0 ? padding / padded : 0;
  result.distRatioVit = tiles.mean();
  result.distRatioLlm = tokens.mean();
  result.distRatioCost = costs.mean();
  return result;
}

} // namespace omnibal::rt
