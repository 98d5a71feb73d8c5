#include "runtime/planner/search/ListScheduler.h"
#include <algorithm>
#include <deque>

namespace omnibal::planner {
namespace {

class Scheduler {
public:
  Scheduler(const PlanningModel &m, const ChunkLoads &l, const ListPolicy &p)
      : model(m), loads(l), policy(p), chunks(static_cast<int64_t>(l.chunkRank.size())),
        count(m.microbatches), forwardEnd(chunks * count, -1), backwardEnd(chunks * count, -1),
        nextForward(chunks, 0), nextBackward(chunks, 0), clock(m.stages, 0), ahead(m.stages, 0),
        held(m.stages, 0), pending(m.stages), chunksOf(m.stages), feedsInto(chunks),
        feedsOutOf(chunks) {
    lists.chunkRank = loads.chunkRank;
    lists.actions.resize(m.stages);
    for (int64_t c = 0; c < chunks; ++c)
      chunksOf[loads.chunkRank[c]].push_back(c);
    for (const StageTimes::Feed &feed : loads.times.feeds) {
      feedsInto[feed.to].push_back(&feed);
      feedsOutOf[feed.from].push_back(&feed);
    }
  }

  std::optional<MadeLists> run() {
    // What a rank does next changes only with what it does, or with what it hears from another.
    std::vector<Choice> next(model.stages);
    std::vector<char> changed(model.stages, 1);
    for (int64_t left = chunks * count * 3; left > 0; --left) {
      int64_t rank = -1;
      for (int64_t r = 0; r < model.stages; ++r) {
        if (changed[r])
          next[r] = choose(r);
        changed[r] = 0;
        if (next[r].start < unreachable && (rank < 0 || next[r].start < next[rank].start))
          rank = r;
      }
      if (rank < 0)
        return std::nullopt;
      commit(rank, next[rank]);
      int64_t chunk = next[rank].action.chunk;
      changed[rank] = 1;
      for (int64_t other : {std::max<int64_t>(chunk - 1, 0), std::min(chunk + 1, chunks - 1)})
        changed[loads.chunkRank[other]] = 1;
      for (const StageTimes::Feed *feed : feedsOutOf[chunk])
        changed[loads.chunkRank[feed->to]] = 1;
      for (const StageTimes::Feed *feed : feedsInto[chunk])
        changed[loads.chunkRank[feed->from]] = 1;
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
  /// on this rank one after the other.
  bool isSafe(int64_t rank, int64_t chunk, int64_t microbatch) const {
    if (model.memoryOf(rank) == unreachable)
      return true;
    int64_t room = model.memoryOf(rank) - loads.fixedBytes[rank] - held[rank];
    room -= bytesOf(chunk, microbatch);
    if (room < 0)
      return false;
    int64_t oldest = count, newest = microbatch;
    for (int64_t c : chunksOf[rank]) {
      oldest = std::min(oldest, firstHeld(rank, c));
      newest = std::max(newest, nextForward[c] - 1);
    }
    for (int64_t m = std::min(oldest, microbatch); m <= newest; ++m) {
      int64_t needs = 0, has = 0;
      for (int64_t c : chunksOf[rank]) {
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
    const std::deque<Action> &waiting = pending[loads.chunkRank[chunk]];
    return std::none_of(waiting.begin(), waiting.end(),
                        [&](const Action &a) { return a.chunk == chunk && a.microbatch == m; });
  }
  int64_t firstHeld(int64_t rank, int64_t chunk) const {
    int64_t first = nextBackward[chunk];
    for (const Action &a : pending[rank])
      if (a.chunk == chunk)
        first = std::min(first, a.microbatch);
    return first;
  }

  /// Rounds of P micro-batches through a rank's chunks, or the deepest chunk first.
  bool comesBefore(const Action &a, const Action &b) const {
    if (policy.deepestFirst)
      return std::pair(-a.chunk, a.microbatch) < std::pair(-b.chunk, b.microbatch);
    int64_t stages = model.stages;
    return std::tuple(a.microbatch / stages, a.chunk, a.microbatch) <
           std::tuple(b.microbatch / stages, b.chunk, b.microbatch);
  }

  /// The earliest backward, ties to the earliest micro-batch.
  Choice bestBackward(int64_t rank) const {
    Choice best;
    for (int64_t c : chunksOf[rank]) {
      int64_t m = nextBackward[c];
      if (m >= count)
        continue;
      int64_t ready = backwardReady(c, m);
      if (ready < 0)
        continue;
      int64_t start = std::max(ready, clock[rank]);
      if (std::pair(start, m) < std::pair(best.start, best.action.microbatch))
        best = {start, {ActionKind::InputGrad, m, c}};
    }
    return best;
  }

  Choice bestForward(int64_t rank) const {
    Choice best;
    bool any = false;
    for (int64_t c : chunksOf[rank]) {
      int64_t m = nextForward[c];
      if (m >= count)
        continue;
      // The oldest micro-batch of the rank always goes on.
      bool begun = m < nextForward[chunksOf[rank].front()] && c != chunksOf[rank].front();
      if (ahead[rank] >= policy.ahead[rank] && !begun)
        continue;
      int64_t ready = forwardReady(c, m);
      if (ready < 0 || !isSafe(rank, c, m))
        continue;
      Choice choice{std::max(ready, clock[rank]), {ActionKind::Forward, m, c}};
      if (!any || choice.start < best.start ||
          (choice.start == best.start && comesBefore(choice.action, best.action)))
        best = choice;
      any = true;
    }
    return best;
  }

  Choice choose(int64_t rank) const {
    Choice backward = bestBackward(rank);
    if (backward.start <= clock[rank])
      return backward;
    Choice forward = bestForward(rank);
    if (forward.start <= clock[rank])
      return forward;
    const Choice &next = backward.start <= forward.start ? backward : forward;
    if (pending[rank].empty())
      return next;
    const Action &weight = pending[rank].front();
    Choice now{clock[rank], weight};
    int64_t gap = next.start - clock[rank];
    int64_t duration = loads.times.weightGrad[cost(weight.chunk, weight.microbatch)];
    bool worth =
        static_cast<double>(duration - gap) <= policy.delay * static_cast<double>(duration);
    return next.start >= unreachable || worth ? now : next;
  }

  void commit(int64_t rank, const Choice &choice) {
    const Action &a = choice.action;
    size_t c = cost(a.chunk, a.microbatch);
    const ChunkTimes &times = loads.times;
    lists.actions[rank].push_back(a);
    if (a.kind == ActionKind::Forward) {
      clock[rank] = forwardEnd[at(a.chunk, a.microbatch)] = choice.start + times.forward[c];
      ++nextForward[a.chunk];
      ++ahead[rank];
      held[rank] += bytesOf(a.chunk, a.microbatch);
    } else if (a.kind == ActionKind::InputGrad) {
      clock[rank] = backwardEnd[at(a.chunk, a.microbatch)] = choice.start + times.inputGrad[c];
      ++nextBackward[a.chunk];
      --ahead[rank];
      pending[rank].push_back({ActionKind::WeightGrad, a.microbatch, a.chunk});
    } else {
      clock[rank] = choice.start + times.weightGrad[c];
      held[rank] -= bytesOf(a.chunk, a.microbatch);
      pending[rank].pop_front();
    }
  }

  const PlanningModel &model;
  const ChunkLoads &loads;
  const ListPolicy &policy;
  int64_t chunks, count;
  ActionLists lists;
  std::vector<int64_t> forwardEnd, backwardEnd;   ///< by (chunk, micro-batch); -1: not yet
  std::vector<int64_t> nextForward, nextBackward; ///< micro-batch, by chunk
  std::vector<int64_t> clock, ahead, held;        ///< by rank
  std::vector<std::deque<Action>> pending;        ///< W, by rank
  std::vector<std::vector<int64_t>> chunksOf;     ///< by rank
  std::vector<std::vector<const StageTimes::Feed *>> feedsInto, feedsOutOf; ///< by chunk
};

} // namespace

std::optional<MadeLists> makeLists(const PlanningModel &model, const ChunkLoads &loads,
                                   const ListPolicy &policy) {
  return Scheduler(model, loads, policy).run();
}

} // namespace omnibal::planner
