//===- AdaPipe.cpp - AdaPipe's two-level program ----------------------------------===//
//
// ASPLOS 2024, doi 10.1145/3620666.3651359. Inner: what layers i .. j recompute as stage s, a
// knapsack with the bytes of the micro-batches in flight. Outer, from the last stage to the first:
// for every stage s of p and first layer, the one suffix of least
//
//     T = W + E + (m - (p - s)) M,    M = max(M', F + B)
//     W = F + max(W' + B', (p - s - 1) F)      until the first backward begins
//     E = B + max(E' + F', (p - s - 1) B)      the last backwards
//
// (' : stage s + 1), which is 1f1b without transfers. That a suffix is kept by its T alone makes it
// fast and not optimal. Parts of the paper are not verified at the source.
//
//===----------------------------------------------------------------------------------------===//
#include "runtime/planner/baselines/BaselinesInternal.h"
#include "runtime/planner/remat/RematChoices.h"
#include <algorithm>

namespace omnibal::planner {
namespace {

/// The best stages from one on, given its first layer. Times are those of all micro-batches, so
/// that loads are averaged without rounding.
struct Suffix {
  bool isKnown = false;
  __int128 warmUp = 0, ending = 0, slowest = 0, total = 0;
  int64_t forward = 0, backward = 0; ///< of its first stage
  int64_t end = 0;
};

class AdaPipe {
public:
  explicit AdaPipe(BaselineTask &task)
      : task(task), model(task.model), remat(makeRematChoices(model, task.control)),
        known(model.stages + 1, std::vector<Suffix>(model.layers + 1)), forward(model.layers + 1),
        backward(model.layers + 1) {
    for (int load : model.loadOf)
      for (int64_t l = 0; l <= model.layers; ++l) {
        forward[l] += model.loads[load].forwardSum[l];
        backward[l] += model.loads[load].backwardSum[l];
      }
  }

  Baseline run() {
    constexpr const char *method =
        "a knapsack a stage, then least warm-up + ending + steady phase, no transfers";
    known[model.stages][model.layers].isKnown = true;
    for (int64_t s = model.stages - 1; s >= 0; --s)
      for (int64_t i = s; i <= model.layers - (model.stages - s); ++i)
        if (task.secondsLeft() > 0)
          known[s][i] = bestOf(s, i);
    if (task.secondsLeft() <= 0)
      return {"adapipe", method, {}, "not found within the time limit"};
    if (!known[0][0].isKnown)
      return {"adapipe", method, {}, "no cuts fit the memory"};
    Cuts cuts = {0};
    for (int64_t s = 0; s < model.stages; ++s)
      cuts.push_back(known[s][cuts.back()].end);
    return task.timed("adapipe", method, cuts);
  }

private:
  Suffix bestOf(int64_t stage, int64_t begin) {
    Suffix best;
    int64_t share = (forward.back() + backward.back()) / model.stages;
    int64_t last = model.layers - (model.stages - 1 - stage);
    for (int64_t end = stage + 1 == model.stages ? model.layers : begin + 1; end <= last; ++end) {
      int64_t work = forward[end] - forward[begin] + backward[end] - backward[begin];
      // No stage of a plan worth having does three times its share, if there is another one.
      if (best.isKnown && work > 3 * share)
        break;
      const Suffix &behind = known[stage + 1][end];
      if (!behind.isKnown)
        continue;
      if (task.secondsLeft() <= 0)
        break;
      std::optional<int64_t> again = leastRecompute(stage, begin, end);
      if (!again)
        break; // more layers do not fit either
      Suffix next = joined(stage, begin, end, *again, behind);
      if (!best.isKnown || next.total < best.total)
        best = next;
    }
    return best;
  }

  std::optional<int64_t> leastRecompute(int64_t stage, int64_t begin, int64_t end) {
    std::optional<int64_t> least;
    for (const RematChoice &choice : remat->of(stage, begin, end)) {
      int64_t sum = 0;
      for (int load : model.loadOf)
        sum += choice[load];
      least = std::min(sum, least.value_or(sum));
    }
    return least;
  }

  Suffix joined(int64_t stage, int64_t begin, int64_t end, int64_t again,
                const Suffix &behind) const {
    Suffix s;
    s.isKnown = true;
    s.end = end;
    s.forward = forward[end] - forward[begin];
    s.backward = backward[end] - backward[begin] + again;
    __int128 later = model.stages - stage - 1;
    s.warmUp = s.forward + std::max(behind.warmUp + behind.backward, later * s.forward);
    s.ending = s.backward + std::max(behind.ending + behind.forward, later * s.backward);
    s.slowest = std::max<__int128>(behind.slowest, s.forward + s.backward);
    s.total =
        s.warmUp + s.ending + std::max<__int128>(0, model.microbatches - later - 1) * s.slowest;
    return s;
  }

  BaselineTask &task;
  const PlanningModel &model;
  std::unique_ptr<RematChoices> remat;
  std::vector<std::vector<Suffix>> known; ///< by stage and first layer
  std::vector<int64_t> forward, backward; ///< over all micro-batches, prefix sums
};

} // namespace

Baseline adaPipe(BaselineTask &task) {
  if (task.chunks > task.model.stages)
    return {"adapipe", "", {}, "it is defined for one chunk a stage"};
  return AdaPipe(task).run();
}

} // namespace omnibal::planner
