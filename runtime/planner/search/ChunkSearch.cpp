#include "runtime/planner/search/ChunkSearch.h"
#include "runtime/planner/search/bounds/TurnBound.h"
#include "runtime/planner/search/bounds/WorkBound.h"
#include <algorithm>
#include <set>

namespace omnibal::planner {
namespace {

/// Choices of options tried one stage after the other, and all together, at most.
constexpr size_t mostTried = 24, mostTogether = 20'000;
/// Rounds of the game without progress before it ends, and at most.
constexpr int patience = 60, mostBoundRounds = 600, quickRounds = 30;
/// Limits tried for the bound, and rounds for each.
constexpr int mostLimits = 10, limitRounds = 120;
/// Work (SearchControl) of local search and of looking for a proof.
constexpr int64_t proofUnits = 100'000'000, quickUnits = 10'000'000;

/// The first `chunks` - 1 places where the sums of `weights` come closest to equal parts.
std::vector<int64_t> evenCuts(const std::vector<int64_t> &sums, int64_t chunks) {
  auto layers = static_cast<int64_t>(sums.size()) - 1;
  std::vector<int64_t> cuts = {0};
  for (int64_t c = 1; c < chunks; ++c) {
    __int128 goal = static_cast<__int128>(sums.back()) * c / chunks;
    auto at = static_cast<int64_t>(
        std::lower_bound(sums.begin(), sums.end(), static_cast<int64_t>(goal)) - sums.begin());
    if (at > 0 && goal - sums[at - 1] < sums[std::min(at, layers)] - goal)
      --at;
    cuts.push_back(std::clamp(at, cuts.back() + 1, layers - (chunks - c)));
  }
  cuts.push_back(layers);
  return cuts;
}

} // namespace

ChunkSearch::ChunkSearch(const PlanningModel &m, ActionLists lists, SearchControl &c)
    : model(m), control(c), order(m, std::move(lists)),
      alone(makeRematChoices(m, c, order.lists().chunkStage, order.lists().actions)),
      remat(m, order, c), game(m, order, *alone, c) {}

const StageChoices::Answer &ChunkSearch::choicesOf(int64_t stage,
                                                   const std::vector<int64_t> &cuts) {
  std::vector<int64_t> bounds;
  for (int64_t c : order.chunksOf(stage)) {
    bounds.push_back(cuts[c]);
    bounds.push_back(cuts[c + 1]);
  }
  return remat.of(stage, bounds);
}

/// Under `base`, the times without recomputation.
int64_t ChunkSearch::stepOf(const std::vector<int64_t> &cuts, const std::vector<size_t> &choice) {
  size_t loads = model.loads.size();
  times.inputGrad = base.inputGrad;
  for (int64_t r = 0; r < model.stages; ++r) {
    const StageChoice &chosen = choicesOf(r, cuts).choices[choice[r]];
    const std::vector<int64_t> &chunks = order.chunksOf(r);
    for (size_t k = 0; k < chunks.size(); ++k)
      for (size_t load = 0; load < loads; ++load)
        times.inputGrad[chunks[k] * loads + load] += chosen.recompute[k * loads + load];
  }
  control.spend(static_cast<int64_t>(order.order().size()) + 50);
  return order.step(times);
}

void ChunkSearch::tryEvery(const std::vector<int64_t> &cuts, size_t stage,
                           std::vector<size_t> &choice, Candidate &found) {
  if (stage == choice.size()) {
    if (int64_t step = stepOf(cuts, choice); step < found.step)
      found = {step, choice};
    return;
  }
  size_t count = choicesOf(static_cast<int64_t>(stage), cuts).choices.size();
  for (choice[stage] = 0; choice[stage] < count; ++choice[stage])
    tryEvery(cuts, stage + 1, choice, found);
  choice[stage] = 0;
}

/// The best options for these cuts: all of them if there are few and `every` says so (`inexact`
/// tells where that was not possible), otherwise one stage after the other.
ChunkSearch::Candidate ChunkSearch::judge(const std::vector<int64_t> &cuts, bool every) {
  Candidate found;
  size_t together = 1;
  bool complete = true;
  for (int64_t r = 0; r < model.stages; ++r) {
    const StageChoices::Answer &answer = choicesOf(r, cuts);
    complete &= answer.complete;
    if (answer.choices.empty()) {
      inexact |= !answer.complete;
      return found;
    }
    together = std::min(together * answer.choices.size(), mostTogether + 1);
  }
  control.spend(static_cast<int64_t>(4 * order.chunks() * model.loads.size()));
  setTimes(model, order.lists().chunkStage, cuts, base);
  times = base;
  std::vector<size_t> choice(model.stages, 0);
  if (together > 1 && every && together <= mostTogether) {
    inexact |= !complete;
    tryEvery(cuts, 0, choice, found);
    return found;
  }
  inexact |= every && (together > 1 || !complete);
  found = {stepOf(cuts, choice), choice};
  for (int64_t r = 0; r < model.stages && together > 1; ++r) {
    size_t count = choicesOf(r, cuts).choices.size(), tried = std::min(count, mostTried);
    for (size_t i = 1; i < tried && !control.exhausted(); ++i) {
      choice = found.choice;
      choice[r] = tried < count ? i * (count - 1) / (tried - 1) : i;
      if (int64_t step = stepOf(cuts, choice); step < found.step)
        found = {step, choice};
    }
  }
  return found;
}

int64_t ChunkSearch::consider(const std::vector<int64_t> &cuts, bool every) {
  Candidate found = judge(cuts, every);
  if (found.step >= best)
    return found.step;
  best = found.step;
  bestCutsSoFar = cuts;
  bestOptionsSoFar.assign(model.layers, 0);
  for (int64_t r = 0; r < model.stages; ++r) {
    const std::vector<int> &options = choicesOf(r, cuts).choices[found.choice[r]].options;
    size_t next = 0;
    for (int64_t c : order.chunksOf(r))
      for (int64_t l = cuts[c]; l < cuts[c + 1]; ++l)
        bestOptionsSoFar[l] = options[next++];
  }
  return best;
}

/// Runs of neighboring cuts move together by one or two layers, as long as that helps.
void ChunkSearch::improve(std::vector<int64_t> cuts) {
  int64_t chunks = order.chunks(), step = consider(cuts, false);
  for (bool better = true; better && !control.exhausted();) {
    better = false;
    for (int64_t first = 1; first < chunks; ++first)
      for (int64_t last = first; last < chunks && !control.exhausted(); ++last)
        for (int64_t by : {-1, 1, -2, 2}) {
          std::vector<int64_t> moved = cuts;
          for (int64_t c = first; c <= last; ++c)
            moved[c] += by;
          if (moved[first] <= moved[first - 1] || moved[last] >= moved[last + 1])
            continue;
          if (int64_t other = consider(moved, false); other < step) {
            step = other;
            cuts = std::move(moved);
            better = true;
          }
        }
  }
}

void ChunkSearch::improveFrom(const std::vector<int64_t> &cuts) {
  if (model.problem.varyCuts)
    improve(cuts);
  else
    consider(model.problem.givenCuts, false);
}

/// Simple cuts to begin with.
void ChunkSearch::start() {
  std::vector<int64_t> ones(model.layers + 1), bytes = model.paramSum;
  for (int64_t l = 0; l <= model.layers; ++l)
    ones[l] = l;
  for (const std::vector<int64_t> &sums : {model.workSum, ones, bytes})
    consider(evenCuts(sums, order.chunks()), false);
}

/// Mixes ways and answers them with cuts. Returns what plans below `limit` take at least, or some
/// number from `enough` on that they do. `look`: considers the cuts as plans too.
int64_t ChunkSearch::playWith(PathMixtureBound &with, std::vector<int64_t> cuts, int64_t limit,
                              int64_t enough, bool look, int rounds) {
  int64_t lowest = 0;
  std::set<std::vector<int64_t>> seen;
  int since = 0;
  for (int round = 0; round == 0 || (round < rounds && since < patience && !control.exhausted());
       ++round) {
    with.learn(cuts, round == 0 ? 1.0 : 2.0 / (round + 2));
    PathMixtureBound::Answer answer = with.respond(limit - 1);
    if (answer.cuts.empty())
      return limit;
    ++since;
    if (answer.bound > lowest) {
      since = answer.bound > lowest + lowest / 20'000 ? 0 : since;
      lowest = answer.bound;
    }
    if (lowest >= std::min(enough, best))
      break;
    cuts = answer.cuts;
    if (look && seen.insert(cuts).second)
      consider(cuts, false);
  }
  return lowest;
}

/// Returns the same bound for plans where the only source is alone in a chunk, whichever that is:
/// its actions are left out, and the chain goes past it.
int64_t ChunkSearch::boundOfLoneSource(int64_t enough) {
  int64_t least = workBound(model, order.chunks() == model.stages ? 1 : 0);
  if (least >= enough || game.sourceLayers().size() != 1)
    return least;
  int64_t source = game.sourceLayers().front(), bound = unreachable;
  Problem rest = model.problem;
  rest.layers.erase(rest.layers.begin() + source);
  std::erase_if(rest.edges, [&](const Edge &e) { return e.from == source || e.to == source; });
  for (Edge &edge : rest.edges) {
    edge.from -= edge.from > source;
    edge.to -= edge.to > source;
  }
  if (!rest.varyRemat)
    rest.givenRemat.erase(rest.givenRemat.begin() + source);
  PlanningModel smaller(rest);
  for (int64_t chunk = 1; chunk < order.chunks() && bound > least; ++chunk) {
    if (chunk > source || order.chunks() - chunk > model.layers - source)
      continue; // too few layers on one side
    ActionLists lists = order.lists();
    lists.chunkStage.erase(lists.chunkStage.begin() + chunk);
    for (std::vector<Action> &list : lists.actions) {
      std::erase_if(list, [&](const Action &a) { return a.chunk == chunk; });
      for (Action &a : list)
        a.chunk -= a.chunk > chunk;
    }
    ActionOrder shorter(smaller, lists);
    std::unique_ptr<RematChoices> choices =
        makeRematChoices(smaller, control, lists.chunkStage, lists.actions);
    PathMixtureBound without(smaller, shorter, *choices, control);
    if (!without.usable())
      return least;
    std::vector<int64_t> sums(smaller.layers + 1, 0);
    for (int64_t l = 0; l <= smaller.layers; ++l)
      sums[l] = model.workSum[l + (l > source)];
    bound = std::min(bound, playWith(without, evenCuts(sums, shorter.chunks()), best, enough,
                                     /*look=*/false, mostBoundRounds));
  }
  return std::max(bound, least);
}

void ChunkSearch::play() {
  int64_t limit = best;
  std::vector<int64_t> cuts =
      best < unreachable ? bestCutsSoFar : evenCuts(model.workSum, order.chunks());
  int64_t low = playWith(game, cuts, limit, limit, /*look=*/true, mostBoundRounds);
  // The mixture does not know that layers are whole. Limits that they cannot keep do.
  int64_t high = best;
  for (int step = 0; step < mostLimits && low < high && best < unreachable &&
                     !control.exhausted() && (high - low) > low / 1000;
       ++step) {
    int64_t middle = low + (high - low) / 2;
    int64_t reached = playWith(game, cuts, middle, middle, /*look=*/true, limitRounds);
    if (reached >= middle)
      low = middle;
    else
      high = middle;
  }
  low = std::min(low, best);
  if (TurnBound turns(model, order, game, control);
      low < best && best < unreachable && model.problem.varyCuts && turns.usable())
    low = turns.raise(low, best);
  if (game.hasSources()) {
    loneBound = boundOfLoneSource(low);
    low = std::min(low, loneBound);
  }
  bound = std::max(bound, low);
  game.respond(best - 1);
}

/// Sees all plans below `best` that begin with `path`; `cost` is what the mixture says of these
/// chunks. With a source alone in a chunk it says nothing any more.
bool ChunkSearch::descend(int64_t chunk, double cost, bool mixed) {
  if (chunk == order.chunks()) {
    consider(path, true);
    return true;
  }
  int64_t begin = path.back(), layers = model.layers;
  bool last = chunk + 1 == order.chunks();
  for (int64_t end = last ? layers : begin + 1; end <= layers - (order.chunks() - 1 - chunk);
       ++end) {
    if (!control.spend(20))
      return false;
    if (model.workSum[end] - model.workSum[begin] >= best)
      break;
    bool lone = game.isLoneSource(begin, end);
    if (lone && loneBound >= best)
      continue;
    if (alone->of(chunk, begin, end).empty())
      continue;
    double sum = cost;
    if (mixed && !lone) {
      sum += game.costOf(chunk, begin, end);
      // `rest` leaves out chunks that are a source alone.
      bool certain = loneBound >= best || !game.hasSourcesFrom(end);
      if (certain && sum + game.rest(chunk + 1, end) > static_cast<double>(best) * (1 + 1e-9))
        continue;
    }
    path.push_back(end);
    bool goOn = descend(chunk + 1, sum, mixed && !lone);
    path.pop_back();
    if (!goOn)
      return false;
  }
  return true;
}

void ChunkSearch::prove(int64_t units) {
  if (control.exhausted())
    return;
  if (game.usable())
    play();
  if (best < unreachable && bound < best)
    improve(bestCutsSoFar);
  if (bound >= best)
    return;
  control.allow(units);
  path = {0};
  inexact = false;
  sawAll = descend(0, 0, game.usable()) && !inexact && !control.exhausted();
  control.allowAll();
  if (sawAll)
    bound = best;
}

bool ChunkSearch::run(Effort effort) {
  bound = workBound(model);
  if (!model.problem.varyCuts) {
    consider(model.problem.givenCuts, true);
    sawAll = !inexact;
    if (sawAll)
      bound = best;
    else if (best < unreachable && game.usable())
      play();
    return best < unreachable;
  }
  start();
  if (game.usable())
    playWith(game, best < unreachable ? bestCutsSoFar : evenCuts(model.workSum, order.chunks()),
             best, best, /*look=*/true, quickRounds);
  if (best < unreachable) {
    control.allow(effort == Effort::Quick ? quickUnits : proofUnits);
    improve(bestCutsSoFar);
    control.allowAll();
  }
  if (effort == Effort::Proof || best == unreachable)
    prove(effort == Effort::Quick ? quickUnits : proofUnits);
  return best < unreachable;
}

} // namespace omnibal::planner
