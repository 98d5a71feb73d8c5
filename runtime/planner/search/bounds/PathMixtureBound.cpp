#include "runtime/planner/search/bounds/PathMixtureBound.h"
#include <algorithm>
#include <limits>

namespace omnibal::planner {
namespace {

constexpr double nowhere = std::numeric_limits<double>::infinity();

/// What rounding of the mixture's shares may add to a sum.
constexpr double rounding = 1e-9;

} // namespace

PathMixtureBound::PathMixtureBound(const PlanningModel &m, const ActionOrder &o, RematChoices &r,
                                   SearchControl &c)
    : model(m), order(o), remat(r), control(c) {
  for (int64_t l = 1; l < model.layers; ++l)
    if (model.isSource(l))
      sources.push_back(l);
  findJoints();
  if (chained)
    linkActions();
}

void PathMixtureBound::findJoints() {
  size_t loads = model.loads.size();
  joints.resize(model.layers);
  chain.assign(model.layers + 1, 0);
  const std::vector<int64_t> &forward = model.loads[model.loadOf.front()].forward;
  for (int64_t e = 1; e < model.layers; ++e) {
    int64_t before = e - 1, after = e; // the layers of the chain around the cut
    while (model.isSource(before))
      --before;
    while (after < model.layers && model.isSource(after))
      ++after;
    Joint &joint = joints[e];
    joint.there.assign(loads, 0);
    joint.back.assign(loads, 0);
    bool feeds = false, sends = false;
    for (int number : after < model.layers ? model.edgesInto[after] : std::vector<int>()) {
      const Edge &edge = model.problem.edges[number];
      if (edge.from < before || edge.from >= e)
        continue;
      feeds |= edge.from == before;
      sends |= edge.bytes != 0;
      joint.returns |= edge.from == before && edge.gradBytes != 0;
      for (size_t load = 0; load < loads; ++load) {
        joint.there[load] += model.loads[load].edgeBytes[number];
        joint.back[load] += model.loads[load].edgeGradBytes[number];
      }
    }
    chained &= feeds;
    if (!joint.returns)
      lastSilent = e;
    for (size_t load = 0; load < loads; ++load) {
      joint.there[load] = sends ? model.transferNs(joint.there[load]) : 0;
      joint.back[load] = joint.returns ? model.transferNs(joint.back[load]) : 0;
    }
    chain[e] = chain[e - 1] + (model.isSource(e - 1) ? 0 : forward[e - 1]);
  }
  const std::vector<int64_t> &inputGrad = model.loads[model.loadOf.back()].inputGradSum;
  chainBack.assign(model.layers + 1, 0);
  for (int64_t e = lastSilent + 1; e < model.layers; ++e)
    chainBack[e] =
        chainBack[e - 1] +
        (model.isSource(e - 1) || e - 1 < lastSilent ? 0 : inputGrad[e] - inputGrad[e - 1]);
}

/// Finds for every action the ones right before it on a path.
void PathMixtureBound::linkActions() {
  const auto &places = order.order();
  std::vector<int32_t> forwardAt(order.chunks() * model.microbatches, -1), backwardAt = forwardAt;
  std::vector<int32_t> lastOfStage(model.stages, -1);
  onStage.assign(places.size(), -1);
  above = below = onStage;
  isLast.assign(places.size(), 0);
  for (size_t i = 0; i < places.size(); ++i) {
    const ActionOrder::Place &p = places[i];
    int64_t here = p.chunk * model.microbatches + p.microbatch;
    onStage[i] = lastOfStage[p.stage];
    lastOfStage[p.stage] = static_cast<int32_t>(i);
    if (p.kind == ActionKind::Forward) {
      if (p.chunk > 0)
        below[i] = forwardAt[here - model.microbatches];
      forwardAt[here] = static_cast<int32_t>(i);
    } else if (p.kind != ActionKind::WeightGrad) {
      if (p.chunk + 1 < order.chunks())
        above[i] = backwardAt[here + model.microbatches];
      backwardAt[here] = static_cast<int32_t>(i);
    }
  }
  for (int32_t last : lastOfStage)
    if (last >= 0)
      isLast[last] = 1;
  trailing.assign(order.chunks(), std::vector<int64_t>(model.loads.size(), 0));
  for (const ActionOrder::Place &p : places) {
    if (p.kind == ActionKind::WeightGrad)
      ++trailing[p.chunk][p.load];
    else if (p.kind != ActionKind::Forward)
      std::fill(trailing[p.chunk].begin(), trailing[p.chunk].end(), 0);
  }
}

bool PathMixtureBound::isLoneSource(int64_t begin, int64_t end) const {
  for (int64_t l = begin; l < end; ++l)
    if (!model.isSource(l))
      return false;
  return true;
}

/// A stage's chunk waits for the first micro-batch, then does all its work; and after its last
/// backward that micro-batch goes all the way back.
bool PathMixtureBound::isAllowed(int64_t chunk, int64_t begin, int64_t end, int64_t limit) {
  if (!model.problem.varyCuts)
    return model.problem.givenCuts[chunk] == begin && model.problem.givenCuts[chunk + 1] == end;
  int64_t busy = chain[begin] + model.workSum[end] - model.workSum[begin];
  if (busy > limit)
    return false;
  const std::vector<RematChoice> &choices = remat.of(chunk, begin, end);
  int64_t again = unreachable;
  for (const RematChoice &choice : choices) {
    int64_t sum = 0;
    for (size_t load = 0; load < choice.size(); ++load)
      sum += model.countOf[load] * choice[load];
    again = std::min(again, sum);
  }
  if (again >= unreachable)
    return false;
  busy += again;
  int64_t late = 0;
  for (size_t load = 0; load < model.loads.size(); ++load) {
    const LoadModel &m = model.loads[load];
    late += trailing[chunk][load] * (m.backwardSum[end] - m.backwardSum[begin] -
                                     m.inputGradSum[end] + m.inputGradSum[begin]);
  }
  int64_t back = begin > lastSilent ? chainBack[begin] : 0;
  return busy + std::max(model.reductionNs(begin, end), back - late) <= limit;
}

void PathMixtureBound::Passes::resize(size_t size, size_t stages) {
  for (int kind : {0, 1}) {
    forward[kind].assign(size, 0);
    inputGrad[kind].assign(size, 0);
    weightGrad[kind].assign(size, 0);
  }
  up.assign(size, 0);
  down.assign(size, 0);
  reduction.assign(stages, 0);
}

void PathMixtureBound::Passes::blend(const Passes &other, double share) {
  auto mix = [&](std::vector<double> &mine, const std::vector<double> &theirs) {
    for (size_t i = 0; i < mine.size(); ++i)
      mine[i] += share * (theirs[i] - mine[i]);
  };
  for (int kind : {0, 1}) {
    mix(forward[kind], other.forward[kind]);
    mix(inputGrad[kind], other.inputGrad[kind]);
    mix(weightGrad[kind], other.weightGrad[kind]);
  }
  mix(up, other.up);
  mix(down, other.down);
  mix(reduction, other.reduction);
}

std::vector<int64_t> PathMixtureBound::recomputeOf(int64_t chunk, int64_t begin, int64_t end) {
  const std::vector<RematChoice> &choices = remat.of(chunk, begin, end);
  if (choices.empty())
    return {};
  std::vector<int64_t> least = choices[0];
  for (const RematChoice &choice : choices)
    for (size_t load = 0; load < least.size(); ++load)
      least[load] = std::min(least[load], choice[load]);
  return least;
}

PathMixtureBound::Passes PathMixtureBound::longestWay(const std::vector<int64_t> &cuts) {
  const auto &places = order.order();
  const size_t loads = model.loads.size();
  ChunkTimes times;
  setTimes(model, order.lists().chunkStage, cuts, times);
  for (int64_t c = 0; c < order.chunks(); ++c) {
    std::vector<int64_t> again = recomputeOf(c, cuts[c], cuts[c + 1]);
    for (size_t load = 0; load < again.size(); ++load)
      times.inputGrad[c * loads + load] += again[load];
  }
  bool twoKinds = lastSilent > 0;
  // Longest ways to the end of each place, by kind, and the place and kind before it.
  struct Step {
    int64_t end = -1;
    int32_t from = -1;
    int8_t kind = 0;
  };
  std::vector<Step> steps[2] = {std::vector<Step>(places.size()), std::vector<Step>(places.size())};
  auto countsFor = [&](const ActionOrder::Place &p, int kind) { // truncated by a silent boundary
    return kind == 0 || p.chunk + 1 == order.chunks() || returnsAt(cuts[p.chunk + 1]);
  };
  Step best;
  int32_t bestPlace = -1;
  int bestKind = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    const ActionOrder::Place &p = places[i];
    size_t at = p.chunk * loads + p.load;
    int64_t duration = p.kind == ActionKind::Forward      ? times.forward[at]
                       : p.kind == ActionKind::WeightGrad ? times.weightGrad[at]
                       : p.kind == ActionKind::InputGrad
                           ? times.inputGrad[at]
                           : times.inputGrad[at] + times.weightGrad[at];
    auto offer = [&](int kind, int64_t start, int32_t from, int fromKind) {
      int64_t end = start + (countsFor(p, kind) ? duration : 0);
      if (end > steps[kind][i].end)
        steps[kind][i] = {end, from, static_cast<int8_t>(fromKind)};
    };
    offer(0, 0, -1, 0);
    if (int32_t before = onStage[i]; before >= 0) {
      offer(0, steps[0][before].end, before, 0);
      if (twoKinds && steps[1][before].end >= 0 && places[before].chunk >= p.chunk)
        offer(1, steps[1][before].end, before, 1);
    }
    bool apart = true;
    if (int32_t before = below[i]; before >= 0) {
      apart = places[before].stage != p.stage;
      offer(0, steps[0][before].end + (apart ? joints[cuts[p.chunk]].there[p.load] : 0), before, 0);
    }
    if (int32_t before = above[i]; before >= 0) {
      apart = places[before].stage != p.stage;
      int64_t hop = apart ? joints[cuts[p.chunk + 1]].back[p.load] : 0;
      if (!twoKinds) {
        offer(0, steps[0][before].end + hop, before, 0);
      } else {
        hop = returnsAt(cuts[p.chunk + 1]) ? hop : 0;
        offer(1, steps[0][before].end + hop, before, 0);
        if (steps[1][before].end >= 0)
          offer(1, steps[1][before].end + hop, before, 1);
      }
    }
    for (int kind : {0, 1}) {
      int64_t end = steps[kind][i].end;
      if (end < 0)
        continue;
      if (isLast[i] && (!twoKinds || kind == 0))
        end += times.reduction[p.stage];
      if (end > best.end) {
        best.end = end;
        bestPlace = static_cast<int32_t>(i);
        bestKind = kind;
      }
    }
  }
  Passes passes;
  passes.resize(order.chunks() * loads, model.stages);
  if (isLast[bestPlace] && (!twoKinds || bestKind == 0))
    passes.reduction[places[bestPlace].stage] = 1;
  for (int32_t i = bestPlace, kind = bestKind; i >= 0;) {
    const ActionOrder::Place &p = places[i];
    size_t at = p.chunk * loads + p.load;
    if (p.kind == ActionKind::Forward)
      ++passes.forward[kind][at];
    if (p.kind == ActionKind::Backward || p.kind == ActionKind::InputGrad)
      ++passes.inputGrad[kind][at];
    if (p.kind == ActionKind::Backward || p.kind == ActionKind::WeightGrad)
      ++passes.weightGrad[kind][at];
    const Step &step = steps[kind][i];
    if (step.from >= 0 && places[step.from].stage != p.stage) {
      if (step.from == below[i])
        ++passes.up[places[step.from].chunk * loads + p.load];
      else
        ++passes.down[at];
    }
    i = step.from;
    kind = step.kind;
  }
  return passes;
}

void PathMixtureBound::learn(const std::vector<int64_t> &cuts, double share) {
  Passes way = longestWay(cuts);
  control.spend(8 * static_cast<int64_t>(order.order().size()));
  if (!mixed)
    mixture = std::move(way);
  else
    mixture.blend(way, share);
  mixed = true;
}

void PathMixtureBound::sumCosts() {
  const size_t loads = model.loads.size();
  for (int kind : {0, 1}) {
    sums[kind].assign(order.chunks(), std::vector<double>(model.layers + 1, 0));
    for (int64_t c = 0; c < order.chunks(); ++c)
      for (size_t load = 0; load < loads; ++load) {
        double f = mixture.forward[kind][c * loads + load];
        double i = mixture.inputGrad[kind][c * loads + load];
        double w = mixture.weightGrad[kind][c * loads + load];
        if (f == 0 && i == 0 && w == 0)
          continue;
        const LoadModel &m = model.loads[load];
        for (int64_t l = 1; l <= model.layers; ++l) {
          auto inputGrad = static_cast<double>(m.inputGradSum[l]);
          sums[kind][c][l] += f * static_cast<double>(m.forwardSum[l]) + i * inputGrad +
                              w * (static_cast<double>(m.backwardSum[l]) - inputGrad);
        }
      }
  }
}

double PathMixtureBound::costOf(int64_t chunk, int64_t begin, int64_t end) {
  const size_t loads = model.loads.size();
  bool inside = end == model.layers || returnsAt(end);
  double cost = sums[0][chunk][end] - sums[0][chunk][begin];
  if (inside)
    cost += sums[1][chunk][end] - sums[1][chunk][begin];
  const std::vector<RematChoice> &choices = remat.of(chunk, begin, end);
  if (choices.empty())
    return nowhere;
  double again = nowhere;
  for (const RematChoice &choice : choices) {
    double sum = 0;
    for (size_t load = 0; load < loads; ++load)
      sum += static_cast<double>(choice[load]) *
             (mixture.inputGrad[0][chunk * loads + load] +
              (inside ? mixture.inputGrad[1][chunk * loads + load] : 0));
    again = std::min(again, sum);
  }
  cost += again;
  if (end < model.layers)
    for (size_t load = 0; load < loads; ++load) {
      size_t at = chunk * loads + load;
      cost += mixture.up[at] * static_cast<double>(joints[end].there[load]);
      if (inside)
        cost += mixture.down[at] * static_cast<double>(joints[end].back[load]);
    }
  if (double share = mixture.reduction[order.lists().chunkStage[chunk]]; share > 0) {
    // The latency counts once a stage: with one chunk, here.
    bool alone = order.chunksOf(order.lists().chunkStage[chunk]).size() == 1;
    int64_t ns = model.reductionNs(begin, end);
    if (!alone && ns > 0)
      ns = std::max<int64_t>(0, ns - model.reductionNs({1, 1}));
    cost += share * static_cast<double>(ns);
  }
  return cost;
}

PathMixtureBound::Answer PathMixtureBound::respond(int64_t limit) {
  sumCosts();
  control.spend(static_cast<int64_t>(model.loads.size()) * order.chunks() * model.layers / 2);
  int64_t chunks = order.chunks(), layers = model.layers;
  least.assign(chunks + 1, std::vector<double>(layers + 1, nowhere));
  std::vector<std::vector<int64_t>> next(chunks, std::vector<int64_t>(layers + 1, -1));
  least[chunks][layers] = 0;
  for (int64_t c = chunks - 1; c >= 0; --c)
    for (int64_t b = c == 0 ? 0 : layers - (chunks - c); b >= c && b >= 0; --b) {
      int64_t last = layers - (chunks - 1 - c);
      for (int64_t e = c + 1 == chunks ? layers : b + 1; e <= last; ++e) {
        if (!isAllowed(c, b, e, limit)) {
          if (model.problem.varyCuts)
            break;
          continue;
        }
        if (least[c + 1][e] == nowhere || isLoneSource(b, e))
          continue;
        control.spend(6 + 3 * static_cast<int64_t>(model.loads.size()));
        double cost = costOf(c, b, e) + least[c + 1][e];
        if (cost < least[c][b]) {
          least[c][b] = cost;
          next[c][b] = e;
        }
      }
    }
  Answer answer;
  if (least[0][0] == nowhere)
    return answer;
  answer.bound = static_cast<int64_t>(least[0][0] * (1 - rounding));
  answer.cuts = {0};
  for (int64_t c = 0; c < chunks; ++c)
    answer.cuts.push_back(next[c][answer.cuts.back()]);
  return answer;
}

} // namespace omnibal::planner
