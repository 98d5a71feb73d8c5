//===- RandomProblem.h - Small planning problems of every kind ------------------------------===//
#ifndef TEST_UNIT_RUNTIME_PLANNER_RANDOMPROBLEM_H
#define TEST_UNIT_RUNTIME_PLANNER_RANDOMPROBLEM_H

#include "runtime/planner/model/Problem.h"
#include <algorithm>
#include <random>

namespace omnibal::planner {

class Draw {
public:
  explicit Draw(uint64_t seed) : engine(seed) {}
  int64_t operator()(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine() % static_cast<uint64_t>(high - low + 1));
  }
  bool oneIn(int64_t n) { return (*this)(1, n) == 1; }

private:
  std::mt19937_64 engine;
};

/// Up to 7 layers of two kinds on up to 4 stages: equal or uneven layers, frozen fronts, skip
/// edges, sources beside the chain, slow links, mixed memory, factors, data parallel (some of it
/// with shares of the optimizer's state), gpipe.
inline Problem randomProblem(uint64_t seed) {
  Draw draw(seed);
  Problem p;
  int64_t layers = draw(2, 7), vision = draw(0, layers - 1);
  bool uneven = draw.oneIn(2), frozen = draw.oneIn(4), source = vision >= 2 && draw.oneIn(3);
  bool slow = draw.oneIn(3);
  int64_t base[2] = {draw(10, 1000), draw(10, 1000)};
  p.cluster.stages = draw(1, std::min<int64_t>(4, layers));
  p.microbatches = draw(1, 7);
  auto vary = [&](int64_t x) { return uneven ? x * draw(80, 120) / 100 : x; };
  for (int64_t i = 0; i < layers; ++i) {
    int kind = i < vision ? 0 : 1;
    bool still = frozen && kind == 0;
    Layer layer;
    layer.name = "layer" + std::to_string(i);
    layer.kind = kind ? "language" : "vision";
    layer.forwardNs = vary(base[kind]);
    layer.inputGradNs = still ? 0 : vary(base[kind] * 11 / 10);
    layer.weightGradNs = still ? 0 : vary(base[kind] * 9 / 10);
    layer.paramBytes = draw(0, 100);
    layer.gradBytes = draw(0, 50);
    int64_t keep = still ? 0 : vary(base[kind]);
    layer.remat.push_back({"keep", keep, 0, draw(0, 60)});
    if (!still && !draw.oneIn(5)) {
      layer.remat.push_back({"selective", keep / 2, layer.forwardNs / 5, draw(0, 120)});
      layer.remat.push_back({"full", keep / 20, layer.forwardNs, draw(0, 300)});
    }
    p.layers.push_back(layer);
  }
  auto edge = [&](int64_t from, int64_t to) {
    int64_t bytes = draw.oneIn(10) ? 0 : draw(1, 60);
    bool returns = !(frozen && from < vision) && !draw.oneIn(10);
    p.edges.push_back({from, to, bytes, returns ? bytes : 0});
  };
  for (int64_t i = 0; i + 1 < layers; ++i)
    if (!source || i + 1 != vision - 1)
      edge(i, i + 1);
    else
      edge(i, i + 2); // the layer between has no input
  for (int64_t a = draw(0, layers - 1), b = draw(0, layers - 1); a < b; b = a)
    edge(a, b);
  p.cluster.link = {slow ? draw(0, 200) : draw(0, 5), slow ? 100'000'000 : 1'000'000'000};
  p.cluster.dataParallel = draw.oneIn(3) ? 4 : 1;
  p.cluster.dataParallelLink = {draw(0, 20), draw(1, 10) * 100'000'000};
  int64_t saved = 0, params = 0;
  for (const Layer &layer : p.layers) {
    saved += layer.remat[0].savedBytes;
    params += layer.paramBytes;
  }
  int64_t stages = p.cluster.stages;
  int64_t memory =
      (saved * std::min(p.microbatches, stages) + params) / stages * draw(40, 160) / 100 +
      draw(0, 200);
  if (!draw.oneIn(4))
    for (int64_t r = 0, count = draw.oneIn(3) ? stages : 1; r < count; ++r)
      p.cluster.memoryBytes.push_back(count == 1 ? memory : memory * draw(70, 130) / 100);
  if (draw.oneIn(4))
    p.schedule = "gpipe";
  if (draw.oneIn(3))
    for (int64_t m = 0; m < p.microbatches; ++m)
      p.factors.push_back(
          {{"vision", Decimal::of(draw(0, 12), 1)}, {"language", Decimal::of(draw(1, 150), 2)}});
  if (draw.oneIn(10)) {
    p.varyRemat = false;
    for (const Layer &layer : p.layers)
      p.givenRemat.push_back(
          layer.remat[draw(0, static_cast<int64_t>(layer.remat.size()) - 1)].name);
  }
  Draw shares(seed + 2'000'003);
  if (p.cluster.dataParallel > 1 && shares.oneIn(2)) {
    p.cluster.zero = 1;
    for (Layer &layer : p.layers) {
      layer.stateBytes = shares(0, layer.paramBytes);
      layer.updateBytes = shares.oneIn(4) ? 0 : shares(0, 50);
    }
  }
  return p;
}

/// The same under zb-h1 or with several chunks a stage, options with split bytes of their own among
/// them; up to 5 micro-batches.
inline Problem randomChunkProblem(uint64_t seed) {
  Problem p = randomProblem(seed);
  Draw draw(seed + 1'000'003);
  for (Layer &layer : p.layers)
    for (RematOption &option : layer.remat)
      if (draw.oneIn(2))
        option.splitBytes = option.savedBytes * draw(50, 250) / 100;
  p.schedule = draw.oneIn(2) ? "zb-h1" : draw.oneIn(3) ? "interleaved:3" : "interleaved:2";
  int64_t chunks = p.schedule == "zb-h1" ? 1 : p.schedule.back() - '0';
  auto layers = static_cast<int64_t>(p.layers.size());
  p.cluster.stages = std::max<int64_t>(1, std::min(p.cluster.stages, layers / chunks));
  if (p.cluster.memoryBytes.size() > 1)
    p.cluster.memoryBytes.resize(p.cluster.stages);
  for (int64_t &limit : p.cluster.memoryBytes)
    limit = limit * draw(100, 200) / 100;
  p.microbatches = std::min<int64_t>(p.microbatches, 5);
  if (!p.factors.empty())
    p.factors.resize(p.microbatches);
  return p;
}

} // namespace omnibal::planner
#endif // TEST_UNIT_RUNTIME_PLANNER_RANDOMPROBLEM_H
