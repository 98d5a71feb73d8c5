//===- LoadFrontier.cpp - Memory against time of a run of layers, several loads -------------===//
#include "runtime/planner/remat/RematFrontier.h"
#include <algorithm>
#include <numeric>

namespace omnibal::planner {
namespace {

/// Sums over consecutive layers of one option each. Micro-batches of unlike loads trade
/// recomputation of unlike layers differently, so each load counts by itself.
struct LoadPoint {
  std::vector<int64_t> saved, split, recompute; ///< by load; split only where it counts
  int64_t workspace = 0;
  int option = 0;     ///< of the last layer
  int32_t before = 0; ///< the point that it continues, in the list of one layer less
};
using LoadPoints = std::vector<LoadPoint>;

bool beats(const LoadPoint &a, const LoadPoint &b) {
  return a.workspace <= b.workspace && noneAbove(a.recompute, b.recompute) &&
         noneAbove(a.saved, b.saved) && noneAbove(a.split, b.split);
}

class LoadFrontier final : public RematChoices {
public:
  LoadFrontier(const PlanningModel &m, SearchControl &control, const std::vector<int64_t> &stages,
               const std::vector<std::vector<Action>> &actions)
      : RematChoices(m, stages, actions), control(control), known(m.layers) {}

  std::vector<RematChoice> find(int64_t chunk, int64_t begin, int64_t end) override {
    std::vector<RematChoice> fitting;
    for (const LoadPoint &p : points(begin, end))
      if (fits(chunk, begin, end, p))
        fitting.push_back(p.recompute);
    std::sort(fitting.begin(), fitting.end());
    fitting.erase(std::unique(fitting.begin(), fitting.end()), fitting.end());
    std::vector<RematChoice> kept;
    for (RematChoice &choice : fitting) {
      control.spend(static_cast<int64_t>(kept.size()));
      if (control.stoppedByTime() && !kept.empty())
        break;
      bool beaten = std::any_of(kept.begin(), kept.end(),
                                [&](const RematChoice &other) { return noneAbove(other, choice); });
      if (!beaten)
        kept.push_back(std::move(choice));
    }
    return kept;
  }

  std::vector<int> options(int64_t chunk, int64_t begin, int64_t end,
                           const RematChoice &choice) override {
    const LoadPoints &last = points(begin, end);
    auto found = std::find_if(last.begin(), last.end(), [&](const LoadPoint &p) {
      return p.recompute == choice && fits(chunk, begin, end, p);
    });
    std::vector<int> numbers(end - begin);
    const LoadPoint *point = &*found;
    for (int64_t layer = end - 1; layer >= begin; --layer) {
      numbers[layer - begin] = point->option;
      point = &known[begin][layer - begin][point->before];
    }
    return numbers;
  }

private:
  bool fits(int64_t chunk, int64_t begin, int64_t end, const LoadPoint &p) const {
    int64_t limit = limitOf(chunk);
    return limit == unreachable || profiles[chunk].held(p.saved, p.split) + p.workspace +
                                           model.paramSum[end] - model.paramSum[begin] <=
                                       limit;
  }

  LoadPoints extended(const LoadPoints &points, int64_t begin, int64_t layer) {
    std::vector<size_t> numbers(points.size());
    std::iota(numbers.begin(), numbers.end(), size_t{0});
    LoadPoints grown;
    if (!control.stoppedByTime() || points.size() <= pointsAfterStop)
      grown = extended(points, numbers, begin, layer);
    if (control.stoppedByTime() && points.size() > pointsAfterStop)
      grown = extended(points, someOf(points.size()), begin, layer);
    return undominated(std::move(grown));
  }

  /// Each of these points with each option of one layer more; a few suffice once time is up.
  LoadPoints extended(const LoadPoints &points, const std::vector<size_t> &numbers, int64_t begin,
                      int64_t layer) {
    auto [first, last] = chunksFrom(begin);
    size_t loads = model.loads.size();
    LoadPoints grown;
    for (size_t o = 0; o < model.loads[0].remat[layer].size(); ++o)
      for (size_t at : numbers) {
        control.spend(static_cast<int64_t>(loads));
        if (control.stoppedByTime() && numbers.size() > pointsAfterStop)
          return {};
        LoadPoint q = points[at];
        for (size_t load = 0; load < loads; ++load) {
          q.saved[load] += model.loads[load].remat[layer][o].savedBytes;
          if (splits)
            q.split[load] += model.loads[load].remat[layer][o].splitBytes;
          q.recompute[load] += model.loads[load].remat[layer][o].recomputeNs;
        }
        q.workspace = std::max(q.workspace, model.loads[0].remat[layer][o].workspaceBytes);
        q.option = static_cast<int>(o);
        q.before = static_cast<int32_t>(at);
        for (int64_t chunk = last; chunk >= first; --chunk)
          if (fits(chunk, begin, layer + 1, q)) {
            grown.push_back(std::move(q));
            break;
          }
      }
    return grown;
  }

  LoadPoints undominated(LoadPoints grown) {
    // Whatever beats a point comes before it.
    std::stable_sort(grown.begin(), grown.end(), [](const LoadPoint &a, const LoadPoint &b) {
      return std::tie(a.saved, a.split, a.recompute, a.workspace) <
             std::tie(b.saved, b.split, b.recompute, b.workspace);
    });
    LoadPoints kept;
    for (LoadPoint &p : grown) {
      control.spend(static_cast<int64_t>(kept.size()) + 1);
      if (control.stoppedByTime() && kept.size() > pointsAfterStop)
        break;
      bool beaten =
          std::any_of(kept.begin(), kept.end(), [&](const LoadPoint &q) { return beats(q, p); });
      if (!beaten)
        kept.push_back(std::move(p));
    }
    return kept;
  }

  const LoadPoints &points(int64_t begin, int64_t end) {
    std::vector<LoadPoints> &row = known[begin];
    if (row.empty()) {
      LoadPoint none;
      none.saved.resize(model.loads.size());
      none.split.resize(splits ? model.loads.size() : 0);
      none.recompute.resize(model.loads.size());
      row.push_back({none});
    }
    while (static_cast<int64_t>(row.size()) <= end - begin)
      row.push_back(extended(row.back(), begin, begin + static_cast<int64_t>(row.size()) - 1));
    return row[end - begin];
  }

  SearchControl &control;
  std::vector<std::vector<LoadPoints>> known; ///< by begin and length
};

} // namespace

std::unique_ptr<RematChoices> makeLoadFrontier(const PlanningModel &model, SearchControl &control,
                                               const std::vector<int64_t> &chunkStage,
                                               const std::vector<std::vector<Action>> &actions) {
  return std::make_unique<LoadFrontier>(model, control, chunkStage, actions);
}

} // namespace omnibal::planner
