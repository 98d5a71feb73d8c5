#include "runtime/planner/search/bounds/TurnBound.h"
#include <algorithm>

namespace omnibal::planner {

/// The bound is as exact as one part in so many.
constexpr int64_t exactness = 2000;

TurnBound::TurnBound(const PlanningModel &m, const ActionOrder &o, PathMixtureBound &g,
                     SearchControl &c)
    : model(m), order(o), game(g), control(c) {
  isUsable = areInOrder();
  if (isUsable)
    measureParts();
}

bool TurnBound::areInOrder() const {
  if (order.chunks() != model.stages)
    return false;
  for (int64_t s = 0; s < model.stages; ++s) {
    if (order.lists().chunkStage[s] != s)
      return false;
    int64_t forwards = 0, backwards = 0;
    for (const Action &action : order.lists().actions[s]) {
      if (action.kind == ActionKind::WeightGrad)
        continue;
      int64_t &next = action.kind == ActionKind::Forward ? forwards : backwards;
      if (action.microbatch != next++)
        return false;
    }
    if (forwards != model.microbatches || backwards != model.microbatches)
      return false;
  }
  return true;
}

void TurnBound::measureParts() {
  for (const std::vector<Action> &list : order.lists().actions) {
    size_t lastForward = 0, firstBack = list.size(), lastBack = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].kind == ActionKind::Forward) {
        lastForward = i;
      } else if (list[i].kind != ActionKind::WeightGrad) {
        firstBack = std::min(firstBack, i);
        lastBack = i;
      }
    }
    auto share = [&](size_t begin, size_t end) {
      size_t loads = model.loads.size();
      Share part{std::vector<int64_t>(loads), std::vector<int64_t>(loads),
                 std::vector<int64_t>(loads)};
      for (size_t i = begin; i < end; ++i) {
        int load = model.loadOf[list[i].microbatch];
        part.forward[load] += list[i].kind == ActionKind::Forward;
        part.inputGrad[load] +=
            list[i].kind == ActionKind::Backward || list[i].kind == ActionKind::InputGrad;
        part.weightGrad[load] +=
            list[i].kind == ActionKind::Backward || list[i].kind == ActionKind::WeightGrad;
      }
      return part;
    };
    size_t end = list.size();
    Parts &own = parts.emplace_back();
    own.toBack = share(0, lastBack + 1);
    own.all = share(0, end);
    own.rising = share(0, lastForward + 1);
    own.turnUp = share(lastForward, lastBack + 1);
    own.turnUpEnd = share(lastForward, end);
    own.turnDown = share(0, firstBack + 1);
    own.falling = share(firstBack + 1, lastBack + 1);
    own.fallingEnd = share(firstBack + 1, end);
    own.trailing = share(lastBack + 1, end);
    own.isFirstWhole = list[firstBack].kind == ActionKind::Backward;
    own.isLastWhole = list[lastBack].kind == ActionKind::Backward;
  }
}

/// None where no choice of the layers fits.
std::optional<TurnBound::StageWays> TurnBound::waysOf(int64_t stage, int64_t begin, int64_t end) {
  std::vector<int64_t> again = game.recomputeOf(stage, begin, end);
  if (again.empty())
    return std::nullopt;
  size_t loads = model.loads.size();
  std::vector<int64_t> forward(loads), inputGrad(loads), weightGrad(loads);
  for (size_t load = 0; load < loads; ++load) {
    const LoadModel &m = model.loads[load];
    forward[load] = m.forwardSum[end] - m.forwardSum[begin];
    int64_t input = m.inputGradSum[end] - m.inputGradSum[begin];
    inputGrad[load] = input + again[load];
    weightGrad[load] = m.backwardSum[end] - m.backwardSum[begin] - input;
  }
  auto time = [&](const Share &part) {
    int64_t sum = 0;
    for (size_t load = 0; load < loads; ++load)
      sum += part.forward[load] * forward[load] + part.inputGrad[load] * inputGrad[load] +
             part.weightGrad[load] * weightGrad[load];
    return sum;
  };
  const Parts &own = parts[stage];
  int first = model.loadOf.front(), last = model.loadOf.back();
  // A whole backward lets its gradient go only at its end.
  int64_t firstBack = inputGrad[first] + (own.isFirstWhole ? weightGrad[first] : 0);
  int64_t lastBack = inputGrad[last] + (own.isLastWhole ? weightGrad[last] : 0);
  return StageWays{begin,
                   end,
                   forward[first],
                   forward[last],
                   firstBack,
                   lastBack,
                   time(own.toBack),
                   time(own.all),
                   time(own.rising),
                   time(own.turnUp),
                   time(own.turnUpEnd),
                   time(own.turnDown),
                   time(own.falling),
                   time(own.fallingEnd),
                   time(own.trailing),
                   model.reductionNs(begin, end)};
}

TurnBound::Front TurnBound::after(const Front &front, const StageWays &s) const {
  const PathMixtureBound::Joint &joint = game.jointAt(s.end);
  int first = model.loadOf.front(), last = model.loadOf.back();
  int64_t there = s.firstForward + joint.there[first], lastThere = joint.there[last];
  Front own;
  own.fill = front.fill + there;
  own.last = std::max(front.last + s.lastForward, front.fill + s.rising) + lastThere;
  if (!joint.returns)
    return own;
  int64_t back = joint.back[last] + s.lastBack, firstBack = joint.back[first] + s.firstBack;
  int64_t ends = back + s.trailing + s.reduction; // the way ends at this stage
  own.span = std::max(own.fill + ends, front.span + there + back);
  own.up = std::max({own.last + ends, front.up + s.lastForward + lastThere + back,
                     front.span + s.rising + lastThere + back});
  own.down =
      std::max({front.down, front.span + s.falling, front.fill + s.fallingEnd + s.reduction}) +
      there + firstBack;
  return own;
}

bool TurnBound::holds(const Front &front, const StageWays &s, int64_t limit) {
  return std::max({front.span + s.toBack, front.fill + s.all + s.reduction, front.up + s.turnUp,
                   front.last + s.turnUpEnd + s.reduction, front.down + s.turnDown}) <= limit;
}

/// Whether there are cuts for which no way is longer than `limit`, as far as the least of each kind
/// of way to every cut tells.
bool TurnBound::isPossible(int64_t limit) {
  int64_t layers = model.layers, stages = model.stages;
  std::vector<std::optional<Front>> fronts(layers + 1), next;
  fronts[0] = Front();
  for (int64_t s = 0; s < stages; ++s) {
    next.assign(layers + 1, std::nullopt);
    for (int64_t b = s; b < layers; ++b) {
      if (!fronts[b])
        continue;
      for (int64_t e = s + 1 == stages ? layers : b + 1; e <= layers - (stages - 1 - s); ++e) {
        if (model.workSum[e] - model.workSum[b] > limit)
          break;
        if (game.isLoneSource(b, e))
          continue;
        if (!control.spend(20 * static_cast<int64_t>(model.loads.size())))
          return true;
        std::optional<StageWays> stage = waysOf(s, b, e);
        if (!stage || !holds(*fronts[b], *stage, limit))
          continue;
        if (e == layers)
          return true;
        Front reached = after(*fronts[b], *stage);
        if (!next[e]) {
          next[e] = reached;
          continue;
        }
        next[e]->fill = std::min(next[e]->fill, reached.fill);
        next[e]->last = std::min(next[e]->last, reached.last);
        next[e]->span = std::min(next[e]->span, reached.span);
        next[e]->up = std::min(next[e]->up, reached.up);
        next[e]->down = std::min(next[e]->down, reached.down);
      }
    }
    fronts = next;
  }
  return false;
}

int64_t TurnBound::raise(int64_t low, int64_t high) {
  while (high - low > low / exactness && !control.exhausted()) {
    int64_t middle = low + (high - low) / 2;
    if (isPossible(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

} // namespace omnibal::planner
