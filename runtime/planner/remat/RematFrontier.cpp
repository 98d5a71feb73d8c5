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

/// Whatever beats or equals a point is not behind it. An option added to all keeps the order.
bool isBefore(const Point &a, const Point &b) {
  return std::tie(a.savedBytes, a.splitBytes, a.recomputeNs, a.workspaceBytes) <
         std::tie(b.savedBytes, b.splitBytes, b.recomputeNs, b.workspaceBytes);
}

/// Sorts points that are runs in order already; `ends` is one past each run.
void mergeRuns(Points &points, std::vector<size_t> ends, Points &scratch) {
  auto at = [&](size_t place) { return points.begin() + static_cast<int64_t>(place); };
  while (ends.size() > 1) {
    std::vector<size_t> longer;
    scratch.clear();
    for (size_t run = 0; run < ends.size(); run += 2) {
      const size_t begin = run == 0 ? 0 : ends[run - 1];
      const size_t end = ends[std::min(run + 1, ends.size() - 1)];
      std::merge(at(begin), at(ends[run]), at(ends[run]), at(end), std::back_inserter(scratch),
                 isBefore);
      longer.push_back(end);
    }
    points.swap(scratch);
    ends = std::move(longer);
  }
}

/// Points that are alike in one number as (another number, least recomputation with at most that):
/// one grows while the other falls.
class Stairs {
  template <typename Steps> static auto firstAbove(Steps &steps, int64_t place) {
    return std::upper_bound(steps.begin(), steps.end(), std::make_pair(place, unreachable));
  }

public:
  explicit Stairs(int64_t alike) : alike(alike) {}

  bool beat(int64_t place, int64_t recomputeNs) const {
    auto after = firstAbove(steps, place);
    return after != steps.begin() && std::prev(after)->second <= recomputeNs;
  }
  /// Adds a point that the others do not beat.
  void add(int64_t place, int64_t recomputeNs) {
    auto after = firstAbove(steps, place), last = after;
    while (last != steps.end() && last->second >= recomputeNs)
      ++last;
    after = steps.erase(after, last);
    if (after != steps.begin() && std::prev(after)->first == place)
      std::prev(after)->second = recomputeNs;
    else
      steps.insert(after, {place, recomputeNs});
  }

  const int64_t alike;

private:
  std::vector<std::pair<int64_t, int64_t>> steps;
};

/// Drops from points in order what another one beats or equals in all numbers. Stairs are for one
/// workspace each, of which there are few as layers are alike; without split bytes one is enough.
void keepUndominated(Points &points, bool splits, SearchControl &control) {
  std::vector<Stairs> stairs;
  size_t kept = 0;
  for (const Point &p : points) {
    if (splits) // as if all were compared: the plans of a limit on work stay what they are
      control.spend(static_cast<int64_t>(kept) / 4 + 1);
    const int64_t alike = splits ? p.workspaceBytes : 0;
    const int64_t place = splits ? p.splitBytes : p.workspaceBytes;
    if (std::any_of(stairs.begin(), stairs.end(), [&](const Stairs &each) {
          return each.alike <= alike && each.beat(place, p.recomputeNs);
        }))
      continue;
    auto own = std::find_if(stairs.begin(), stairs.end(),
                            [&](const Stairs &each) { return each.alike == alike; });
    (own == stairs.end() ? stairs.emplace_back(alike) : *own).add(place, p.recomputeNs);
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
    const Room room = roomOf(chunk, begin, end);
    int64_t least = unreachable;
    for (const Point &p : points(begin, end))
      if (p.recomputeNs < least && room.holds(p))
        least = p.recomputeNs;
    if (least == unreachable)
      return {};
    return {{least}};
  }

  std::vector<int> options(int64_t chunk, int64_t begin, int64_t end,
                           const RematChoice &choice) override {
    const Room room = roomOf(chunk, begin, end);
    Point target;
    for (const Point &p : points(begin, end))
      if (p.recomputeNs == choice[0] && room.holds(p)) {
        target = p;
        break;
      }
    std::vector<int> numbers(end - begin);
    for (int64_t layer = end - 1; layer >= begin; --layer)
      numbers[layer - begin] = stepBack(begin, layer, target);
    return numbers;
  }

private:
  /// What a chunk's activations and workspace may take beside the parameters of layers.
  struct Room {
    const MemoryProfile *profile;
    int64_t bytes; ///< `unreachable` where there is no limit
    bool holds(const Point &p) const {
      return bytes == unreachable ||
             profile->held(p.savedBytes, p.splitBytes) + p.workspaceBytes <= bytes;
    }
  };
  Room roomOf(int64_t chunk, int64_t begin, int64_t end) const {
    const int64_t limit = limitOf(chunk), resident = model.paramSum[end] - model.paramSum[begin];
    return {&profiles[chunk], limit == unreachable ? limit : limit - resident};
  }

  /// The chunks that can hold layers [begin, ..), without those on which nothing fits that does not
  /// fit one of these.
  std::vector<int64_t> roomiestFrom(int64_t begin) const {
    auto [first, last] = chunksFrom(begin);
    auto isRoomier = [&](int64_t chunk, int64_t other) {
      return limitOf(chunk) >= limitOf(other) && profiles[other].covers(profiles[chunk]);
    };
    std::vector<int64_t> kept;
    for (int64_t chunk = last; chunk >= first; --chunk) {
      auto isCovered = [&](int64_t other) { return isRoomier(other, chunk); };
      if (std::any_of(kept.begin(), kept.end(), isCovered))
        continue;
      std::erase_if(kept, [&](int64_t other) { return isRoomier(chunk, other); });
      kept.push_back(chunk);
    }
    return kept;
  }

  /// With one layer more. What fits no stage is of no use with further layers either.
  Points extended(const Points &points, int64_t begin, int64_t layer) {
    std::vector<Room> rooms;
    for (int64_t chunk : roomiestFrom(begin))
      rooms.push_back(roomOf(chunk, begin, layer + 1));
    grown.clear();
    std::vector<size_t> ends;
    for (const RematOption &option : model.loads[0].remat[layer]) {
      for (const Point &p : points) {
        Point q{p.savedBytes + option.savedBytes, p.recomputeNs + option.recomputeNs,
                std::max(p.workspaceBytes, option.workspaceBytes),
                splits ? p.splitBytes + option.splitBytes : 0};
        if (std::any_of(rooms.begin(), rooms.end(),
                        [&](const Room &room) { return room.holds(q); })) {
          grown.push_back(q);
          control.spend(8);
        }
        if (control.stoppedByTime() && points.size() > pointsAfterStop) {
          Points some;
          for (size_t number : someOf(points.size()))
            some.push_back(points[number]);
          return extended(some, begin, layer);
        }
      }
      ends.push_back(grown.size());
    }
    mergeRuns(grown, std::move(ends), scratch);
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
  Points grown, scratch;                  ///< of extended()
};

} // namespace

std::unique_ptr<RematChoices> makeRematFrontier(const PlanningModel &model, SearchControl &control,
                                                const std::vector<int64_t> &chunkStage,
                                                const std::vector<std::vector<Action>> &actions) {
  return std::make_unique<Frontier>(model, control, chunkStage, actions);
}

} // namespace omnibal::planner
