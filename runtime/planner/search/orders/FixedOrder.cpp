#include "runtime/planner/search/orders/FixedOrder.h"
#include "runtime/planner/model/ScheduleRules.h"
#include <algorithm>

namespace omnibal::planner {

void findFeeds(const PlanningModel &model, const std::vector<int64_t> &cuts, StageTimes &times) {
  times.feeds.clear();
  const std::vector<Edge> &edges = model.problem.edges;
  size_t loads = model.loads.size();
  struct Sum {
    int32_t from;
    bool sends, returns;
    std::vector<int64_t> forward, backward;
  };
  std::vector<Sum> sums;
  for (size_t c = 1; c + 1 < cuts.size(); ++c) {
    sums.clear();
    for (int64_t layer = cuts[c]; layer < cuts[c + 1]; ++layer)
      for (int e : model.edgesInto[layer]) {
        if (edges[e].from >= cuts[c])
          continue;
        auto chunk = static_cast<int32_t>(
            std::upper_bound(cuts.begin(), cuts.end(), edges[e].from) - cuts.begin() - 1);
        auto sum =
            std::find_if(sums.begin(), sums.end(), [&](const Sum &s) { return s.from == chunk; });
        if (sum == sums.end())
          sum = sums.insert(sums.end(), Sum{chunk, false, false, std::vector<int64_t>(loads),
                                            std::vector<int64_t>(loads)});
        sum->sends |= edges[e].bytes != 0;
        sum->returns |= edges[e].gradBytes != 0;
        for (size_t load = 0; load < loads; ++load) {
          sum->forward[load] += model.loads[load].edgeBytes[e];
          sum->backward[load] += model.loads[load].edgeGradBytes[e];
        }
      }
    for (Sum &sum : sums) {
      for (size_t load = 0; load < loads; ++load) {
        sum.forward[load] = sum.sends ? model.transferNs(sum.forward[load]) : 0;
        sum.backward[load] = sum.returns ? model.transferNs(sum.backward[load]) : 0;
      }
      times.feeds.push_back({sum.from, static_cast<int32_t>(c), sum.returns, std::move(sum.forward),
                             std::move(sum.backward)});
    }
  }
}

FixedOrder::FixedOrder(const PlanningModel &m)
    : model(m), forwardEnd(m.stages * m.microbatches), backwardEnd(m.stages * m.microbatches),
      clock(m.stages) {
  // Valid whatever feeds what: a forward after the same micro-batch's on all earlier stages, a
  // backward after its own forward and the backwards on all later stages.
  auto lists = *scheduleActions(m.problem.schedule, m.stages, m.microbatches);
  std::vector<size_t> next(m.stages, 0);
  std::vector<int64_t> forwards(m.stages, 0), backwards(m.stages, 0);
  size_t total = static_cast<size_t>(2 * m.stages * m.microbatches);
  while (order.size() < total)
    for (int64_t s = 0; s < m.stages; ++s)
      while (next[s] < lists[s].size()) {
        const Action &a = lists[s][next[s]];
        bool backward = a.kind != ActionKind::Forward;
        bool ready = backward ? s + 1 == m.stages || backwards[s + 1] > a.microbatch
                              : s == 0 || forwards[s - 1] > a.microbatch;
        if (!ready)
          break;
        order.push_back({static_cast<int32_t>(s), static_cast<int32_t>(a.microbatch), backward});
        ++(backward ? backwards : forwards)[s];
        ++next[s];
      }
}

int64_t FixedOrder::step(const StageTimes &times) { return run(times, model.stages, {}); }

int64_t FixedOrder::stepOfPrefix(const StageTimes &times, int64_t stages,
                                 const std::vector<int64_t> &echo) {
  return run(times, stages, echo);
}

int64_t FixedOrder::run(const StageTimes &times, int64_t stages, const std::vector<int64_t> &echo) {
  const int64_t count = model.microbatches;
  const size_t loads = model.loads.size();
  const auto &feeds = times.feeds;
  firstIn.assign(stages + 1, 0);
  firstOut.assign(stages + 1, 0);
  for (const StageTimes::Feed &feed : feeds) {
    ++firstIn[feed.to + 1];
    ++firstOut[feed.from + 1];
  }
  for (int64_t s = 0; s < stages; ++s) {
    firstIn[s + 1] += firstIn[s];
    firstOut[s + 1] += firstOut[s];
  }
  outgoing.resize(feeds.size());
  slots.assign(firstOut.begin(), firstOut.end());
  for (size_t f = 0; f < feeds.size(); ++f)
    outgoing[slots[feeds[f].from]++] = static_cast<int32_t>(f);
  std::fill(clock.begin(), clock.end(), 0);
  for (const Place &p : order) {
    if (p.stage >= stages)
      continue;
    int load = model.loadOf[p.microbatch];
    int64_t ready = clock[p.stage], *end;
    if (!p.backward) {
      for (int32_t f = firstIn[p.stage]; f < firstIn[p.stage + 1]; ++f)
        ready = std::max(ready,
                         forwardEnd[feeds[f].from * count + p.microbatch] + feeds[f].forward[load]);
      end = &forwardEnd[p.stage * count + p.microbatch];
      ready += times.forward[p.stage * loads + load];
    } else {
      for (int32_t o = firstOut[p.stage]; o < firstOut[p.stage + 1]; ++o) {
        const StageTimes::Feed &feed = feeds[outgoing[o]];
        if (feed.gradient)
          ready =
              std::max(ready, backwardEnd[feed.to * count + p.microbatch] + feed.backward[load]);
      }
      if (!echo.empty() && p.stage + 1 == stages)
        ready = std::max(ready, forwardEnd[p.stage * count + p.microbatch] + echo[load]);
      end = &backwardEnd[p.stage * count + p.microbatch];
      ready += times.backward[p.stage * loads + load];
    }
    clock[p.stage] = *end = ready;
  }
  int64_t step = 0;
  for (int64_t s = 0; s < stages; ++s)
    step = std::max(step, clock[s] + times.reduction[s]);
  return step;
}

} // namespace omnibal::planner
