#include "passes/planner/RankChoices.h"
#include <algorithm>
#include <numeric>

namespace omnibal::planner {
namespace {

/// Choices of one rank that are followed at once. With few unlike options none is ever left out.
constexpr size_t mostPoints = 600;

bool noneAbove(const std::vector<int64_t> &a, const std::vector<int64_t> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), std::less_equal<>());
}

int64_t sumOf(const std::vector<int64_t> &values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

} // namespace

/// Options of the layers so far.
struct RankChoices::Point {
  std::vector<int64_t> recompute; ///< [local chunk * loads + load]
  std::vector<int64_t> held;      ///< bytes at each Holding of the rank
  int64_t workspace = 0;
  std::vector<int> options;

  bool beats(const Point &other) const {
    return workspace <= other.workspace && noneAbove(recompute, other.recompute) &&
           noneAbove(held, other.held);
  }
};

const RankChoices::Answer &RankChoices::of(int64_t rank, const std::vector<int64_t> &bounds) {
  std::vector<int64_t> key = {rank};
  key.insert(key.end(), bounds.begin(), bounds.end());
  auto [it, fresh] = known.try_emplace(std::move(key));
  if (fresh)
    it->second = model.memoryOf(rank) == unreachable ? cheapest(bounds) : find(rank, bounds);
  return it->second;
}

/// Without a limit each layer recomputes least.
RankChoices::Answer RankChoices::cheapest(const std::vector<int64_t> &bounds) const {
  size_t loads = model.loads.size();
  RankChoice choice;
  choice.recompute.assign(bounds.size() / 2 * loads, 0);
  for (size_t chunk = 0; chunk < bounds.size() / 2; ++chunk)
    for (int64_t l = bounds[2 * chunk]; l < bounds[2 * chunk + 1]; ++l) {
      const std::vector<RematOption> &list =
          model.problem.varyRemat ? model.problem.layers[l].remat : model.loads[0].remat[l];
      auto least = std::min_element(list.begin(), list.end(), [](const auto &a, const auto &b) {
        return a.recomputeNs < b.recomputeNs;
      });
      choice.options.push_back(static_cast<int>(least - list.begin()));
      for (size_t load = 0; load < loads; ++load)
        choice.recompute[chunk * loads + load] +=
            model.loads[load].remat[l][choice.options.back()].recomputeNs;
    }
  return {{std::move(choice)}, true};
}

std::vector<RankChoices::Point> RankChoices::extended(const std::vector<Point> &points,
                                                      size_t chunk, int64_t layer) const {
  size_t loads = model.loads.size();
  std::vector<Point> longer;
  for (const Point &point : points)
    for (size_t o = 0; o < model.loads[0].remat[layer].size(); ++o) {
      Point &q = longer.emplace_back(point);
      for (size_t load = 0; load < loads; ++load)
        q.recompute[chunk * loads + load] += model.loads[load].remat[layer][o].recomputeNs;
      q.workspace = std::max(q.workspace, model.loads[0].remat[layer][o].workspaceBytes);
      q.options.push_back(static_cast<int>(o));
    }
  return longer;
}

bool RankChoices::fits(int64_t rank, int64_t params, const Point &point) const {
  int64_t most = point.held.empty() ? 0 : *std::max_element(point.held.begin(), point.held.end());
  return most + params + point.workspace <= model.memoryOf(rank);
}

RankChoices::Answer RankChoices::find(int64_t rank, const std::vector<int64_t> &bounds) {
  const std::vector<Holding> &holdings = order.holdings(rank);
  size_t chunks = bounds.size() / 2, loads = model.loads.size();
  int64_t params = 0;
  for (size_t c = 0; c < chunks; ++c)
    params += model.paramSum[bounds[2 * c + 1]] - model.paramSum[bounds[2 * c]];
  Answer answer;
  std::vector<Point> points(1);
  points[0].recompute.assign(chunks * loads, 0);
  points[0].held.assign(holdings.size(), 0);
  for (size_t c = 0; c < chunks; ++c)
    for (int64_t l = bounds[2 * c]; l < bounds[2 * c + 1]; ++l) {
      std::vector<Point> longer = extended(points, c, l), kept;
      for (Point &q : longer) {
        for (size_t h = 0; h < holdings.size(); ++h)
          for (size_t load = 0; load < loads; ++load) {
            const RematOption &option = model.loads[load].remat[l][q.options.back()];
            q.held[h] += holdings[h].saved[c * loads + load] * option.savedBytes +
                         holdings[h].split[c * loads + load] * option.splitBytes;
          }
        if (fits(rank, params, q))
          kept.push_back(std::move(q));
      }
      std::stable_sort(kept.begin(), kept.end(), [](const Point &a, const Point &b) {
        return std::tie(a.recompute, a.held, a.workspace) <
               std::tie(b.recompute, b.held, b.workspace);
      });
      points.clear();
      for (Point &q : kept) {
        control.spend(static_cast<int64_t>(points.size()) + 4);
        if (std::none_of(points.begin(), points.end(),
                         [&](const Point &other) { return other.beats(q); }))
          points.push_back(std::move(q));
      }
      if (points.size() > mostPoints) { // evenly over the range, ends included
        answer.complete = false;
        std::vector<Point> thinned;
        for (size_t i = 0; i < mostPoints; ++i)
          thinned.push_back(std::move(points[i * (points.size() - 1) / (mostPoints - 1)]));
        points = std::move(thinned);
      }
    }
  for (Point &point : points)
    answer.choices.push_back({std::move(point.recompute), std::move(point.options)});
  std::vector<RankChoice> &list = answer.choices;
  std::stable_sort(list.begin(), list.end(), [](const RankChoice &a, const RankChoice &b) {
    return sumOf(a.recompute) < sumOf(b.recompute);
  });
  std::vector<RankChoice> kept;
  for (RankChoice &choice : list)
    if (std::none_of(kept.begin(), kept.end(), [&](const RankChoice &other) {
          return noneAbove(other.recompute, choice.recompute);
        }))
      kept.push_back(std::move(choice));
  list = std::move(kept);
  return answer;
}

} // namespace omnibal::planner
