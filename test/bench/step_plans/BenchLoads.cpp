//===- BenchLoads.cpp --------------------------------------------------------------------===//
#include "test/bench/step_plans/BenchLoads.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>

namespace omnibal::bench {
namespace {

[[noreturn]] void failLoads(const std::string &message) {
  std::fprintf(stderr, "bench_step_plans: %s\n", message.c_str());
  std::exit(1);
}

class Random {
public:
  double uniform() { return static_cast<double>(engine() >> 11) * 0x1p-53; }
  /// Box and Muller: the library's normal distribution differs among implementations.
  double logNormal(double median, double spread) {
    double normal =
        std::sqrt(-2 * std::log(1 - uniform())) * std::cos(6.283185307179586 * uniform());
    return median * std::exp(spread * normal);
  }

private:
  std::mt19937_64 engine{7};
};

/// Rows of tiles, tokens and how often.
rt::SampleLengths readPooled(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line))
    failLoads(path + ": cannot be read");
  rt::SampleLengths samples;
  long tiles = 0, tokens = 0, count = 0;
  while (std::getline(file, line))
    if (std::sscanf(line.c_str(), "%ld,%ld,%ld", &tiles, &tokens, &count) == 3) {
      samples.tiles.insert(samples.tiles.end(), count, static_cast<int32_t>(tiles));
      samples.tokens.insert(samples.tokens.end(), count, static_cast<int32_t>(tokens));
    }
  return samples;
}

} // namespace

rt::SampleLengths samplesOf(const std::string &kind, const std::string &lengths) {
  rt::SampleLengths samples = readPooled(lengths);
  Random random;
  for (int64_t i = 0; i < samples.size(); ++i) {
    if (kind == "mixed" && random.uniform() < 0.5) {
      samples.tiles[i] = 0;
      samples.tokens[i] =
          static_cast<int32_t>(std::clamp(random.logNormal(500, 1), 8.0, double(tokensCap)));
    } else if (kind == "skew") {
      double share = random.uniform();
      int32_t tiles = share < 0.25 ? 0 : static_cast<int32_t>(random.logNormal(2.5, 0.9));
      samples.tiles[i] = std::clamp(tiles, 0, 24);
      double text = std::min(random.logNormal(250, 1), 2000.0);
      samples.tokens[i] = static_cast<int32_t>(text) + 256 * samples.tiles[i] + 8;
    }
  }
  return samples;
}

std::vector<planner::StepLoads> stepsOf(const rt::SampleLengths &samples, bool balanced,
                                        int64_t microbatches, size_t count) {
  double tiles = 0, tokens = 0;
  for (int64_t i = 0; i < samples.size(); ++i) {
    tiles += samples.tiles[i];
    tokens += samples.tokens[i];
  }
  rt::BatchOptions options;
  options.method = balanced ? rt::BatchMethod::Plan : rt::BatchMethod::Random;
  options.tokensCap = tokensCap;
  int32_t largest = *std::max_element(samples.tiles.begin(), samples.tiles.end());
  options.tilesCap =
      balanced ? std::max<int64_t>(largest, int64_t(1.25 * tokensCap * tiles / tokens)) : tokensCap;
  options.ranks = balanced ? replicas : 1;
  rt::Batches batches;
  std::vector<planner::StepLoads> steps;
  const int64_t groupsOfRow = balanced ? replicas : 1;
  for (int64_t row = 0; steps.size() < count; row += microbatches) {
    if ((row + microbatches) * groupsOfRow > batches.groups()) { // another epoch
      options.epoch = steps.empty() ? 0 : options.epoch + 1;
      auto made = rt::balance(samples, options);
      if (!made)
        failLoads(made.status().message());
      batches = std::move(*made);
      row = 0;
      if (microbatches * groupsOfRow > batches.groups())
        failLoads("too few samples for a step");
    }
    planner::StepLoads &step = steps.emplace_back();
    step.step = static_cast<int64_t>(steps.size()) - 1;
    for (int64_t m = 0; m < microbatches; ++m) {
      const int64_t group = (row + m) * groupsOfRow + step.step % groupsOfRow;
      planner::UnitLoad load;
      for (int64_t i = batches.offsets[group]; i < batches.offsets[group + 1]; ++i) {
        int64_t sample = batches.samples[i], length = samples.tokens[sample];
        load.tiles += samples.tiles[sample];
        load.tokens += length;
        load.squares += length * length;
      }
      load.labels = load.tokens / 4;
      step.microbatches.push_back({load, {}});
    }
  }
  return steps;
}

} // namespace omnibal::bench
