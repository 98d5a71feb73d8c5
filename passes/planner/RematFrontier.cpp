//===- RematFrontier.cpp - Memory against time of a run of layers, one load -----------------===//
#include "passes/planner/RematFrontier.h"
#include <algorithm>
#include <tuple>

namespace omnibal::planner {
namespace {

/// Sums over consecutive layers of one option each; workspace: the largest.
struct Point {
  int64_t savedBytes = 0, recomputeNs = 0, workspaceBytes = 0;
};
using Points = std::vector<Point>;

/// Drops what another point beats or equals in all three; the rest is sorted by saved bytes.
void keepUndominated(std::vector<Point> &points) {
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

/// A multiple-choice knapsack, solved for all ranks and limits at once: the choices of layers
/// [begin, end) that no other one beats in saved bytes, recomputation and workspace, grown layer by
/// layer as they are asked for.
class Frontier final : public RematChoices {
public:
  Frontier(const PlanningModel &m, SearchControl &control)
      : RematChoices(m), control(control), known(m.layers) {}

  std::vector<RematChoice> find(int64_t rank, int64_t begin, int64_t end) override {
    int64_t least = unreachable;
    for (const Point &p : points(begin, end))
      if (p.recomputeNs < least && fits(rank, begin, end, p))
        least = p.recomputeNs;
    if (least == unreachable)
      return {};
    return {{least}};
  }

  std::vector<int> options(int64_t rank, int64_t begin, int64_t end,
                           const RematChoice &choice) override {
    Point target;
    for (const Point &p : points(begin, end))
      if (p.recomputeNs == choice[0] && fits(rank, begin, end, p)) {
        target = p;
        break;
      }
    std::vector<int> numbers(end - begin);
    for (int64_t layer = end - 1; layer >= begin; --layer)
      numbers[layer - begin] = stepBack(begin, layer, target);
    return numbers;
  }

private:
  bool fits(int64_t rank, int64_t begin, int64_t end, const Point &p) const {
    int64_t limit = model.memoryOf(rank);
    if (limit == unreachable)
      return true;
    __int128 held = static_cast<__int128>(p.savedBytes) * model.inFlight(rank);
    return held + (model.paramSum[end] - model.paramSum[begin]) + p.workspaceBytes <= limit;
  }

  /// With one layer more. What fits no rank is of no use with further layers either.
  Points extended(const Points &points, int64_t begin, int64_t layer) {
    auto [first, last] = ranksFrom(begin);
    Points grown;
    for (const RematOption &option : model.loads[0].remat[layer])
      for (const Point &p : points) {
        Point q{p.savedBytes + option.savedBytes, p.recomputeNs + option.recomputeNs,
                std::max(p.workspaceBytes, option.workspaceBytes)};
        for (int64_t rank = last; rank >= first; --rank)
          if (fits(rank, begin, layer + 1, q)) {
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
    keepUndominated(grown);
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
            std::max(p.workspaceBytes, list[o].workspaceBytes) <= target.workspaceBytes) {
          target = p;
          return static_cast<int>(o);
        }
    return 0;
  }

  SearchControl &control;
  std::vector<std::vector<Points>> known; ///< by begin and length
};

} // namespace

std::unique_ptr<RematChoices> makeRematFrontier(const PlanningModel &model,
                                                SearchControl &control) {
  return std::make_unique<Frontier>(model, control);
}

} // namespace omnibal::planner
