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

/// What the layers so far come to, as numbers in a row: recomputation [local chunk * loads + load];
/// then, with one load, bytes at each Holding of the stage, with several, saved bytes [local chunk
/// * loads + load] and after them split bytes; then workspace. A point beats another one that it
/// exceeds in no number.
struct StageChoices::Shape {
  size_t recompute, held; ///< how many
  size_t size() const { return recompute + held + 1; }
  size_t workspace() const { return recompute + held; }
};

/// Points, and the options of their layers. Numbers of all are close together: most of the time
/// goes into comparing a point with others.
struct StageChoices::Points {
  explicit Points(const Shape &shape) : width(shape.size()) {}
  size_t size() const { return options.size(); }
  const int64_t *operator[](size_t point) const { return numbers.data() + point * width; }
  void add(const int64_t *point, std::vector<int> chosen) {
    numbers.insert(numbers.end(), point, point + width);
    options.push_back(std::move(chosen));
  }

  size_t width;
  std::vector<int64_t> numbers;
  std::vector<std::vector<int>> options;
};

/// Points that no other one beats. What recomputes less mostly holds more, so few are left to
/// compare with where sums of bytes come first.
class StageChoices::Front {
public:
  Front(const Shape &shape, Points &points) : shape(shape), points(points) {}

  bool beats(const int64_t *point) const {
    const int64_t sum = kibibytesOf(point);
    for (const Row &row : rows) {
      if (row.kibibytes > sum)
        return false;
      const int64_t *own = points[row.point];
      if (std::equal(own, own + shape.size(), point, std::less_equal<>()))
        return true;
    }
    return false;
  }
  void add(const int64_t *point, std::vector<int> options) {
    const Row row{kibibytesOf(point), points.size()};
    points.add(point, std::move(options));
    auto isLess = [](const Row &a, const Row &b) { return a.kibibytes < b.kibibytes; };
    rows.insert(std::upper_bound(rows.begin(), rows.end(), row, isLess), row);
  }

private:
  struct Row {
    int64_t kibibytes;
    size_t point;
  };

  /// Of all its bytes, each number rounded down, so that the sum cannot overflow. What holds no
  /// more anywhere has no larger sum.
  int64_t kibibytesOf(const int64_t *point) const {
    int64_t sum = 0;
    for (size_t i = shape.recompute; i < shape.size(); ++i)
      sum += point[i] / 1024;
    return sum;
  }

  const Shape shape;
  Points &points;
  std::vector<Row> rows; ///< the fewest bytes first
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

/// Adds an option of one more layer.
void StageChoices::extend(int64_t stage, const Shape &shape, size_t chunk, int64_t layer,
                          size_t option, int64_t *point) const {
  const size_t loads = model.loads.size();
  for (size_t load = 0; load < loads; ++load)
    point[chunk * loads + load] += model.loads[load].remat[layer][option].recomputeNs;
  int64_t &workspace = point[shape.workspace()];
  workspace = std::max(workspace, model.loads[0].remat[layer][option].workspaceBytes);
  int64_t *held = point + shape.recompute;
  if (loads == 1) {
    const RematOption &only = model.loads[0].remat[layer][option];
    const std::vector<Holding> &holdings = order.holdings(stage);
    for (size_t h = 0; h < holdings.size(); ++h)
      held[h] +=
          holdings[h].saved[chunk] * only.savedBytes + holdings[h].split[chunk] * only.splitBytes;
    return;
  }
  for (size_t load = 0; load < loads; ++load) {
    const RematOption &each = model.loads[load].remat[layer][option];
    held[chunk * loads + load] += each.savedBytes;
    if (order.splits())
      held[shape.recompute + chunk * loads + load] += each.splitBytes;
  }
}

int64_t StageChoices::mostHeld(int64_t stage, const Shape &shape, const int64_t *point) const {
  const int64_t *saved = point + shape.recompute;
  if (model.loads.size() == 1)
    return shape.held == 0 ? 0 : std::max<int64_t>(0, *std::max_element(saved, saved + shape.held));
  const int64_t *split = saved + shape.recompute;
  int64_t most = 0, now = 0;
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

/// All points with all options of one more layer that need at most `room` bytes, without those that
/// others beat.
StageChoices::Points StageChoices::extended(int64_t stage, const Shape &shape, const Points &points,
                                            size_t chunk, int64_t layer, int64_t room) {
  const bool isOneLoad = model.loads.size() == 1;
  const size_t width = shape.size(), options = model.loads[0].remat[layer].size();
  const auto cost = static_cast<int64_t>(
      isOneLoad ? shape.held : (shape.held + order.lists().actions[stage].size()) / 2);
  struct Origin {
    size_t point, option;
  };
  std::vector<Origin> fitting;
  std::vector<int64_t> numbers(points.size() * options * width);
  auto at = [&](size_t number) { return numbers.data() + number * width; };
  for (size_t p = 0; p < points.size(); ++p)
    for (size_t o = 0; o < options; ++o) {
      control.spend(cost);
      int64_t *next = at(fitting.size());
      std::copy_n(points[p], width, next);
      extend(stage, shape, chunk, layer, o, next);
      if (mostHeld(stage, shape, next) + next[shape.workspace()] <= room)
        fitting.push_back({p, o});
    }
  std::vector<size_t> sorted(fitting.size());
  std::iota(sorted.begin(), sorted.end(), size_t{0});
  std::stable_sort(sorted.begin(), sorted.end(), [&](size_t a, size_t b) {
    return std::lexicographical_compare(at(a), at(a) + width, at(b), at(b) + width);
  });
  Points kept(shape);
  Front front(shape, kept);
  for (size_t number : sorted) {
    control.spend(static_cast<int64_t>(kept.size()) + 4);
    if (front.beats(at(number)))
      continue;
    std::vector<int> chosen = points.options[fitting[number].point];
    chosen.push_back(static_cast<int>(fitting[number].option));
    front.add(at(number), std::move(chosen));
  }
  return kept;
}

StageChoices::Answer StageChoices::find(int64_t stage, const std::vector<int64_t> &bounds) {
  const size_t chunks = bounds.size() / 2, loads = model.loads.size();
  const Shape shape{chunks * loads, loads == 1 ? order.holdings(stage).size()
                                               : chunks * loads * (1 + order.splits())};
  int64_t room = model.memoryOf(stage);
  for (size_t c = 0; c < chunks; ++c)
    room -= model.paramSum[bounds[2 * c + 1]] - model.paramSum[bounds[2 * c]];
  Answer answer;
  Points points(shape);
  points.add(std::vector<int64_t>(shape.size(), 0).data(), {});
  for (size_t c = 0; c < chunks; ++c)
    for (int64_t l = bounds[2 * c]; l < bounds[2 * c + 1]; ++l) {
      points = extended(stage, shape, points, c, l, room);
      size_t most = control.stoppedByTime() ? pointsAfterStop : mostPoints;
      if (points.size() > most) { // evenly over the range, ends included
        answer.complete = false;
        Points thinned(shape);
        for (size_t i = 0; i < most; ++i) {
          const size_t point = i * (points.size() - 1) / (most - 1);
          thinned.add(points[point], std::move(points.options[point]));
        }
        points = std::move(thinned);
      }
    }
  for (size_t p = 0; p < points.size(); ++p)
    answer.choices.push_back({std::vector<int64_t>(points[p], points[p] + shape.recompute),
                              std::move(points.options[p])});
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
