//===- RematFrontier.cpp - Memory against time of a run of layers, one load -----------------===//
#include "runtime/planner/remat/RematFrontier.h"
#include <algorithm>
#include <tuple>

namespace omnibal::planner {
namespace {

/// Sums over consecutive layers of one option each; workspace: the largest.
struct Point {
  int64_t savedBytes = 0, recomputeNs = 0, workspaceBytes = 0, splitBytes = 0;
};
using Points = std::vector<Point>;

/// Drops what another point beats or equals in saved bytes, recomputation and workspace; the rest
/// is sorted by saved bytes. Split bytes, where they count, are equal in all points.
void keepUndominatedOfOneSplit(std::vector<Point> &points) {
  std::sort(points.begin(), points.end(), [](const Point &a, const Point &b) {
    return std::tie(a.savedBytes, a.recomputeNs, a.workspaceBytes) <
           std::tie(b.savedBytes, b.recomputeNs, b.workspaceBytes);
  });
  // Points so far as (workspace, least recomputation): one grows while the other falls.
  std::vector<std::pair<int64_t, int64_t>> stairs;
  size_t kept = 0;
  for (const Point &p : points) {
    auto after = std::upper_bound(stairs.begin(), stairs.end(),
                                  std::make_pair(p.workspaceBytes, unreachable));
    if (after != stairs.begin() && std::prev(after)->second <= p.recomputeNs)
      continue;
    auto last = after;
    while (last != stairs.end() && last->second >= p.recomputeNs)
      ++last;
    after = stairs.erase(after, last);
    if (after != stairs.begin() && std::prev(after)->first == p.workspaceBytes)
      std::prev(after)->second = p.recomputeNs;
    else
      stairs.insert(after, {p.workspaceBytes, p.recomputeNs});
    points[kept++] = p;
  }
  points.resize(kept);
}

bool beats(const Point &a, const Point &b) {
  return a.savedBytes <= b.savedBytes && a.recomputeNs <= b.recomputeNs &&
         a.workspaceBytes <= b.workspaceBytes && a.splitBytes <= b.splitBytes;
}

/// Does the same in all four numbers, one by one.
void keepUndominated(std::vector<Point> &points, bool splits, SearchControl &control) {
  if (!splits)
    return keepUndominatedOfOneSplit(points);
  std::sort(points.begin(), points.end(), [](const Point &a, const Point &b) {
    return std::tie(a.savedBytes, a.splitBytes, a.recomputeNs, a.workspaceBytes) <
           std::tie(b.savedBytes, b.splitBytes, b.recomputeNs, b.workspaceBytes);
  });
  size_t kept = 0;
  for (const Point &p : points) {
    auto end = points.begin() + static_cast<int64_t>(kept);
    control.spend(static_cast<int64_t>(kept) / 4 + 1);
    if (std::none_of(points.begin(), end, [&](const Point &q) { return beats(q, p); }))
      points[kept++] = p;
  }
  points.resize(kept);
}

/// A multiple-choice knapsack, solved for all stages and limits at once: the choices of layers
/// [begin, end) that no other one beats in saved bytes, recomputation and workspace, grown layer by
/// layer as they are asked for.
class Frontier final : public RematChoices {
public:
  Frontier(const PlanningModel &m, SearchControl &control, const std::vector<int64_t> &stages,
           const std::vector<std::vector<Action>> &actions)
      : RematChoices(m, stages, actions), control(control), known(m.layers) {}

  std::vector<RematChoice> find(int64_t chunk, int64_t begin, int64_t end) override {
    int64_t least = unreachable;
    for (const Point &p : points(begin, end))
      if (p.recomputeNs < least && fits(chunk, begin, end, p))
        least = p.recomputeNs;
    if (least == unreachable)
      return {};
    return {{least}};
  }

  std::vector<int> options(int64_t chunk, int64_t begin, int64_t end,
                           const RematChoice &choice) override {
    Point target;
    for (const Point &p : points(begin, end))
      if (p.recomputeNs == choice[0] && fits(chunk, begin, end, p)) {
        target = p;
        break;
      }
    std::vector<int> numbers(end - begin);
    for (int64_t layer = end - 1; layer >= begin; --layer)
      numbers[layer - begin] = stepBack(begin, layer, target);
    return numbers;
  }

private:
  bool fits(int64_t chunk, int64_t begin, int64_t end, const Point &p) const {
    int64_t limit = limitOf(chunk);
    if (limit == unreachable)
      return true;
    __int128 held = profiles[chunk].held(p.savedBytes, p.splitBytes);
    return held + (model.paramSum[end] - model.paramSum[begin]) + p.workspaceBytes <= limit;
  }

  /// With one layer more. What fits no stage is of no use with further layers either.
  Points extended(const Points &points, int64_t begin, int64_t layer) {
    auto [first, last] = chunksFrom(begin);
    Points grown;
    for (const RematOption &option : model.loads[0].remat[layer])
      for (const Point &p : points) {
        Point q{p.savedBytes + option.savedBytes, p.recomputeNs + option.recomputeNs,
                std::max(p.workspaceBytes, option.workspaceBytes),
                splits ? p.splitBytes + option.splitBytes : 0};
        for (int64_t chunk = last; chunk >= first; --chunk)
          if (fits(chunk, begin, layer + 1, q)) {
            grown.push_back(q);
            control.spend(8);
            break;
          }
        if (control.stoppedByTime() && points.size() > pointsAfterStop) {
          Points some;
          for (size_t number : someOf(points.size()))
            some.push_back(points[number]);
          return extended(some, begin, layer);
        }
      }
    keepUndominated(grown, splits, control);
    return grown;
  }

  const Points &points(int64_t begin, int64_t end) {
    std::vector<Points> &row = known[begin];
    if (row.empty())
      row.push_back({Point{}});
    while (static_cast<int64_t>(row.size()) <= end - begin)
      row.push_back(extended(row.back(), begin, begin + static_cast<int64_t>(row.size()) - 1));
    return row[end - begin];
  }

  /// The option of `layer` in a choice of layers [begin, layer] that sums to `target`, which
  /// becomes the sum of the layers before it.
  int stepBack(int64_t begin, int64_t layer, Point &target) {
    const std::vector<RematOption> &list = model.loads[0].remat[layer];
    for (size_t o = 0; o < list.size(); ++o)
      for (const Point &p : points(begin, layer))
        if (p.savedBytes + list[o].savedBytes == target.savedBytes &&
            p.recomputeNs + list[o].recomputeNs == target.recomputeNs &&
            std::max(p.workspaceBytes, list[o].workspaceBytes) <= target.workspaceBytes &&
            (!splits || p.splitBytes + list[o].splitBytes == target.splitBytes)) {
          target = p;
          return static_cast<int>(o);
        }
    return 0;
  }

  SearchControl &control;
  std::vector<std::vector<Points>> known; ///< by begin and length
};

} // namespace

std::unique_ptr<RematChoices> makeRematFrontier(const PlanningModel &model, SearchControl &control,
                                                const std::vector<int64_t> &chunkStage,
                                                const std::vector<std::vector<Action>> &actions) {
  return std::make_unique<Frontier>(model, control, chunkStage, actions);
}

} // namespace omnibal::planner
