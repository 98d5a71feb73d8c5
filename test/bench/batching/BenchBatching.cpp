//===- BenchBatching.cpp - Our packer against ISF --------------------------------------------===//
//
// bench_batching [LENGTHS.csv ...] [--samples N] [--quick]: everything that can be said about the
// packer, on one core: groups against the bound, ratios and variance of steps on the lengths given
// (default: test/data/lengths), time and memory for N samples drawn from them (default 10 million),
// and samples of more diverse kinds. Each time beside our own ISF in the same run. Seconds are
// processor time (one thread; other work on the machine counts less), the best of several runs;
// MiB is what balance() added to the process at most, its result included. --quick runs once and
// draws 200,000.
//
//===----------------------------------------------------------------------------------------===//
#include "runtime/batching/Balance.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

using namespace omnibal::rt;

namespace {

struct Caps {
  int64_t tiles, tokens;
};

[[noreturn]] void fail(const std::string &message) {
  std::fprintf(stderr, "bench_batching: %s\n", message.c_str());
  std::exit(1);
}

/// Columns vit_num, token_num and, if there is one, count; others are ignored.
void readLengths(const std::string &path, SampleLengths &lengths) {
  std::ifstream file(path);
  std::string line, field;
  if (!std::getline(file, line))
    fail(path + ": cannot be read");
  int tiles = -1, tokens = -1, count = -1, column = 0;
  for (std::istringstream header(line); std::getline(header, field, ','); ++column) {
    field.erase(field.find_last_not_of(" \r") + 1);
    tiles = field == "vit_num" ? column : tiles;
    tokens = field == "token_num" ? column : tokens;
    count = field == "count" ? column : count;
  }
  if (tiles < 0 || tokens < 0)
    fail(path + ": columns vit_num and token_num are expected");
  while (std::getline(file, line)) {
    int32_t v = 0, t = 0;
    int64_t n = 1;
    column = 0;
    for (std::istringstream row(line); std::getline(row, field, ','); ++column) {
      long value = std::atol(field.c_str());
      if (column == tiles)
        v = static_cast<int32_t>(value);
      else if (column == tokens)
        t = static_cast<int32_t>(value);
      n = column == count ? value : n;
    }
    lengths.tiles.insert(lengths.tiles.end(), n, v);
    lengths.tokens.insert(lengths.tokens.end(), n, t);
  }
}

/// `n` samples drawn with a fixed seed.
SampleLengths bootstrap(const SampleLengths &from, int64_t n) {
  std::mt19937_64 random(20240721);
  SampleLengths lengths;
  lengths.tiles.resize(n);
  lengths.tokens.resize(n);
  for (int64_t i = 0; i < n; ++i) {
    int64_t sample = static_cast<int64_t>(random() % static_cast<uint64_t>(from.size()));
    lengths.tiles[i] = from.tiles[sample];
    lengths.tokens[i] = from.tokens[sample];
  }
  return lengths;
}

double memoryMiB(const char *field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(field, 0) == 0)
      return std::atof(line.c_str() + std::strlen(field)) / 1024;
  return 0;
}

/// The high-water mark starts again from what is in use now.
void resetPeak() {
  if (std::FILE *file = std::fopen("/proc/self/clear_refs", "w")) {
    std::fputs("5", file);
    std::fclose(file);
  }
}

struct Outcome {
  Batches batches;
  BalanceStatistics statistics;
  double seconds = 0, peakMiB = 0;
};

Outcome measure(const SampleLengths &lengths, Caps caps, int32_t ranks, BatchMethod method,
                int runs) {
  BatchOptions options;
  options.method = method;
  options.tilesCap = caps.tiles;
  options.tokensCap = caps.tokens;
  options.ranks = ranks;
  Outcome outcome;
  for (int run = 0; run < runs; ++run) {
    outcome.batches = {};
    resetPeak();
    double before = memoryMiB("VmRSS:");
    std::clock_t start = std::clock();
    auto batches = balance(lengths, options);
    double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    if (!batches)
      fail(batches.status().message());
    outcome.batches = *std::move(batches);
    outcome.seconds = run == 0 ? seconds : std::min(outcome.seconds, seconds);
    outcome.peakMiB = memoryMiB("VmHWM:") - before;
  }
  outcome.statistics = statistics(lengths, outcome.batches, ranks);
  return outcome;
}

void printLine(const char *name, Caps caps, int32_t ranks, const Outcome &outcome,
               const Batches &bound) {
  double gap = static_cast<double>(outcome.batches.groups()) / bound.lowerBound - 1;
  char settings[32];
  std::snprintf(settings, sizeof settings, "%lld/%lld", static_cast<long long>(caps.tiles),
                static_cast<long long>(caps.tokens));
  std::printf("%-12s %5d %-5s %9lld %9lld %-16s %8.5f %8.5f %8.5f %7.3f %8.3f %7.0f\n", settings,
              ranks, name, static_cast<long long>(outcome.batches.groups()),
              static_cast<long long>(bound.lowerBound), bound.boundMethod.c_str(), gap,
              outcome.statistics.distRatioVit, outcome.statistics.distRatioLlm,
              outcome.statistics.stepVariance, outcome.seconds, outcome.peakMiB);
}

void compare(const SampleLengths &lengths, Caps caps, int32_t ranks, int runs) {
  Outcome plan = measure(lengths, caps, ranks, BatchMethod::Plan, runs);
  printLine("plan", caps, ranks, plan, plan.batches);
  Batches bound = std::move(plan.batches);
  printLine("isf", caps, ranks, measure(lengths, caps, ranks, BatchMethod::Isf, 1), bound);
  std::fflush(stdout);
}

void printHeader(const std::string &title) {
  std::printf("\n%s\n%-12s %5s %-5s %9s %9s %-16s %8s %8s %8s %7s %8s %7s\n", title.c_str(),
              "tiles/tokens", "ranks", "", "groups", "bound", "", "gap", "vit", "llm", "R",
              "seconds", "MiB");
}

/// What every rank waits for without balance.
void printBefore(const SampleLengths &lengths) {
  Batches batches = measure(lengths, {9, 4096}, 8, BatchMethod::Plan, 1).batches;
  BalanceStatistics before = unbalancedStatistics(lengths, batches, 8, 1);
  std::printf(
      "random micro-batches of the same mean size, 9/4096, 8 ranks: padding %.4f, vit %.4f, "
      "llm %.4f, R %.3f\n",
      before.padRatio, before.distRatioVit, before.distRatioLlm, before.stepVariance);
}

struct Kind {
  const char *name;
  Caps caps;
  double pictures; ///< share of the samples that have some
  int32_t mostTiles;
  double logTokens, logSpread; ///< of the text, a log-normal distribution
};

/// Synthetic samples far more diverse than the real ones: tens of thousands of distinct pairs.
SampleLengths diverse(const Kind &kind, int64_t n) {
  std::mt19937_64 random(7);
  auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  SampleLengths lengths;
  lengths.tiles.reserve(n);
  lengths.tokens.reserve(n);
  for (int64_t i = 0; i < n; ++i) {
    // Box and Muller: the library's normal distribution differs among implementations.
    double normal =
        std::sqrt(-2 * std::log(1 - uniform())) * std::cos(6.283185307179586 * uniform());
    double text = std::exp(kind.logTokens + kind.logSpread * normal);
    int64_t tiles = uniform() < kind.pictures
                        ? 1 + static_cast<int64_t>(uniform() * uniform() * kind.mostTiles)
                        : 0;
    int64_t tokens = 1 + static_cast<int64_t>(std::min(text, 1e6)) + 256 * tiles;
    lengths.tiles.push_back(static_cast<int32_t>(tiles));
    lengths.tokens.push_back(static_cast<int32_t>(std::min(tokens, kind.caps.tokens)));
  }
  return lengths;
}

} // namespace

int main(int argc, char **argv) {
  SampleLengths lengths;
  int64_t samples = 10000000;
  int runs = 3;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--quick") {
      samples = 200000;
      runs = 1;
    } else if (argument == "--samples" && i + 1 < argc) {
      samples = std::atoll(argv[++i]);
    } else if (argument[0] == '-') {
      fail("usage: bench_batching [LENGTHS.csv ...] [--samples N] [--quick]");
    } else {
      readLengths(argument, lengths);
    }
  }
  if (lengths.size() == 0)
    readLengths(OMNIBAL_TEST_DATA "/lengths/pooled.csv", lengths);
  constexpr Caps settings[] = {{9, 4096}, {12, 4096}, {14, 4096}, {16, 4096}, {18, 6016}};

  printHeader("Real lengths, " + std::to_string(lengths.size()) + " samples");
  for (Caps caps : settings)
    for (int32_t ranks : {8, 16, 64, 256})
      compare(lengths, caps, ranks, runs);
  printBefore(lengths);

  SampleLengths many = bootstrap(lengths, samples);
  printHeader("Drawn from them, " + std::to_string(samples) + " samples");
  for (Caps caps : settings)
    compare(many, caps, 8, runs);
  many = {};

  constexpr Kind kinds[] = {{"text alone", {1, 4096}, 0, 0, 5.8, 1.0},
                            {"text and pictures", {48, 16384}, 0.6, 24, 6, 1.1},
                            {"many pictures a sample", {48, 16384}, 1, 47, 5, 1},
                            {"tails up to 32k tokens", {16, 32768}, 0.3, 12, 7, 1.5}};
  for (const Kind &kind : kinds)
    for (int64_t n : {std::min<int64_t>(samples, 100000), samples}) {
      printHeader(std::string("Diverse: ") + kind.name + ", " + std::to_string(n) + " samples");
      compare(diverse(kind, n), kind.caps, 8, n > 1000000 ? 1 : runs);
    }
  return 0;
}
