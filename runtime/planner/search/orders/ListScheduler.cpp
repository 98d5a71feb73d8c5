#include "runtime/planner/search/orders/ListScheduler.h"
#include <algorithm>
#include <deque>

namespace omnibal::planner {
namespace {

class Scheduler {
public:
  Scheduler(const PlanningModel &m, const ChunkLoads &l, const ListPolicy &p)
      : model(m), loads(l), policy(p), chunks(static_cast<int64_t>(l.chunkStage.size())),
        count(m.microbatches), forwardEnd(chunks * count, -1), backwardEnd(chunks * count, -1),
        nextForward(chunks, 0), nextBackward(chunks, 0), clock(m.stages, 0), ahead(m.stages, 0),
        held(m.stages, 0), pending(m.stages), chunksOf(m.stages), feedsInto(chunks),
        feedsOutOf(chunks) {
    lists.chunkStage = loads.chunkStage;
    lists.actions.resize(m.stages);
    for (int64_t c = 0; c < chunks; ++c)
      chunksOf[loads.chunkStage[c]].push_back(c);
    for (const StageTimes::Feed &feed : loads.times.feeds) {
      feedsInto[feed.to].push_back(&feed);
      feedsOutOf[feed.from].push_back(&feed);
    }
  }

  std::optional<MadeLists> run() {
    // What a stage does next changes only with what it does, or with what it hears from another.
    std::vector<Choice> next(model.stages);
    std::vector<char> changed(model.stages, 1);
    for (int64_t left = chunks * count * 3; left > 0; --left) {
      int64_t stage = -1;
      for (int64_t r = 0; r < model.stages; ++r) {
        if (changed[r])
          next[r] = choose(r);
        changed[r] = 0;
        if (next[r].start < unreachable && (stage < 0 || next[r].start < next[stage].start))
          stage = r;
      }
      if (stage < 0)
        return std::nullopt;
      commit(stage, next[stage]);
      int64_t chunk = next[stage].action.chunk;
      changed[stage] = 1;
      for (int64_t other : {std::max<int64_t>(chunk - 1, 0), std::min(chunk + 1, chunks - 1)})
        changed[loads.chunkStage[other]] = 1;
      for (const StageTimes::Feed *feed : feedsOutOf[chunk])
        changed[loads.chunkStage[feed->to]] = 1;
      for (const StageTimes::Feed *feed : feedsInto[chunk])
        changed[loads.chunkStage[feed->from]] = 1;
    }
    int64_t step = 0;
    for (int64_t r = 0; r < model.stages; ++r)
      step = std::max(step, clock[r] + loads.times.reduction[r]);
    return MadeLists{std::move(lists), step};
  }

private:
  struct Choice {
    int64_t start = unreachable;
    Action action;
  };

  size_t at(int64_t chunk, int64_t microbatch) const { return chunk * count + microbatch; }
  size_t cost(int64_t chunk, int64_t microbatch) const {
    return chunk * static_cast<int64_t>(model.loads.size()) + model.loadOf[microbatch];
  }

  /// When the inputs are there; -1: not known yet. The chain holds even where nothing flows, so
  /// that the list is of use for other cuts too.
  int64_t forwardReady(int64_t chunk, int64_t m) const {
    if (chunk > 0 && forwardEnd[at(chunk - 1, m)] < 0)
      return -1;
    int64_t ready = 0;
    for (const StageTimes::Feed *feed : feedsInto[chunk])
      ready = std::max(ready, forwardEnd[at(feed->from, m)] + feed->forward[model.loadOf[m]]);
    return ready;
  }
  int64_t backwardReady(int64_t chunk, int64_t m) const {
    if (forwardEnd[at(chunk, m)] < 0 || (chunk + 1 < chunks && backwardEnd[at(chunk + 1, m)] < 0))
      return -1;
    int64_t ready = forwardEnd[at(chunk, m)];
    for (const StageTimes::Feed *feed : feedsOutOf[chunk])
      if (feed->gradient)
        ready = std::max(ready, backwardEnd[at(feed->to, m)] + feed->backward[model.loadOf[m]]);
    return ready;
  }

  int64_t bytesOf(int64_t chunk, int64_t m) const {
    return std::max(loads.savedBytes[cost(chunk, m)], loads.splitBytes[cost(chunk, m)]);
  }

  /// Whether, once this forward has its bytes, the micro-batches in flight can still be finished
  /// on this stage one after the other.
  bool isSafe(int64_t stage, int64_t chunk, int64_t microbatch) const {
    if (model.memoryOf(stage) == unreachable)
      return true;
    int64_t room = model.memoryOf(stage) - loads.fixedBytes[stage] - held[stage];
    room -= bytesOf(chunk, microbatch);
    if (room < 0)
      return false;
    int64_t oldest = count, newest = microbatch;
    for (int64_t c : chunksOf[stage]) {
      oldest = std::min(oldest, firstHeld(stage, c));
      newest = std::max(newest, nextForward[c] - 1);
    }
    for (int64_t m = std::min(oldest, microbatch); m <= newest; ++m) {
      int64_t needs = 0, has = 0;
      for (int64_t c : chunksOf[stage]) {
        bool begun = m < nextForward[c] || (c == chunk && m == microbatch);
        if (!begun)
          needs += bytesOf(c, m);
        else if (!isReleased(c, m))
          has += bytesOf(c, m);
      }
      if (needs > room)
        return false;
      room += has;
    }
    return true;
  }
  bool isReleased(int64_t chunk, int64_t m) const {
    if (m >= nextBackward[chunk])
      return false;
    const std::deque<Action> &waiting = pending[loads.chunkStage[chunk]];
    return std::none_of(waiting.begin(), waiting.end(),
                        [&](const Action &a) { return a.chunk == chunk && a.microbatch == m; });
  }
  int64_t firstHeld(int64_t stage, int64_t chunk) const {
    int64_t first = nextBackward[chunk];
    for (const Action &a : pending[stage])
      if (a.chunk == chunk)
        first = std::min(first, a.microbatch);
    return first;
  }

  /// Rounds of P micro-batches through a stage's chunks, or the deepest chunk first.
  bool comesBefore(const Action &a, const Action &b) const {
    if (policy.deepestFirst)
      return std::pair(-a.chunk, a.microbatch) < std::pair(-b.chunk, b.microbatch);
    int64_t stages = model.stages;
    return std::tuple(a.microbatch / stages, a.chunk, a.microbatch) <
           std::tuple(b.microbatch / stages, b.chunk, b.microbatch);
  }

  /// The earliest backward, ties to the earliest micro-batch.
  Choice bestBackward(int64_t stage) const {
    Choice best;
    for (int64_t c : chunksOf[stage]) {
      int64_t m = nextBackward[c];
      if (m >= count)
        continue;
      int64_t ready = backwardReady(c, m);
      if (ready < 0)
        continue;
      int64_t start = std::max(ready, clock[stage]);
      if (std::pair(start, m) < std::pair(best.start, best.action.microbatch))
        best = {start, {ActionKind::InputGrad, m, c}};
    }
    return best;
  }

  Choice bestForward(int64_t stage) const {
    Choice best;
    bool any = false;
    for (int64_t c : chunksOf[stage]) {
      int64_t m = nextForward[c];
      if (m >= count)
        continue;
      // The oldest micro-batch of the stage always goes on.
      bool begun = m < nextForward[chunksOf[stage].front()] && c != chunksOf[stage].front();
      if (ahead[stage] >= policy.ahead[stage] && !begun)
        continue;
      int64_t ready = forwardReady(c, m);
      if (ready < 0 || !isSafe(stage, c, m))
        continue;
      Choice choice{std::max(ready, clock[stage]), {ActionKind::Forward, m, c}};
      if (!any || choice.start < best.start ||
          (choice.start == best.start && comesBefore(choice.action, best.action)))
        best = choice;
      any = true;
    }
    return best;
  }

  Choice choose(int64_t stage) const {
    Choice backward = bestBackward(stage);
    if (backward.start <= clock[stage])
      return backward;
    Choice forward = bestForward(stage);
    if (forward.start <= clock[stage])
      return forward;
    const Choice &next = backward.start <= forward.start ? backward : forward;
    if (pending[stage].empty())
      return next;
    const Action &weight = pending[stage].front();
    Choice now{clock[stage], weight};
    int64_t gap = next.start - clock[stage];
    int64_t duration = loads.times.weightGrad[cost(weight.chunk, weight.microbatch)];
    bool worth =
        static_cast<double>(duration - gap) <= policy.delay * static_cast<double>(duration);
    return next.start >= unreachable || worth ? now : next;
  }

  void commit(int64_t stage, const Choice &choice) {
    const Action &a = choice.action;
    size_t c = cost(a.chunk, a.microbatch);
    const ChunkTimes &times = loads.times;
    lists.actions[stage].push_back(a);
    if (a.kind == ActionKind::Forward) {
      clock[stage] = forwardEnd[at(a.chunk, a.microbatch)] = choice.start + times.forward[c];
      ++nextForward[a.chunk];
      ++ahead[stage];
      held[stage] += bytesOf(a.chunk, a.microbatch);
    } else if (a.kind == ActionKind::InputGrad) {
      clock[stage] = backwardEnd[at(a.chunk, a.microbatch)] = choice.start + times.inputGrad[c];
      ++nextBackward[a.chunk];
      --ahead[stage];
      pending[stage].push_back({ActionKind::WeightGrad, a.microbatch, a.chunk});
    } else {
      clock[stage] = choice.start + times.weightGrad[c];
      held[stage] -= bytesOf(a.chunk, a.microbatch);
      pending[stage].pop_front();
    }
  }

  const PlanningModel &model;
  const ChunkLoads &loads;
  const ListPolicy &policy;
  int64_t chunks, count;
  ActionLists lists;
  std::vector<int64_t> forwardEnd, backwardEnd;   ///< by (chunk, micro-batch); -1: not yet
  std::vector<int64_t> nextForward, nextBackward; ///< micro-batch, by chunk
  std::vector<int64_t> clock, ahead, held;        ///< by stage
  std::vector<std::deque<Action>> pending;        ///< W, by stage
  std::vector<std::vector<int64_t>> chunksOf;     ///< by stage
  std::vector<std::vector<const StageTimes::Feed *>> feedsInto, feedsOutOf; ///< by chunk
};

} // namespace

std::optional<MadeLists> makeLists(const PlanningModel &model, const ChunkLoads &loads,
                                   const ListPolicy &policy) {
  return Scheduler(model, loads, policy).run();
}

} // namespace omnibal::planner
