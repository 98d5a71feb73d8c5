#include "runtime/planner/search/CutSearch.h"
#include "runtime/planner/model/Partition.h"
#include <algorithm>

namespace omnibal::planner {
namespace {

/// Units of work (SearchControl) of one look for better plans: about a second, and a fraction of it
/// where the answer is within a percent already. `quickLook`: of local search where there is to be
/// no such look.
constexpr int64_t fullLook = 120'000'000, shortLook = 60'000'000, quickLook = 60'000'000;
constexpr int64_t allLooks = 8 * fullLook;

} // namespace

CutSearch::CutSearch(const PlanningModel &m, SearchControl &c)
    : model(m), control(c), remat(makeRematChoices(m, c)), order(m) {
  times.forward.resize(m.stages * m.loads.size());
  times.backward.resize(m.stages * m.loads.size());
  times.reduction.resize(m.stages);
  sumLayers();
  measureChain();
}

/// Calls visit(stage) for every end and choice of a stage whose work the limit allows; stops when
/// it returns false or the control is exhausted, and says whether it did not.
template <typename Visit>
bool CutSearch::forEachStage(int64_t index, int64_t begin, int64_t limit, int64_t span,
                             Visit visit) {
  bool last = index + 1 == model.stages;
  int64_t first = last ? model.layers : begin + 1;
  // Later stages need a layer each.
  int64_t end = last ? model.layers : model.layers - (model.stages - 1 - index);
  for (int64_t j = first; j <= end; ++j) {
    bool lone = isLoneSource(begin, j); // it waits for nothing
    if (model.workSum[j] - model.workSum[begin] > limit - (lone ? 0 : span)) {
      if (lone)
        continue;
      break;
    }
    if (!model.problem.varyCuts && model.problem.givenCuts[index + 1] != j)
      continue;
    for (const RematChoice &choice : remat->of(index, begin, j)) {
      if (!control.spend(4))
        return false;
      if (!visit(stageOf(index, begin, j, choice)))
        return false;
    }
  }
  return true;
}

/// The plan that satisfies all ways with `limit`, as far as fronts taken apart can tell; empty if
/// there is none. Leaves the fronts in `least`.
CutSearch::Candidate CutSearch::relaxed(int64_t limit) {
  const PathLabel nowhere = PathLabel::all(unreachable);
  struct Origin {
    int64_t begin = -1, size = INT64_MAX;
    const RematChoice *choice = nullptr;
  };
  int64_t stages = model.stages, layers = model.layers;
  least.assign(stages + 1, std::vector<PathLabel>(layers + 1, nowhere));
  std::vector<std::vector<Origin>> from(stages + 1, std::vector<Origin>(layers + 1));
  least[0][0] = PathLabel();
  for (int64_t s = 0; s < stages; ++s)
    for (int64_t i = s; i < layers; ++i) {
      const PathLabel &front = least[s][i];
      if (front.span >= unreachable)
        continue;
      forEachStage(s, i, limit, front.span, [&](const Stage &stage) {
        if (!holds(front, stage, limit))
          return true;
        PathLabel next = stage.end < layers ? after(front, stage) : PathLabel();
        least[s + 1][stage.end].lower(next);
        Origin &origin = from[s + 1][stage.end];
        if (next.size() < origin.size)
          origin = {i, next.size(), stage.choice};
        return true;
      });
    }
  Candidate found;
  if (from[stages][layers].begin < 0 || control.exhausted())
    return found;
  found.cuts.resize(stages + 1, layers);
  found.choices.resize(stages);
  for (int64_t s = stages; s > 0; --s) {
    const Origin &origin = from[s][found.cuts[s]];
    found.cuts[s - 1] = origin.begin;
    found.choices[s - 1] = origin.choice;
  }
  return found;
}

/// Follows relaxed(limit), whose fronts say what can be reached at all.
void CutSearch::prepareCompletion(int64_t limit) {
  int64_t stages = model.stages, layers = model.layers;
  completion.assign(stages + 1, std::vector<PathLabel>(layers + 1, PathLabel::all(-1)));
  completion[stages][layers] = PathLabel::all(unreachable);
  completionLimit = limit;
  for (int64_t s = stages - 1; s >= 0; --s)
    for (int64_t i = s; i < layers; ++i) {
      const PathLabel &front = least[s][i];
      if (front.span >= unreachable)
        continue;
      forEachStage(s, i, limit, front.span, [&](const Stage &stage) {
        const PathLabel &room = completion[s + 1][stage.end];
        if (room.span >= 0 && holds(front, stage, limit) &&
            (stage.end == layers || after(front, stage).within(room)))
          completion[s][i].raise(roomBefore(room, stage, limit));
        return true;
      });
    }
}

void CutSearch::findBound() {
  int64_t low = model.workSum.back() / model.stages,
          high = low + model.workSum.back() / model.microbatches;
  Candidate found;
  while ((found = relaxed(high)).cuts.empty()) {
    if (high >= unreachable || control.exhausted())
      return;
    low = high + 1;
    high += high / 4 + 1;
  }
  consider(found);
  high = std::min(high, best);
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    found = relaxed(middle);
    if (control.exhausted())
      break;
    if (found.cuts.empty()) {
      low = middle + 1;
      continue;
    }
    high = middle;
    consider(found);
  }
  bound = low;
}

void CutSearch::setTimes(const Candidate &candidate) {
  size_t loads = model.loads.size();
  for (size_t s = 0; s < candidate.choices.size(); ++s) {
    int64_t begin = candidate.cuts[s], end = candidate.cuts[s + 1];
    for (size_t number = 0; number < loads; ++number) {
      const LoadModel &load = model.loads[number];
      times.forward[s * loads + number] = load.forwardSum[end] - load.forwardSum[begin];
      times.backward[s * loads + number] =
          load.backwardSum[end] - load.backwardSum[begin] + (*candidate.choices[s])[number];
    }
    times.reduction[s] = model.reductionNs(begin, end);
  }
  findFeeds(model, candidate.cuts, times);
}

int64_t CutSearch::exactStep(const Candidate &candidate) {
  control.spend(2 * model.stages * model.microbatches);
  setTimes(candidate);
  return order.step(times);
}

void CutSearch::consider(const Candidate &candidate) {
  int64_t step = exactStep(candidate);
  if (step < best) {
    best = step;
    bestPlan = candidate;
  }
}

/// The choices with least recomputation over all micro-batches; false where some stage has none.
bool CutSearch::chooseBest(Candidate &candidate) {
  candidate.choices.clear();
  for (int64_t s = 0; s < model.stages; ++s) {
    const RematChoice *least = nullptr;
    int64_t leastSum = INT64_MAX;
    for (const RematChoice &choice : remat->of(s, candidate.cuts[s], candidate.cuts[s + 1])) {
      int64_t sum = 0;
      for (size_t load = 0; load < choice.size(); ++load)
        sum += model.countOf[load] * choice[load];
      if (sum < leastSum) {
        leastSum = sum;
        least = &choice;
      }
    }
    if (!least)
      return false;
    candidate.choices.push_back(least);
  }
  return true;
}

/// Local search: runs of neighboring cuts move together by one or two layers.
void CutSearch::improve(Candidate candidate) {
  int64_t step = exactStep(candidate);
  while (!control.exhausted()) {
    Candidate next;
    for (int64_t first = 1; first < model.stages; ++first)
      for (int64_t last = first; last < model.stages && !control.exhausted(); ++last)
        for (int64_t by : {-2, -1, 1, 2}) {
          Candidate moved{candidate.cuts, {}};
          for (int64_t c = first; c <= last; ++c)
            moved.cuts[c] += by;
          if (moved.cuts[first] <= moved.cuts[first - 1] ||
              moved.cuts[last] >= moved.cuts[last + 1] || !chooseBest(moved))
            continue;
          int64_t other = exactStep(moved);
          if (other < step) {
            step = other;
            next = std::move(moved);
          }
        }
    if (next.cuts.empty())
      break;
    candidate = std::move(next);
  }
  if (step < best) {
    best = step;
    bestPlan = candidate;
  }
}

/// What every plan that begins with these stages takes at least.
int64_t CutSearch::prefixStep(const Candidate &prefix) {
  auto stages = static_cast<int64_t>(prefix.choices.size());
  int64_t begin = prefix.cuts[stages - 1], end = prefix.cuts[stages];
  Joint joint = jointAt(begin, end);
  std::vector<int64_t> echo;
  if (joint.feeds && joint.returns)
    for (int load = 0; load < static_cast<int>(model.loads.size()); ++load) {
      auto [there, back] = jointNs(begin, end, load);
      // One of the later cuts may lie around a source, beside the chain.
      echo.push_back(there + back + chainNs[load][end] +
                     cheapestCut[load][end] * std::max<int64_t>(0, model.stages - stages - 2));
    }
  control.spend(2 * stages * model.microbatches);
  setTimes(prefix);
  return order.stepOfPrefix(times, stages, echo);
}

bool CutSearch::descend(int64_t index, int64_t begin, const PathLabel &front) {
  return forEachStage(index, begin, target, front.span, [&](const Stage &stage) {
    const PathLabel &room = completion[index + 1][stage.end];
    if (room.span < 0 || !holds(front, stage, target))
      return true;
    bool goOn = true;
    path.cuts.push_back(stage.end);
    path.choices.push_back(stage.choice);
    if (index + 1 == model.stages) {
      consider(path);
      target = std::min(target, best - 1);
    } else {
      // All of `completion` falls with the limit that it was made for.
      PathLabel next = after(front, stage), reached = next;
      for (int64_t *part : {&reached.span, &reached.up, &reached.down, &reached.both})
        *part += completionLimit - target;
      if (reached.within(room) && (index == 0 || prefixStep(path) <= target))
        goOn = descend(index + 1, stage.end, next);
    }
    path.cuts.pop_back();
    path.choices.pop_back();
    return goOn && !control.exhausted();
  });
}

/// Looks for plans of at most `limit`, spending at most `units`. True if it saw all of them, so
/// that `bound` could be raised.
bool CutSearch::search(int64_t limit, int64_t units) {
  control.allow(units);
  target = limit;
  bool complete = true;
  if (!relaxed(limit).cuts.empty()) {
    prepareCompletion(limit);
    path = {{0}, {}};
    complete = descend(0, 0, PathLabel());
  }
  complete &= !control.exhausted();
  if (complete)
    bound = std::min(best, limit + 1);
  control.allow(allLooks);
  return complete;
}

bool CutSearch::run(bool quick) {
  findBound();
  if (best >= unreachable)
    return false;
  if (quick)
    control.allow(quickLook);
  if (model.problem.varyCuts && bound < best) {
    // Where the bound is loose its plans may be poor: simple rules are other places to start from.
    improve(bestPlan);
    for (const std::vector<int64_t> &simple :
         {cutsByTime(model.problem), cutsByLayerCount(model.problem)})
      if (Candidate start{simple, {}}; bound < best && chooseBest(start))
        improve(start);
  }
  if (quick) {
    control.allowAll();
    return true;
  }
  // First for the optimum; if that takes too long, upwards from the bound in steps that fit.
  auto near = [&] { return best - bound <= bound / 100; };
  if (bound < best && !search(best - 1, near() ? shortLook : fullLook)) {
    int64_t parts = 8;
    for (int64_t spent = 0; !near() && spent < allLooks && !control.exhausted();) {
      int64_t before = control.spent();
      bool complete = search(bound + (best - bound) / parts, fullLook);
      parts = complete ? std::max<int64_t>(parts / 2, 2) : parts * 4;
      spent += control.spent() - before;
    }
  }
  return true;
}

std::vector<int> CutSearch::bestOptions() {
  std::vector<int> options;
  for (int64_t s = 0; s < model.stages; ++s) {
    std::vector<int> part =
        remat->options(s, bestPlan.cuts[s], bestPlan.cuts[s + 1], *bestPlan.choices[s]);
    options.insert(options.end(), part.begin(), part.end());
  }
  return options;
}

} // namespace omnibal::planner
