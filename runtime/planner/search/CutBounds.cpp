//===- CutBounds.cpp - Ways through the schedule that every plan contains -------------------===//
//
// With w forwards before its first backward (1f1b: w = P - 1 - s; gpipe: M - 1), stage s runs
//
//     F(0) .. F(w)  B(0) F(w+1)  B(1) ..  F(M-1)  B(M-1-w)  B(M-w) .. B(M-1)
//
// A way may follow one stage's list, go on to a later stage with a forward and return with a
// backward:
//
//     span   F(0) of stages < s, all of stage s, B(M-1) of stages < s
//     up     F(0) to r, stage r up to F(M-1), on to s with F(M-1), stage s to its end, back
//     down   F(0) to s, stage s up to B(0), back to r with B(0), stage r to its end, back
//     both   gpipe: all forwards of one stage, all backwards of another
//
//===----------------------------------------------------------------------------------------===//
#include "runtime/planner/search/CutSearch.h"
#include <algorithm>

namespace omnibal::planner {

void CutSearch::sumLayers() {
  const int64_t count = model.microbatches;
  for (int64_t s = 0; s < model.stages; ++s) {
    countEarly.push_back(std::vector<int64_t>(model.loads.size(), 0));
    countLate.push_back(countEarly.back());
    for (int64_t m = 0; m < model.inFlight(s); ++m) {
      ++countEarly[s][model.loadOf[m]];
      ++countLate[s][model.loadOf[count - 1 - m]];
    }
  }
}

/// From each layer forward to the end and back, along edges between neighbors.
void CutSearch::measureChain() {
  for (size_t number = 0; number < model.loads.size(); ++number) {
    const LoadModel &load = model.loads[number];
    std::vector<int64_t> chain(model.layers + 1, 0), cheapest(model.layers + 1, 0);
    for (int64_t l = model.layers - 1; l >= 0; --l) {
      chain[l] = load.forward[l] + load.backward[l];
      if (l + 1 == model.layers)
        continue;
      Joint joint = jointAt(l, l + 1);
      if (!joint.feeds || !joint.returns)
        continue;
      int64_t next = l + 1 + model.edgesInto[l + 1].empty();
      chain[l] += chain[next];
      auto [there, back] = jointNs(l, l + 1, static_cast<int>(number));
      cheapest[l] =
          next + 1 == model.layers ? there + back : std::min(there + back, cheapest[next]);
    }
    chainNs.push_back(std::move(chain));
    cheapestCut.push_back(std::move(cheapest));
  }
}

CutSearch::Stage CutSearch::stageOf(int64_t index, int64_t begin, int64_t end,
                                    const RematChoice &choice) const {
  Stage stage;
  stage.begin = begin;
  stage.end = end;
  stage.choice = &choice;
  int64_t backwards = 0, lateBackwards = 0, earlyForwards = 0;
  int firstLoad = model.loadOf.front(), lastLoad = model.loadOf.back();
  for (int number = 0; number < static_cast<int>(model.loads.size()); ++number) {
    const LoadModel &load = model.loads[number];
    int64_t f = load.forwardSum[end] - load.forwardSum[begin];
    int64_t b = load.backwardSum[end] - load.backwardSum[begin] + choice[number];
    stage.forwards += model.countOf[number] * f;
    backwards += model.countOf[number] * b;
    earlyForwards += countEarly[index][number] * f;
    lateBackwards += countLate[index][number] * b;
    if (number == firstLoad) {
      stage.firstForward = f;
      stage.firstBackward = b;
    }
    if (number == lastLoad) {
      stage.lastForward = f;
      stage.lastBackward = b;
    }
  }
  stage.work = stage.forwards + backwards;
  stage.laterBackwards = backwards - stage.firstBackward;
  stage.rising = stage.forwards + backwards - lateBackwards;
  stage.turnUp = stage.lastForward + lateBackwards;
  stage.falling = stage.forwards - earlyForwards + stage.laterBackwards;
  stage.turnDown = earlyForwards + stage.firstBackward;
  stage.reduction = model.reductionNs(begin, end);
  return stage;
}

/// The edges from layers [begin, end) into the layer after them, or into the one behind it where
/// that is a source: visit(number, edge).
template <typename Visit>
void CutSearch::forEachJointEdge(int64_t begin, int64_t end, Visit visit) const {
  bool source = model.edgesInto[end].empty() && end + 1 < model.layers;
  for (int e : model.edgesInto[source ? end + 1 : end])
    if (const Edge &edge = model.problem.edges[e]; edge.from >= begin && edge.from < end)
      visit(e, edge);
}

/// Transfer times, there and back, between layers [begin, end) and the layer after them.
std::pair<int64_t, int64_t> CutSearch::jointNs(int64_t begin, int64_t end, int load) const {
  int64_t forward = 0, backward = 0;
  bool sends = false, returns = false;
  forEachJointEdge(begin, end, [&](int e, const Edge &edge) {
    sends |= edge.bytes != 0;
    returns |= edge.gradBytes != 0;
    forward += model.loads[load].edgeBytes[e];
    backward += model.loads[load].edgeGradBytes[e];
  });
  return {sends ? model.transferNs(forward) : 0, returns ? model.transferNs(backward) : 0};
}

CutSearch::Joint CutSearch::jointAt(int64_t begin, int64_t end) const {
  Joint joint;
  forEachJointEdge(begin, end, [&](int, const Edge &edge) {
    joint.feeds = true;
    joint.returns |= edge.gradBytes != 0;
  });
  if (!joint.feeds)
    return joint;
  int first = model.loadOf.front(), last = model.loadOf.back();
  std::pair<int64_t, int64_t> ns = jointNs(begin, end, first);
  std::tie(joint.firstThere, joint.firstBack) = ns;
  std::tie(joint.lastThere, joint.lastBack) = first == last ? ns : jointNs(begin, end, last);
  return joint;
}

void CutSearch::PathLabel::lower(const PathLabel &other) {
  fill = std::min(fill, other.fill);
  last = std::min(last, other.last);
  span = std::min(span, other.span);
  up = std::min(up, other.up);
  down = std::min(down, other.down);
  both = std::min(both, other.both);
}

void CutSearch::PathLabel::raise(const PathLabel &other) {
  fill = std::max(fill, other.fill);
  last = std::max(last, other.last);
  span = std::max(span, other.span);
  up = std::max(up, other.up);
  down = std::max(down, other.down);
  both = std::max(both, other.both);
}

bool CutSearch::PathLabel::within(const PathLabel &room) const {
  return span <= room.span && up <= room.up && down <= room.down && both <= room.both;
}

/// A stage that nothing feeds, because it is a source alone: the chain passes it by.
bool CutSearch::isLoneSource(int64_t begin, int64_t end) const {
  return begin > 0 && end == begin + 1 && end < model.layers && model.edgesInto[begin].empty();
}

CutSearch::PathLabel CutSearch::after(const PathLabel &before, const Stage &s) const {
  Joint joint = jointAt(s.begin, s.end);
  bool lone = isLoneSource(s);
  PathLabel front = lone ? PathLabel() : before, next = lone ? before : PathLabel(), own;
  if (joint.feeds) {
    own.fill = front.fill + s.firstForward + joint.firstThere;
    own.last = std::max(front.last + s.lastForward, front.fill + s.rising) + joint.lastThere;
  }
  own.span = std::max(next.fill, own.fill);
  own.up = std::max(next.last, own.last);
  if (joint.returns) {
    // With the last micro-batch, and with the first one.
    int64_t back = joint.lastBack + s.lastBackward;
    int64_t firstBack = joint.firstBack + s.firstBackward;
    own.span += back + s.reduction;
    own.up += back + s.reduction;
    if (joint.feeds) {
      int64_t there = s.firstForward + joint.firstThere;
      own.span = std::max(own.span, front.span + there + back);
      own.up = std::max(own.up, std::max(front.up + s.lastForward, front.span + s.rising) +
                                    joint.lastThere + back);
      own.down = std::max(front.down, front.span + s.falling) + there + firstBack;
      if (model.isGpipe())
        own.both =
            std::max({front.both + s.lastForward, front.up + s.lastForward + s.laterBackwards,
                      front.down + s.forwards, front.span + s.forwards + s.laterBackwards}) +
            joint.lastThere + firstBack;
    }
  }
  next.raise(own);
  return next;
}

bool CutSearch::holds(const PathLabel &front, const Stage &s, int64_t limit) const {
  if (isLoneSource(s))
    return s.work + s.reduction <= limit;
  return std::max({front.span + s.work, front.fill + s.work + s.reduction, front.up + s.turnUp,
                   front.last + s.turnUp + s.reduction, front.down + s.turnDown,
                   front.both + s.lastForward + s.firstBackward}) <= limit;
}

/// The largest front before a stage such that it stays within `room` after it and within `limit` in
/// it. What the stage adds by itself is for `after` and `holds` to judge.
CutSearch::PathLabel CutSearch::roomBefore(const PathLabel &room, const Stage &s,
                                           int64_t limit) const {
  if (isLoneSource(s))
    return room;
  PathLabel most;
  most.span = limit - s.work;
  most.up = limit - s.turnUp;
  most.down = limit - s.turnDown;
  most.both = limit - s.lastForward - s.firstBackward;
  if (s.end == model.layers)
    return most;
  Joint joint = jointAt(s.begin, s.end);
  if (!joint.feeds || !joint.returns)
    return most;
  int64_t there = s.firstForward + joint.firstThere, lastThere = s.lastForward + joint.lastThere;
  int64_t back = joint.lastBack + s.lastBackward, firstBack = joint.firstBack + s.firstBackward;
  most.span = std::min(most.span, room.span - there - back);
  most.up = std::min(most.up, room.up - lastThere - back);
  most.down = std::min(most.down, room.down - there - firstBack);
  most.both = std::min(most.both, room.both - lastThere - firstBack);
  return most;
}

} // namespace omnibal::planner
