#include "passes/planner/Baselines.h"
#include "passes/planner/Partition.h"
#include "passes/planner/RematChoices.h"
#include "passes/planner/Search.h"
#include "passes/planner/Simulator.h"
#include <algorithm>
#include <map>
#include <set>

namespace omnibal::planner {
namespace {

using Cuts = std::vector<int64_t>;

/// The plan with these cuts, and these options or the least recomputation that fits.
Baseline timed(const Problem &problem, const char *name, const char *method, const Cuts &cuts,
               std::vector<std::string> remat = {}) {
  Baseline result{name, method, {}, {}};
  Plan plan;
  plan.cuts = cuts;
  plan.remat = std::move(remat);
  result.problem = completePlan(problem, plan);
  if (!result.problem.empty())
    return result;
  Timeline timeline = simulate(problem, plan);
  result.problem = timeline.error;
  for (size_t r = 0; r < timeline.ranks.size(); ++r)
    if (const RankFigures &rank = timeline.ranks[r];
        !problem.cluster.memoryBytes.empty() && rank.peakBytes > rank.limitBytes)
      result.problem = "rank " + std::to_string(r) + " needs " +
                       std::to_string(rank.peakBytes - rank.limitBytes) +
                       " bytes more than its limit";
  if (!result.problem.empty())
    return result;
  plan.stepNs = timeline.stepNs;
  plan.ranks = timeline.ranks;
  result.plan = std::move(plan);
  return result;
}

/// Layers [begin, end) in `stages` parts whose counts differ by at most one, the larger ones first.
void cutEvenly(int64_t begin, int64_t end, int64_t stages, Cuts &cuts) {
  int64_t count = end - begin;
  for (int64_t s = 1; s <= stages; ++s)
    cuts.push_back(begin + s * (count / stages) + std::min(s, count % stages));
}

Baseline visionFirst(const Problem &problem) {
  constexpr const char *name = "vision-first";
  constexpr const char *method = "everything before the language model on the first stage";
  auto layers = static_cast<int64_t>(problem.layers.size());
  int64_t front = 0;
  while (front < layers &&
         (problem.layers[front].kind == "vision" || problem.layers[front].kind == "projector"))
    ++front;
  if (front == 0 || layers - front < problem.cluster.stages - 1 || problem.cluster.stages < 2)
    return {name, method, {}, "needs vision layers in front, two stages and enough layers behind"};
  Cuts cuts = {0, front};
  cutEvenly(front, layers, problem.cluster.stages - 1, cuts);
  return timed(problem, name, method, cuts);
}

/// Balanced model partition.
class Bmp {
public:
  explicit Bmp(const PlanningModel &model) : model(model) {}

  Baseline run() {
    Cuts anchor = greedySplit();
    enumerate(anchor);
    Baseline best{"bmp", "cuts near an equal split, ranked by variance and bytes sent", {}, {}};
    for (const Cuts &cuts : shortList()) {
      Baseline next = timed(model.problem, "bmp", best.method.c_str(), cuts);
      if (!best.plan && !next.plan)
        best.problem = next.problem;
      if (next.plan && (!best.plan || next.plan->stepNs < best.plan->stepNs))
        best = std::move(next);
    }
    return best;
  }

private:
  static constexpr int64_t radius = 3;
  static constexpr size_t timedOfEachOrder = 15;
  static constexpr size_t mostCandidates = 50'000;

  struct Candidate {
    Cuts cuts;
    double variance = 0;
    int64_t bytes = 0;
  };

  /// Each stage takes layers until it has its share of the forward time that is left.
  Cuts greedySplit() const {
    const std::vector<int64_t> &sum = model.loads[0].forwardSum;
    Cuts cuts = {0};
    for (int64_t s = 0; s + 1 < model.stages; ++s) {
      int64_t left = model.stages - s, begin = cuts.back(), end = begin + 1;
      int64_t share = (sum.back() - sum[begin]) / left;
      while (end < model.layers - (left - 1) &&
             std::abs(sum[end + 1] - sum[begin] - share) < std::abs(sum[end] - sum[begin] - share))
        ++end;
      cuts.push_back(end);
    }
    cuts.push_back(model.layers);
    return cuts;
  }

  /// All cuts within a radius of the anchor: the largest up to 3 for which they are not too many,
  /// and within 1 at worst, cut off in the order of the stages.
  void enumerate(const Cuts &anchor) {
    int64_t r = radius;
    auto count = [&] {
      double all = 1;
      for (int64_t s = 1; s < model.stages; ++s)
        all *= static_cast<double>(2 * r + 1);
      return all;
    };
    while (r > 1 && count() > static_cast<double>(mostCandidates))
      --r;
    Cuts cuts = {0};
    move(anchor, r, cuts);
  }

  void move(const Cuts &anchor, int64_t r, Cuts &cuts) {
    if (candidates.size() >= mostCandidates)
      return;
    if (cuts.size() + 1 == anchor.size()) {
      if (cuts.back() < model.layers) {
        cuts.push_back(model.layers);
        candidates.push_back(judged(cuts));
        cuts.pop_back();
      }
      return;
    }
    for (int64_t k = 0; k <= 2 * r; ++k) { // 0, 1, -1, 2, -2, ..
      int64_t cut = anchor[cuts.size()] + (k % 2 ? (k + 1) / 2 : -k / 2);
      if (cut <= cuts.back() || cut >= model.layers)
        continue;
      cuts.push_back(cut);
      move(anchor, r, cuts);
      cuts.pop_back();
    }
  }

  Candidate judged(const Cuts &cuts) const {
    Candidate candidate{cuts, 0, 0};
    const std::vector<int64_t> &sum = model.loads[0].forwardSum;
    double mean = static_cast<double>(sum.back()) / static_cast<double>(model.stages);
    for (int64_t s = 0; s < model.stages; ++s) {
      double off = static_cast<double>(sum[cuts[s + 1]] - sum[cuts[s]]) - mean;
      candidate.variance += off * off / static_cast<double>(model.stages);
    }
    for (const Edge &edge : model.problem.edges) {
      auto stageOf = [&](int64_t layer) {
        return std::upper_bound(cuts.begin(), cuts.end(), layer) - cuts.begin();
      };
      if (stageOf(edge.from) != stageOf(edge.to))
        candidate.bytes += edge.bytes;
    }
    return candidate;
  }

  std::set<Cuts> shortList() {
    std::vector<size_t> byVariance(candidates.size()), rank(candidates.size(), 0);
    for (size_t i = 0; i < candidates.size(); ++i)
      byVariance[i] = i;
    std::vector<size_t> byBytes = byVariance, bySum = byVariance;
    std::sort(byVariance.begin(), byVariance.end(), [&](size_t a, size_t b) {
      const Candidate &x = candidates[a], &y = candidates[b];
      return std::tie(x.variance, x.bytes, a) < std::tie(y.variance, y.bytes, b);
    });
    std::sort(byBytes.begin(), byBytes.end(), [&](size_t a, size_t b) {
      const Candidate &x = candidates[a], &y = candidates[b];
      return std::tie(x.bytes, x.variance, a) < std::tie(y.bytes, y.variance, b);
    });
    for (size_t i = 0; i < candidates.size(); ++i) {
      rank[byVariance[i]] += i;
      rank[byBytes[i]] += i;
    }
    std::sort(bySum.begin(), bySum.end(),
              [&](size_t a, size_t b) { return std::tie(rank[a], a) < std::tie(rank[b], b); });
    std::set<Cuts> list;
    for (const auto *order : {&byVariance, &byBytes, &bySum})
      for (size_t i = 0; i < std::min(timedOfEachOrder, order->size()); ++i)
        list.insert(candidates[(*order)[i]].cuts);
    return list;
  }

  const PlanningModel &model;
  std::vector<Candidate> candidates;
};

/// From the last stage to the first; a suffix is known by its slowest stage and what its warm-up
/// and ending take, undominated ones kept.
Baseline adaPipe(const PlanningModel &model) {
  struct Suffix {
    int64_t slowest = 0, once = 0; ///< max F + B; sum of F + B
    int64_t end = 0;
    int before = 0; ///< number of the suffix behind this stage
  };
  constexpr const char *method = "a knapsack a stage, then warm-up + ending + steady phase";
  SearchControl control(1e9);
  std::unique_ptr<RematChoices> remat = makeRematChoices(model, control);
  std::vector<std::vector<std::vector<Suffix>>> known(
      model.stages + 1, std::vector<std::vector<Suffix>>(model.layers + 1));
  known[model.stages][model.layers] = {{}};
  const LoadModel &load = model.loads[0];
  int64_t share = (load.forwardSum.back() + load.backwardSum.back()) / model.stages;
  for (int64_t s = model.stages - 1; s >= 0; --s)
    for (int64_t i = s; i < model.layers; ++i) {
      std::vector<Suffix> all;
      for (int64_t j = i + 1; j <= model.layers; ++j) {
        if (known[s + 1][j].empty())
          continue;
        // No stage of a plan worth having does three times its share.
        if (j > i + 1 &&
            load.forwardSum[j] - load.forwardSum[i] + load.backwardSum[j] - load.backwardSum[i] >
                3 * share)
          break;
        const std::vector<RematChoice> &choices = remat->of(s, i, j);
        if (choices.empty())
          break;
        int64_t work = load.forwardSum[j] - load.forwardSum[i] + load.backwardSum[j] -
                       load.backwardSum[i] + choices[0][0];
        for (size_t b = 0; b < known[s + 1][j].size(); ++b) {
          const Suffix &behind = known[s + 1][j][b];
          all.push_back(
              {std::max(behind.slowest, work), behind.once + work, j, static_cast<int>(b)});
        }
      }
      std::sort(all.begin(), all.end(), [](const Suffix &a, const Suffix &b) {
        return std::tie(a.slowest, a.once) < std::tie(b.slowest, b.once);
      });
      for (const Suffix &suffix : all)
        if (known[s][i].empty() || suffix.once < known[s][i].back().once)
          known[s][i].push_back(suffix);
    }
  const std::vector<Suffix> &whole = known[0][0];
  if (whole.empty())
    return {"adapipe", method, {}, "no cuts fit the memory"};
  auto step = [&](const Suffix &s) { return s.once + (model.microbatches - 1) * s.slowest; };
  const Suffix *best =
      &*std::min_element(whole.begin(), whole.end(),
                         [&](const Suffix &a, const Suffix &b) { return step(a) < step(b); });
  Cuts cuts = {0};
  for (int64_t s = 0; s < model.stages; ++s) {
    cuts.push_back(best->end);
    best = &known[s + 1][best->end][best->before];
  }
  return timed(model.problem, "adapipe", method, cuts);
}

/// The least number that fits, of the first layers of every stage.
Baseline megatron(const Problem &problem) {
  constexpr const char *method = "equal layers, one number of recomputed layers for all stages";
  Cuts cuts = cutsByLayerCount(problem);
  Baseline result{"megatron", method, {}, {}};
  if (!problem.varyRemat) {
    result.problem = "rematerialisation is given";
    return result;
  }
  int64_t longest = 0;
  for (size_t s = 0; s + 1 < cuts.size(); ++s)
    longest = std::max(longest, cuts[s + 1] - cuts[s]);
  for (int64_t count = 0; count <= longest && !result.plan; ++count) {
    std::vector<std::string> remat;
    for (size_t s = 0; s + 1 < cuts.size(); ++s)
      for (int64_t l = cuts[s]; l < cuts[s + 1]; ++l) {
        const std::vector<RematOption> &options = problem.layers[l].remat;
        remat.push_back(l - cuts[s] < count ? options.back().name : options.front().name);
      }
    result = timed(problem, "megatron", method, cuts, std::move(remat));
  }
  return result;
}

} // namespace

std::vector<Baseline> baselines(const Problem &given) {
  Problem problem = given;
  problem.varyCuts = true;
  problem.givenCuts.clear();
  PlanningModel model(problem);
  return {timed(problem, "equal-layers", "the same number of layers a stage",
                cutsByLayerCount(problem)),
          timed(problem, "equal-parameters", "the least largest parameter bytes of a stage",
                cutsByParameters(problem)),
          visionFirst(problem),
          timed(problem, "profile-greedy", "the least largest forward + backward time of a stage",
                cutsByTime(problem)),
          Bmp(model).run(),
          adaPipe(model),
          megatron(problem)};
}

} // namespace omnibal::planner
