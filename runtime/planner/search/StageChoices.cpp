#include "runtime/planner/search/StageChoices.h"
#include "runtime/planner/remat/RematFrontier.h"
#include <algorithm>
#include <numeric>

namespace omnibal::planner {
namespace {

/// Choices of one stage that are followed at once. With few unlike options none is ever left out.
constexpr size_t mostPoints = 600;

int64_t sumOf(const std::vector<int64_t> &values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

} // namespace

/// Options of the layers so far.
struct StageChoices::Point {
  std::vector<int64_t> recompute; ///< [local chunk * loads + load]
  /// One load: bytes at each Holding of the stage. Several: saved bytes [local chunk * loads +
  /// load], then split bytes.
  std::vector<int64_t> held;
  int64_t workspace = 0;
  std::vector<int> options;

  bool beats(const Point &other) const {
    return workspace <= other.workspace && noneAbove(recompute, other.recompute) &&
           noneAbove(held, other.held);
  }
};

const StageChoices::Answer &StageChoices::of(int64_t stage, const std::vector<int64_t> &bounds) {
  std::vector<int64_t> key = {stage};
  key.insert(key.end(), bounds.begin(), bounds.end());
  auto [it, fresh] = known.try_emplace(std::move(key));
  if (fresh)
    it->second = model.memoryOf(stage) == unreachable ? cheapest(bounds) : find(stage, bounds);
  return it->second;
}

/// Without a limit each layer recomputes least.
StageChoices::Answer StageChoices::cheapest(const std::vector<int64_t> &bounds) const {
  size_t loads = model.loads.size();
  StageChoice choice;
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

std::vector<StageChoices::Point> StageChoices::extended(const std::vector<Point> &points,
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

/// Adds the bytes of the layer with the point's last option.
void StageChoices::addBytes(int64_t stage, size_t chunk, int64_t layer, Point &point) const {
  size_t loads = model.loads.size();
  if (loads == 1) {
    const RematOption &option = model.loads[0].remat[layer][point.options.back()];
    const std::vector<Holding> &holdings = order.holdings(stage);
    for (size_t h = 0; h < holdings.size(); ++h)
      point.held[h] += holdings[h].saved[chunk] * option.savedBytes +
                       holdings[h].split[chunk] * option.splitBytes;
    return;
  }
  for (size_t load = 0; load < loads; ++load) {
    const RematOption &option = model.loads[load].remat[layer][point.options.back()];
    point.held[chunk * loads + load] += option.savedBytes;
    if (order.splits())
      point.held[point.recompute.size() + chunk * loads + load] += option.splitBytes;
  }
}

int64_t StageChoices::mostHeld(int64_t stage, const Point &point) const {
  int64_t most = 0, now = 0;
  if (model.loads.size() == 1) {
    for (int64_t bytes : point.held)
      most = std::max(most, bytes);
    return most;
  }
  const int64_t *saved = point.held.data(), *split = saved + point.recompute.size();
  for (const Action &a : order.lists().actions[stage]) {
    size_t at = order.numberOnStage(a.chunk) * model.loads.size() + model.loadOf[a.microbatch];
    if (a.kind == ActionKind::Forward)
      now += saved[at];
    else if (a.kind == ActionKind::InputGrad)
      now += split[at] - saved[at];
    most = std::max(most, now);
    if (a.kind == ActionKind::Backward)
      now -= saved[at];
    else if (a.kind == ActionKind::WeightGrad)
      now -= split[at];
  }
  return most;
}

StageChoices::Answer StageChoices::find(int64_t stage, const std::vector<int64_t> &bounds) {
  size_t chunks = bounds.size() / 2, loads = model.loads.size();
  size_t numbers =
      loads == 1 ? order.holdings(stage).size() : chunks * loads * (1 + order.splits());
  int64_t params = 0,
          cost = static_cast<int64_t>(numbers + order.lists().actions[stage].size()) / 2;
  for (size_t c = 0; c < chunks; ++c)
    params += model.paramSum[bounds[2 * c + 1]] - model.paramSum[bounds[2 * c]];
  Answer answer;
  std::vector<Point> points(1);
  points[0].recompute.assign(chunks * loads, 0);
  points[0].held.assign(numbers, 0);
  for (size_t c = 0; c < chunks; ++c)
    for (int64_t l = bounds[2 * c]; l < bounds[2 * c + 1]; ++l) {
      std::vector<Point> longer = extended(points, c, l), kept;
      for (Point &q : longer) {
        control.spend(loads == 1 ? static_cast<int64_t>(numbers) : cost);
        addBytes(stage, c, l, q);
        if (mostHeld(stage, q) + params + q.workspace <= model.memoryOf(stage))
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
      size_t most = control.stoppedByTime() ? pointsAfterStop : mostPoints;
      if (points.size() > most) { // evenly over the range, ends included
        answer.complete = false;
        std::vector<Point> thinned;
        for (size_t i = 0; i < most; ++i)
          thinned.push_back(std::move(points[i * (points.size() - 1) / (most - 1)]));
        points = std::move(thinned);
      }
    }
  for (Point &point : points)
    answer.choices.push_back({std::move(point.recompute), std::move(point.options)});
  std::vector<StageChoice> &list = answer.choices;
  std::stable_sort(list.begin(), list.end(), [](const StageChoice &a, const StageChoice &b) {
    return sumOf(a.recompute) < sumOf(b.recompute);
  });
  std::vector<StageChoice> kept;
  for (StageChoice &choice : list)
    if (std::none_of(kept.begin(), kept.end(), [&](const StageChoice &other) {
          return noneAbove(other.recompute, choice.recompute);
        }))
      kept.push_back(std::move(choice));
  list = std::move(kept);
  return answer;
}

} // namespace omnibal::planner
