//===- Bmp.cpp - OmniBal's balanced model partition ---------------------------------===//
//
// arXiv 2407.20761: a greedy split by forward time; candidates, each of its cuts moved by at most
// `radius`; ranked by the variance of the stages' forward times and by the activation bytes sent
// between stages; the best few timed, the fastest kept. How the two measures are merged is not
// published: both lexicographic orders and the sum of ranks, the best of each. Where candidates are
// too many to be listed, the best of both lexicographic orders are found exactly, as the K shortest
// paths from cut to cut, and ranks are those among them.
//
//===----------------------------------------------------------------------------------------===//
#include "runtime/planner/baselines/BaselinesInternal.h"
#include <algorithm>
#include <set>
#include <tuple>

namespace omnibal::planner {
namespace {

constexpr int64_t radius = 3;
constexpr size_t timedOfEachOrder = 15;
constexpr size_t mostListed = 50'000, mostPooled = 1'000;

/// Sum of squares of the stages' forward times: variance but for constants.
struct Measures {
  __int128 squares = 0;
  int64_t bytes = 0;

  std::pair<__int128, __int128> key(bool byVariance) const {
    return byVariance ? std::pair<__int128, __int128>(squares, bytes)
                      : std::pair<__int128, __int128>(bytes, squares);
  }
};

struct Candidate {
  Measures measures;
  Cuts cuts;
};

class Bmp {
public:
  explicit Bmp(BaselineTask &task)
      : task(task), model(task.model), forwardSum(model.layers + 1, 0), edgesFrom(model.layers) {
    for (int64_t l = 0; l < model.layers; ++l)
      for (int load : model.loadOf)
        forwardSum[l + 1] += model.loads[load].forward[l];
    for (int64_t l = 0; l < model.layers; ++l)
      forwardSum[l + 1] += forwardSum[l];
    for (size_t e = 0; e < model.problem.edges.size(); ++e)
      edgesFrom[model.problem.edges[e].from].push_back(e);
    for (int64_t sum = forwardSum.back(); sum >= int64_t{1} << 50; sum /= 2)
      ++shift;
  }

  Baseline run() {
    Baseline best{"bmp",
                  "cuts up to 3 from a greedy split, ranked by variance and bytes sent, " +
                      std::to_string(timedOfEachOrder) + " of each order timed",
                  {},
                  {}};
    for (const Cuts &cuts : shortList()) {
      Baseline next = task.timed("bmp", best.method, cuts);
      if (!best.plan && !next.plan)
        best.problem = next.problem;
      if (next.plan && (!best.plan || next.plan->stepNs < best.plan->stepNs))
        best = std::move(next);
      if (task.secondsLeft() <= 0)
        break;
    }
    return best;
  }

private:
  /// Each stage takes layers until it has its share of the forward time that is left.
  Cuts greedySplit() const {
    Cuts cuts = {0};
    for (int64_t s = 0; s + 1 < task.chunks; ++s) {
      int64_t left = task.chunks - s, begin = cuts.back(), end = begin + 1;
      int64_t share = (forwardSum.back() - forwardSum[begin]) / left;
      auto off = [&](int64_t e) { return std::abs(forwardSum[e] - forwardSum[begin] - share); };
      while (end < model.layers - (left - 1) && off(end + 1) < off(end))
        ++end;
      cuts.push_back(end);
    }
    cuts.push_back(model.layers);
    return cuts;
  }

  Measures measuresOf(int64_t begin, int64_t end) const {
    __int128 time = (forwardSum[end] - forwardSum[begin]) >> shift;
    Measures m{time * time, 0};
    for (int64_t l = begin; l < end; ++l)
      for (size_t e : edgesFrom[l])
        if (model.problem.edges[e].to >= end)
          for (int load : model.loadOf)
            m.bytes += model.loads[load].edgeBytes[e];
    return m;
  }

  /// Returns where cut `number` of the anchor may go.
  std::vector<int64_t> placesOf(const Cuts &anchor, int64_t number) const {
    std::vector<int64_t> places;
    if (number == 0 || number == task.chunks)
      return {anchor[number]};
    for (int64_t place = anchor[number] - radius; place <= anchor[number] + radius; ++place)
      if (place > 0 && place < model.layers)
        places.push_back(place);
    return places;
  }

  double countOf(const Cuts &anchor) const {
    std::vector<std::pair<int64_t, double>> before = {{0, 1}};
    for (int64_t number = 1; number <= task.chunks; ++number) {
      std::vector<std::pair<int64_t, double>> next;
      for (int64_t place : placesOf(anchor, number)) {
        next.push_back({place, 0});
        for (const auto &[from, ways] : before)
          next.back().second += from < place ? ways : 0;
      }
      before = std::move(next);
    }
    return before[0].second;
  }

  /// The first `most` candidates of one lexicographic order.
  std::vector<Candidate> best(const Cuts &anchor, bool byVariance, size_t most) const {
    struct Path {
      Measures measures;
      size_t place = 0, number = 0; ///< of the path that it continues
    };
    using Places = std::vector<std::vector<Path>>; ///< paths by place of a cut
    std::vector<Places> paths = {{{Path()}}};
    for (int64_t number = 1; number <= task.chunks; ++number) {
      std::vector<int64_t> before = placesOf(anchor, number - 1);
      Places next;
      for (int64_t place : placesOf(anchor, number)) {
        std::vector<Path> &list = next.emplace_back();
        for (size_t b = 0; b < before.size(); ++b) {
          if (before[b] >= place)
            continue;
          Measures stage = measuresOf(before[b], place);
          for (size_t k = 0; k < paths.back()[b].size(); ++k) {
            const Measures &so = paths.back()[b][k].measures;
            list.push_back({{so.squares + stage.squares, so.bytes + stage.bytes}, b, k});
          }
        }
        std::sort(list.begin(), list.end(), [&](const Path &x, const Path &y) {
          return std::tuple(x.measures.key(byVariance), x.place, x.number) <
                 std::tuple(y.measures.key(byVariance), y.place, y.number);
        });
        list.resize(std::min(list.size(), most));
      }
      paths.push_back(std::move(next));
    }
    std::vector<Candidate> found;
    for (const Path &last : paths.back()[0]) {
      Candidate candidate{last.measures, {model.layers}};
      Path path = last;
      for (int64_t number = task.chunks - 1; number >= 0; --number) {
        candidate.cuts.push_back(placesOf(anchor, number)[path.place]);
        path = paths[number][path.place][path.number];
      }
      std::reverse(candidate.cuts.begin(), candidate.cuts.end());
      found.push_back(std::move(candidate));
    }
    return found;
  }

  std::set<Cuts> shortList() const {
    Cuts anchor = greedySplit();
    double count = countOf(anchor);
    size_t most = count <= mostListed ? static_cast<size_t>(count) : mostPooled;
    std::vector<std::vector<Candidate>> orders = {best(anchor, true, most),
                                                  best(anchor, false, most)};
    // Ranks; a candidate that is in one list only comes after the other one's end.
    std::map<Cuts, size_t> rankSum;
    for (const auto &order : orders)
      for (const Candidate &candidate : order)
        rankSum[candidate.cuts] = 0;
    for (const auto &order : orders) {
      std::map<Cuts, size_t> rank;
      for (size_t i = 0; i < order.size(); ++i)
        rank[order[i].cuts] = i;
      for (auto &[cuts, sum] : rankSum) {
        auto found = rank.find(cuts);
        sum += found == rank.end() ? order.size() : found->second;
      }
    }
    std::vector<std::pair<size_t, Cuts>> bySum;
    for (const auto &[cuts, sum] : rankSum)
      bySum.push_back({sum, cuts});
    std::sort(bySum.begin(), bySum.end());
    std::set<Cuts> list;
    for (size_t i = 0; i < std::min(timedOfEachOrder, bySum.size()); ++i)
      list.insert(bySum[i].second);
    for (const auto &order : orders)
      for (size_t i = 0; i < std::min(timedOfEachOrder, order.size()); ++i)
        list.insert(order[i].cuts);
    return list;
  }

  BaselineTask &task;
  const PlanningModel &model;
  std::vector<int64_t> forwardSum; ///< over all micro-batches, prefix sums
  std::vector<std::vector<size_t>> edgesFrom;
  int shift = 0; ///< so that squares fit
};

} // namespace

Baseline bmp(BaselineTask &task) { return Bmp(task).run(); }

} // namespace omnibal::planner
