#include "runtime/planner/search/orders/ActionOrder.h"
#include <algorithm>
#include <set>

namespace omnibal::planner {
namespace {

bool holdsNoMore(const std::vector<int32_t> &a, const std::vector<int32_t> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), std::less_equal<>());
}

/// Drops what never holds more than another moment.
void keepLargest(std::vector<Holding> &holdings) {
  std::vector<Holding> kept;
  for (const Holding &h : holdings) {
    auto covers = [](const Holding &a, const Holding &b) {
      return holdsNoMore(b.saved, a.saved) && holdsNoMore(b.split, a.split);
    };
    if (std::any_of(kept.begin(), kept.end(), [&](const Holding &k) { return covers(k, h); }))
      continue;
    std::erase_if(kept, [&](const Holding &k) { return covers(h, k); });
    kept.push_back(h);
  }
  holdings = std::move(kept);
}

} // namespace

ActionOrder::ActionOrder(const PlanningModel &m, ActionLists lists)
    : model(m), given(std::move(lists)), chunksOfStage(m.stages), holdingsOfStage(m.stages),
      forwardEnd(chunks() * m.microbatches), backwardEnd(chunks() * m.microbatches),
      clock(m.stages) {
  for (int64_t c = 0; c < chunks(); ++c) {
    std::vector<int64_t> &row = chunksOfStage[given.chunkStage[c]];
    localChunk.push_back(static_cast<int32_t>(row.size()));
    row.push_back(c);
  }
  sortActions();
}

void ActionOrder::sortActions() {
  std::vector<size_t> next(model.stages, 0);
  size_t total = 0;
  for (const auto &list : given.actions)
    total += list.size();
  std::vector<char> ranForward(forwardEnd.size(), 0), ranBackward(backwardEnd.size(), 0);
  for (bool progress = true; progress && places.size() < total;) {
    progress = false;
    for (int64_t r = 0; r < model.stages; ++r)
      for (; next[r] < given.actions[r].size(); ++next[r], progress = true) {
        const Action &a = given.actions[r][next[r]];
        size_t here = a.chunk * model.microbatches + a.microbatch;
        bool forward = a.kind == ActionKind::Forward, weight = a.kind == ActionKind::WeightGrad;
        bool ready = forward  ? a.chunk == 0 || ranForward[here - model.microbatches]
                     : weight ? ranBackward[here]
                              : ranForward[here] && (a.chunk + 1 == chunks() ||
                                                     ranBackward[here + model.microbatches]);
        if (!ready)
          break;
        anySplit |= weight;
        if (forward)
          ranForward[here] = 1;
        else if (!weight)
          ranBackward[here] = 1;
        places.push_back({static_cast<int32_t>(r), static_cast<int32_t>(a.chunk),
                          static_cast<int32_t>(a.microbatch), model.loadOf[a.microbatch], a.kind});
      }
  }
}

const std::vector<Holding> &ActionOrder::holdings(int64_t stage) const {
  std::vector<Holding> &all = holdingsOfStage[stage];
  if (!all.empty())
    return all;
  size_t loads = model.loads.size(), size = chunksOfStage[stage].size() * loads;
  Holding now{std::vector<int32_t>(size, 0), std::vector<int32_t>(size, 0)};
  std::set<std::pair<std::vector<int32_t>, std::vector<int32_t>>> seen;
  for (const Action &a : given.actions[stage]) {
    size_t at = localChunk[a.chunk] * loads + model.loadOf[a.microbatch];
    if (a.kind == ActionKind::Forward) {
      ++now.saved[at];
    } else if (a.kind == ActionKind::InputGrad) {
      --now.saved[at];
      ++now.split[at];
    }
    if (seen.insert({now.saved, now.split}).second)
      all.push_back(now);
    if (a.kind == ActionKind::Backward)
      --now.saved[at];
    else if (a.kind == ActionKind::WeightGrad)
      --now.split[at];
  }
  keepLargest(all);
  return all;
}

int64_t ActionOrder::step(const ChunkTimes &times) {
  const int64_t count = model.microbatches, loads = static_cast<int64_t>(model.loads.size());
  const auto &feeds = times.feeds;
  firstIn.assign(chunks() + 1, 0);
  firstOut.assign(chunks() + 1, 0);
  for (const StageTimes::Feed &feed : feeds) {
    ++firstIn[feed.to + 1];
    ++firstOut[feed.from + 1];
  }
  for (int64_t c = 0; c < chunks(); ++c) {
    firstIn[c + 1] += firstIn[c];
    firstOut[c + 1] += firstOut[c];
  }
  outgoing.resize(feeds.size());
  slots.assign(firstOut.begin(), firstOut.end());
  for (size_t f = 0; f < feeds.size(); ++f)
    outgoing[slots[feeds[f].from]++] = static_cast<int32_t>(f);
  std::fill(clock.begin(), clock.end(), 0);
  for (const Place &p : places) {
    int64_t ready = clock[p.stage];
    int64_t here = p.chunk * count + p.microbatch, at = p.chunk * loads + p.load;
    if (p.kind == ActionKind::Forward) {
      for (int32_t f = firstIn[p.chunk]; f < firstIn[p.chunk + 1]; ++f)
        ready = std::max(ready, forwardEnd[feeds[f].from * count + p.microbatch] +
                                    feeds[f].forward[p.load]);
      clock[p.stage] = forwardEnd[here] = ready + times.forward[at];
      continue;
    }
    if (p.kind == ActionKind::WeightGrad) { // its I came before it on this stage
      clock[p.stage] = ready + times.weightGrad[at];
      continue;
    }
    for (int32_t o = firstOut[p.chunk]; o < firstOut[p.chunk + 1]; ++o)
      if (const StageTimes::Feed &feed = feeds[outgoing[o]]; feed.gradient)
        ready =
            std::max(ready, backwardEnd[feed.to * count + p.microbatch] + feed.backward[p.load]);
    ready += times.inputGrad[at];
    if (p.kind == ActionKind::Backward)
      ready += times.weightGrad[at];
    clock[p.stage] = backwardEnd[here] = ready;
  }
  int64_t step = 0;
  for (int64_t r = 0; r < model.stages; ++r)
    step = std::max(step, clock[r] + times.reduction[r]);
  return step;
}

void setTimes(const PlanningModel &model, const std::vector<int64_t> &chunkStage,
              const std::vector<int64_t> &cuts, ChunkTimes &times) {
  size_t loads = model.loads.size(), size = chunkStage.size() * loads;
  times.forward.resize(size);
  times.inputGrad.resize(size);
  times.weightGrad.resize(size);
  std::vector<ReplicaBytes> reduced(model.stages);
  for (size_t c = 0; c < chunkStage.size(); ++c) {
    int64_t begin = cuts[c], end = cuts[c + 1];
    for (size_t number = 0; number < loads; ++number) {
      const LoadModel &load = model.loads[number];
      size_t at = c * loads + number;
      times.forward[at] = load.forwardSum[end] - load.forwardSum[begin];
      times.inputGrad[at] = load.inputGradSum[end] - load.inputGradSum[begin];
      times.weightGrad[at] = load.backwardSum[end] - load.backwardSum[begin] - times.inputGrad[at];
    }
    ReplicaBytes &ofStage = reduced[chunkStage[c]];
    ofStage = ofStage + (model.replicaSum[end] - model.replicaSum[begin]);
  }
  times.reduction.clear();
  for (const ReplicaBytes &bytes : reduced)
    times.reduction.push_back(model.reductionNs(bytes));
  StageTimes found;
  findFeeds(model, cuts, found);
  times.feeds = std::move(found.feeds);
  for (StageTimes::Feed &feed : times.feeds)
    if (chunkStage[feed.from] == chunkStage[feed.to]) {
      std::fill(feed.forward.begin(), feed.forward.end(), 0);
      std::fill(feed.backward.begin(), feed.backward.end(), 0);
    }
}

} // namespace omnibal::planner
