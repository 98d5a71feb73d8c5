#include "runtime/planner/search/bounds/WorkBound.h"
#include <algorithm>
#include <numeric>

namespace omnibal::planner {
namespace {

/// Work of each layer over all micro-batches, with the least recomputation of its options.
std::vector<int64_t> workOfLayers(const PlanningModel &model) {
  std::vector<int64_t> work(model.layers, 0);
  for (int64_t m = 0; m < model.microbatches; ++m) {
    const LoadModel &load = model.loads[model.loadOf[m]];
    for (int64_t l = 0; l < model.layers; ++l) {
      int64_t again = unreachable;
      for (const RematOption &option : load.remat[l])
        again = std::min(again, option.recomputeNs);
      work[l] += load.forward[l] + load.backward[l] + again;
    }
  }
  return work;
}

/// One stage has at least k + 1 of the k P + 1 longest layers.
int64_t byPigeonholes(std::vector<int64_t> work, int64_t stages) {
  std::sort(work.begin(), work.end(), std::greater<>());
  int64_t most = 0, count = static_cast<int64_t>(work.size());
  for (int64_t k = 0; k * stages < count; ++k) {
    int64_t sum = 0;
    for (int64_t i = k * stages - k; i <= k * stages; ++i)
      sum += work[i];
    most = std::max(most, sum);
  }
  return most;
}

/// The stage whose first layer is the k-th such has k layers of other stages before it, which some
/// micro-batch passes first where each layer feeds the next one. Layers that nothing feeds may
/// stand among them, or be what a stage begins with.
int64_t sumOfFills(const PlanningModel &model) {
  std::vector<int64_t> chain; // least forward of the layers up to each one of the chain
  int64_t sources = 0, previous = 0;
  std::vector<int64_t> sums(model.loads.size(), 0);
  for (int64_t l = 0; l < model.layers; ++l) {
    const std::vector<int> &into = model.edgesInto[l];
    if (model.isSource(l)) {
      ++sources;
      continue;
    }
    if (l > 0 && std::none_of(into.begin(), into.end(),
                              [&](int e) { return model.problem.edges[e].from == previous; }))
      return 0;
    previous = l;
    chain.push_back(*std::min_element(sums.begin(), sums.end()));
    for (size_t load = 0; load < sums.size(); ++load)
      sums[load] += model.loads[load].forward[l];
  }
  int64_t sum = 0, length = static_cast<int64_t>(chain.size());
  for (int64_t k = sources; k + sources < model.stages && k - sources < length; ++k)
    sum += chain[k - sources];
  return sum;
}

/// Longest way of one micro-batch through the layers and back.
int64_t longestRoundTrip(const PlanningModel &model) {
  int64_t most = 0;
  for (const LoadModel &load : model.loads) {
    // For each layer, the time to the end of its forward, and from the start of its backward on.
    std::vector<int64_t> there(model.layers, 0), back(model.layers, 0);
    for (int64_t l = 0; l < model.layers; ++l) {
      int64_t inputGrad = load.inputGradSum[l + 1] - load.inputGradSum[l];
      for (int e : model.edgesInto[l]) {
        const Edge &edge = model.problem.edges[e];
        there[l] = std::max(there[l], there[edge.from]);
        if (edge.gradBytes != 0)
          back[l] = std::max(back[l], back[edge.from]);
      }
      there[l] += load.forward[l];
      back[l] = std::max(back[l] + inputGrad, load.backward[l]);
      most = std::max(most, there[l] + back[l]);
    }
  }
  return most;
}

} // namespace

int64_t workBound(const PlanningModel &model, int64_t emptied) {
  int64_t stages = model.stages - emptied;
  if (stages < 1)
    return unreachable;
  std::vector<int64_t> work = workOfLayers(model);
  __int128 total = std::accumulate(work.begin(), work.end(), __int128{0});
  total += emptied > 0 ? 0 : sumOfFills(model);
  auto average = static_cast<int64_t>((total + stages - 1) / stages);
  return std::max({average, byPigeonholes(work, stages), longestRoundTrip(model)});
}

} // namespace omnibal::planner
