//===- StepBound.cpp ---------------------------------------------------------------------===//
#include "runtime/planner/step/StepBound.h"
#include <algorithm>
#include <queue>

namespace omnibal::planner {
namespace {

/// The least times of a unit's actions. Where a whole backward takes less than its halves, they are
/// shortened to it, so that they stand for either.
struct LeastTimes {
  int64_t forward = 0, inputGrad = 0, weightGrad = 0;
};

LeastTimes leastTimes(const StepUnits &units, int32_t unit) {
  auto least = [&](ActionKind kind) {
    int64_t time = units.duration(unit, 0, kind);
    for (int32_t v = 1; v < units.units[unit].variants; ++v)
      time = std::min(time, units.duration(unit, v, kind));
    return time;
  };
  int64_t whole = least(ActionKind::Backward);
  LeastTimes times{least(ActionKind::Forward), std::min(least(ActionKind::InputGrad), whole), 0};
  times.weightGrad = std::min(least(ActionKind::WeightGrad), whole - times.inputGrad);
  return times;
}

/// A job of one machine: it cannot begin before `head`, and `tail` must follow its end.
struct Job {
  int64_t head = 0, length = 0, tail = 0;
};

/// The least end of the last tail when jobs may be interrupted: always the ready job with the
/// longest tail runs (Jackson).
int64_t preemptiveEnd(std::vector<Job> jobs) {
  std::sort(jobs.begin(), jobs.end(), [](const Job &a, const Job &b) { return a.head < b.head; });
  auto shorterTail = [](const Job &a, const Job &b) { return a.tail < b.tail; };
  std::priority_queue<Job, std::vector<Job>, decltype(shorterTail)> ready(shorterTail);
  int64_t now = 0, end = 0;
  for (size_t next = 0; next < jobs.size() || !ready.empty();) {
    if (ready.empty())
      now = std::max(now, jobs[next].head);
    for (; next < jobs.size() && jobs[next].head <= now; ++next)
      ready.push(jobs[next]);
    Job job = ready.top();
    ready.pop();
    int64_t slice = job.length;
    if (next < jobs.size())
      slice = std::min(slice, jobs[next].head - now);
    now += slice;
    job.length -= slice;
    if (job.length > 0)
      ready.push(job);
    else
      end = std::max(end, now + job.tail);
  }
  return end;
}

/// Ways through the graph of units. Chunks are numbered along their edges, so units are too.
class Ways {
public:
  explicit Ways(const StepUnits &units) : units(units) {
    for (size_t u = 0; u < units.units.size(); ++u)
      times.push_back(leastTimes(units, static_cast<int32_t>(u)));
    findForwardEnds();
    findInputTails();
  }

  int64_t bound() const {
    std::vector<std::vector<Job>> jobs(units.model.problem.stages);
    std::vector<int64_t> inputHeads = findInputHeads(), forwardTails = findForwardTails();
    int64_t longest = 0;
    for (size_t u = 0; u < times.size(); ++u) {
      const LeastTimes &time = times[u];
      std::vector<Job> &stage = jobs[units.units[u].stage];
      stage.push_back({forwardEnds[u] - time.forward, time.forward, forwardTails[u]});
      stage.push_back({inputHeads[u], time.inputGrad, inputTails[u] - time.inputGrad});
      stage.push_back({inputHeads[u] + time.inputGrad, time.weightGrad, 0});
      longest = std::max(longest, forwardEnds[u] + forwardTails[u]);
    }
    for (std::vector<Job> &stage : jobs)
      longest = std::max(longest, preemptiveEnd(std::move(stage)));
    return longest;
  }

  int64_t anyLayout() const {
    const StepProblem &problem = units.model.problem;
    int64_t work = 0, longest = 0;
    for (int64_t m = 0; m < problem.microbatches; ++m) {
      int64_t way = 0;
      for (size_t c = 0; c < problem.chunks.size(); ++c) {
        auto [unit, end] = units.unitsOf(static_cast<int64_t>(c), m);
        for (; unit < end; ++unit) {
          work += times[unit].forward + times[unit].inputGrad + times[unit].weightGrad;
          way += times[unit].forward + times[unit].inputGrad;
        }
      }
      longest = std::max(longest, way);
    }
    return std::max((work + problem.stages - 1) / problem.stages, longest);
  }

  std::vector<int64_t> inputTails; ///< from the begin of the input gradient to the end

private:
  void findForwardEnds() {
    forwardEnds.resize(times.size());
    for (size_t u = 0; u < times.size(); ++u) {
      int64_t head = 0;
      for (const Need &need : units.forwardNeeds(static_cast<int32_t>(u)))
        head = std::max(head, forwardEnds[need.unit] + need.delayNs);
      forwardEnds[u] = head + times[u].forward;
    }
  }
  void findInputTails() {
    inputTails.resize(times.size());
    for (size_t u = 0; u < times.size(); ++u) {
      int64_t after = times[u].weightGrad;
      for (const Need &fed : units.backwardFeeds(static_cast<int32_t>(u)))
        after = std::max(after, fed.delayNs + inputTails[fed.unit]);
      inputTails[u] = times[u].inputGrad + after;
    }
  }
  std::vector<int64_t> findInputHeads() const {
    std::vector<int64_t> heads(times.size());
    for (size_t u = times.size(); u-- > 0;) {
      heads[u] = forwardEnds[u];
      for (const Need &need : units.backwardNeeds(static_cast<int32_t>(u)))
        heads[u] = std::max(heads[u], heads[need.unit] + times[need.unit].inputGrad + need.delayNs);
    }
    return heads;
  }
  /// From the end of the forward to the end of the step.
  std::vector<int64_t> findForwardTails() const {
    std::vector<int64_t> tails(times.size());
    for (size_t u = times.size(); u-- > 0;) {
      tails[u] = inputTails[u];
      for (const Need &fed : units.forwardFeeds(static_cast<int32_t>(u)))
        tails[u] = std::max(tails[u], fed.delayNs + times[fed.unit].forward + tails[fed.unit]);
    }
    return tails;
  }

  const StepUnits &units;
  std::vector<LeastTimes> times;
  std::vector<int64_t> forwardEnds;
};

} // namespace

int64_t stepBound(const StepUnits &units) { return Ways(units).bound(); }

int64_t layoutBound(const StepUnits &units) { return Ways(units).anyLayout(); }

std::vector<int64_t> backwardTails(const StepUnits &units) { return Ways(units).inputTails; }

} // namespace omnibal::planner
