// How long it takes to choose cuts for all candidates of a large model:
//   bench_length_candidates [candidates layers stages micro-batches]
#include "runtime/planner/lengths/EvenBound.h"
#include "runtime/planner/lengths/LengthJudge.h"
#include "runtime/planner/search/Search.h"
#include "test/bench/length_groups/TextLengths.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>

using namespace omnibal;
using namespace omnibal::planner;

namespace {

/// Processor time in seconds: other work of the machine does not count.
double now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// A tower of a fifth of the layers, a language model and a head of a large vocabulary.
struct Model {
  int64_t layers = 60, stages = 8;
  double memory = 0; ///< bytes of a stage
};

struct LayerNumbers {
  const char *kind = "language";
  double tileNs = 0, tokenNs = 0, squareNs = 0; ///< forward; the backward is twice that
  double tileBytes = 0, tokenBytes = 0;         ///< kept
  double parameterBytes = 0;
};

LayerNumbers numbersOf(const Model &model, int64_t layer) {
  if (layer < model.layers / 5)
    return {"vision", 9e5, 0, 0, 9e6, 0, 2e8};
  if (layer == model.layers - 1)
    return {"head", 0, 900, 0, 0, 1e4, 1.2e10};
  return {"language", 0, 600 + static_cast<double>(layer % 7), 0.03, 0, 1.3e5, 3.2e9};
}

LengthCandidate candidateOf(const Model &model, const rt::LengthGroup &group, double squares) {
  LengthCandidate candidate;
  candidate.group = group;
  ModeProblem &mode = candidate.mode;
  Problem &problem = mode.problem;
  problem.cluster.stages = model.stages;
  problem.cluster.memoryBytes.assign(model.stages, static_cast<int64_t>(model.memory));
  problem.cluster.link = {10'000, 50'000'000'000};
  problem.microbatches = group.microbatches;
  const auto tiles = static_cast<double>(group.tilesCap),
             tokens = static_cast<double>(group.tokensCap);
  mode.full = {tiles, tokens, squares * tokens};
  mode.actionNs = 20'000;
  for (int64_t l = 0; l < model.layers; ++l) {
    const LayerNumbers n = numbersOf(model, l);
    const LoadTime forward{30'000, n.tileNs, n.tokenNs, n.squareNs};
    const double bytes = n.tileBytes * tiles + n.tokenBytes * tokens;
    Layer layer;
    layer.name = n.kind + std::to_string(l);
    layer.kind = n.kind;
    layer.forwardNs = std::llround(forward.of(mode.full));
    layer.inputGradNs = layer.weightGradNs = layer.forwardNs;
    layer.paramBytes = std::llround(n.parameterBytes);
    auto &times = mode.times.emplace_back();
    const std::pair<double, double> options[] = {{1, 0}, {0.5, 0.15}, {0.3, 0.4}, {0.06, 1}};
    for (auto [kept, again] : options) {
      LoadTime backward{60'000, (2 + again) * n.tileNs, (2 + again) * n.tokenNs,
                        (2 + again) * n.squareNs};
      times.push_back({forward, backward});
      layer.remat.push_back({layer.remat.empty() ? "keep" : "option" + std::to_string(times.size()),
                             std::llround(bytes * kept),
                             std::llround(static_cast<double>(layer.forwardNs) * again),
                             std::llround(bytes * 0.2)});
    }
    problem.layers.push_back(std::move(layer));
    if (l > 0)
      problem.edges.push_back({l - 1, l, std::llround(tokens * 8192), std::llround(tokens * 8192)});
  }
  return candidate;
}

} // namespace

int main(int argc, char **argv) {
  auto number = [&](int index, int64_t otherwise) {
    return argc > index ? std::atoll(argv[index]) : otherwise;
  };
  const int64_t count = number(1, 46), microbatches = number(4, 16);
  Model model{number(2, 60), number(3, 8), 0};
  rt::SampleLengths lengths = rt::test::textLengths(200'000);
  for (int64_t i = 0; i < lengths.size(); ++i) // pictures in some samples
    lengths.tiles[i] = i % 3 == 0 ? std::min(lengths.tokens[i] / 400, 64) : 0;
  const std::vector<rt::Cell> cells = rt::countLengths(lengths);
  // The longest candidate fits with everything recomputed, the shorter ones with less.
  model.memory = 1.2e12 / static_cast<double>(model.stages);
  std::vector<LengthCandidate> candidates;
  for (int64_t c = 0; c < count; ++c) {
    rt::LengthGroup group;
    group.tokensCap = std::llround(
        512 * std::pow(256.0, static_cast<double>(c) / static_cast<double>(count - 1)));
    group.tilesCap = std::max<int64_t>(64, group.tokensCap / 600);
    group.name = std::to_string(group.tokensCap);
    group.microbatches = microbatches;
    candidates.push_back(candidateOf(model, group, 20'000));
  }
  const double begin = now();
  std::vector<SearchResult> own;
  std::vector<LengthCandidate> fitting;
  for (LengthCandidate &candidate : candidates) {
    SearchResult found = searchPlan(candidate.mode.problem, {10, false});
    if (!found.plan)
      continue;
    own.push_back(std::move(found));
    fitting.push_back(std::move(candidate));
  }
  const double alone = now();
  const LengthJudge judge(cells, fitting, 1, static_cast<int32_t>(model.stages));
  const JointSearch shared = searchSharedCuts(judge, fitting, std::move(own));
  const double chosen = now();
  const double bound = boundOverCuts(cells, fitting, static_cast<int32_t>(model.stages));
  const double end = now();
  if (shared.tried.empty()) {
    std::fprintf(stderr, "no cuts hold all samples\n");
    return 1;
  }
  std::printf("%lld of %lld candidates of %lld layers x %lld stages x %lld micro-batches fit\n",
              static_cast<long long>(fitting.size()), static_cast<long long>(count),
              static_cast<long long>(model.layers), static_cast<long long>(model.stages),
              static_cast<long long>(microbatches));
  std::printf(
      "processor time: each alone %.2f s, %zu cuts for all %.2f s, bound %.2f s, in all %.2f s\n",
      alone - begin, shared.tried.size(), chosen - alone, end - chosen, end - begin);
  std::printf("epoch %.1f s, %.2f %% above the bound of all cuts\n",
              shared.tried.front().value / 1e9, 100 * (shared.tried.front().value / bound - 1));
}
