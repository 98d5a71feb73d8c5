//===- StepPlans.cpp ---------------------------------------------------------------------===//
#include "runtime/schedule/StepPlans.h"
#include "runtime/planner/step/StepProblemJson.h"
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

namespace omnibal::rt {
namespace {

/// Steps beyond the last one taken that are planned, and steps before it whose plans are kept.
constexpr int64_t stepsAhead = 2, stepsBehind = 4;

double millisecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

std::string nameOf(int64_t replica, int64_t step) {
  return "step " + std::to_string(step) + " of replica " + std::to_string(replica);
}

/// What the variants of the lists take more than the fastest ones, as a share of what these take.
double recomputedShare(const planner::StepUnits &units, const planner::StepLists &lists) {
  double taken = 0, least = 0;
  for (const std::vector<planner::UnitAction> &list : lists.actions)
    for (const planner::UnitAction &action : list) {
      const auto variant = lists.variants[action.unit];
      taken += static_cast<double>(units.duration(action.unit, variant, action.kind));
      least += static_cast<double>(units.duration(action.unit, 0, action.kind));
    }
  return least > 0 ? taken / least - 1 : 0;
}

} // namespace

std::vector<Message> messagesOf(const planner::StepProblem &problem) {
  std::vector<Message> messages;
  for (const planner::StepEdge &edge : problem.edges) {
    const int64_t from = problem.chunks[edge.from].stage, to = problem.chunks[edge.to].stage;
    if (from == to)
      continue;
    auto number = [&] { return static_cast<int32_t>(messages.size()); };
    messages.push_back({number(), false, edge.from, edge.to, from, to});
    if (!edge.gradBytes.isZero())
      messages.push_back({number(), true, edge.to, edge.from, to, from});
  }
  return messages;
}

class StepPlans::State {
public:
  State(planner::StepProblem given, std::vector<Message> messages, StepPlansOptions givenOptions)
      : problem(std::move(given)), messages(std::move(messages)), options(std::move(givenOptions)),
        model(problem), search(problem, options.search) {
    if (!options.plan)
      options.plan = [this](const planner::StepLoads &loads) { return search.plan(loads); };
    try {
      thread = std::thread([this] { planAhead(); });
    } catch (const std::system_error &) {
      // No thread is left: take() makes every plan.
    }
  }

  ~State() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      isStopping = true;
    }
    changed.notify_all();
    if (thread.joinable())
      thread.join();
  }

  Status expect(int64_t replica, const planner::StepLoads &loads) {
    OMNIBAL_RETURN_IF_ERROR(checkLoads(replica, loads));
    {
      std::lock_guard<std::mutex> lock(mutex);
      Replica &one = replicas[replica];
      // A rank that is far behind the others finds it when it takes it.
      if (one.taken && loads.step < *one.taken - stepsBehind)
        return Status::ok();
      OMNIBAL_RETURN_IF_ERROR(entryOf(replica, loads).status());
    }
    changed.notify_all();
    return Status::ok();
  }

  Result<TakenStep> take(int64_t replica, const planner::StepLoads &loads) {
    auto begin = std::chrono::steady_clock::now();
    OMNIBAL_RETURN_IF_ERROR(checkLoads(replica, loads));
    std::unique_lock<std::mutex> lock(mutex);
    OMNIBAL_ASSIGN_OR_RETURN(std::shared_ptr<Entry> entry, entryOf(replica, loads));
    entry->isWanted = true;
    Replica &one = replicas[replica];
    one.taken = std::max(one.taken.value_or(loads.step), loads.step);
    changed.notify_all(); // more steps may be planned
    while (entry->phase != Phase::Made) {
      if (entry->phase == Phase::Begun)
        changed.wait(lock);
      else
        make(*entry, lock);
    }
    Status error = entry->error;
    TakenStep taken{entry->step, millisecondsSince(begin)};
    if (++entry->takes >= options.takers) {
      entry->phase = Phase::Spent;
      entry->step = nullptr;
    }
    drop(replica);
    if (!error)
      return error;
    return taken;
  }

  const planner::StepProblem problem;
  const std::vector<Message> messages;

private:
  enum class Phase {
    Queued,
    Begun, ///< a thread makes it
    Made,
    Spent ///< all have taken it; made again for who takes it nevertheless
  };
  struct Entry {
    Entry(const planner::StepLoads &loads, int64_t replica) : loads(loads), replica(replica) {}

    const planner::StepLoads loads;
    const int64_t replica;
    Phase phase = Phase::Queued;
    std::shared_ptr<const PlannedStep> step; ///< until all have taken it
    Status error;
    bool isWanted = false; ///< somebody takes it
    int64_t takes = 0;
  };
  struct Replica {
    std::map<int64_t, std::shared_ptr<Entry>> entries; ///< by step
    std::optional<int64_t> taken;                      ///< the last step that anybody has taken
  };

  Status checkLoads(int64_t replica, const planner::StepLoads &loads) const {
    std::string why = planner::misfit(problem, loads);
    if (why.empty())
      return Status::ok();
    return invalid(nameOf(replica, loads.step) + ": " + why +
                   "; compose batches within the caps and the micro-batches of the program, or "
                   "compile it for these (--tiles, --tokens, --microbatches)");
  }

  /// The step's entry, made if there is none, or where a step that nobody has begun, or that all
  /// have ended, begins anew with other loads: a sample is left out. `mutex` is held.
  Result<std::shared_ptr<Entry>> entryOf(int64_t replica, const planner::StepLoads &loads) {
    std::shared_ptr<Entry> &entry = replicas[replica].entries[loads.step];
    if (!entry || (entry->loads != loads && (!entry->isWanted || entry->phase == Phase::Spent)))
      entry = std::make_shared<Entry>(loads, replica);
    if (entry->loads != loads)
      return invalid(nameOf(replica, loads.step) +
                     " is announced with two kinds of loads; all its ranks must read the same "
                     "data set and steps");
    return entry;
  }

  PlannedStep planned(const planner::StepLoads &loads) const {
    auto begin = std::chrono::steady_clock::now();
    PlannedStep result;
    result.plan = options.plan(loads);
    planner::StepUnits units(model, loads, result.plan.borders);
    planner::StepLists lists = planner::listsOf(units, result.plan);
    std::optional<planner::StepTimes> times = planner::timesOf(units, lists);
    if (!times)
      throw std::logic_error("the plan's lists cannot finish");
    result.times = plannedTimes(units, lists, *times);
    result.recomputed = recomputedShare(units, lists);
    if (result.plan.method == planner::StepMethod::Lists)
      result.lists =
          insertCommunication(result.plan.actions, result.times, messages, options.order);
    result.planMs = millisecondsSince(begin);
    return result;
  }

  /// Makes the plan of an entry that is queued; `lock` is released meanwhile.
  void make(Entry &entry, std::unique_lock<std::mutex> &lock) {
    entry.phase = Phase::Begun;
    lock.unlock();
    std::shared_ptr<const PlannedStep> step;
    Status error;
    try {
      step = std::make_shared<const PlannedStep>(planned(entry.loads));
    } catch (const std::bad_alloc &) {
      error = {Code::OutOfMemory,
               nameOf(entry.replica, entry.loads.step) + ": there is no memory left to plan it"};
    } catch (const std::exception &exception) {
      error = {Code::Internal, nameOf(entry.replica, entry.loads.step) +
                                   ": planning it failed: " + exception.what()};
    }
    lock.lock();
    entry.step = std::move(step);
    entry.error = std::move(error);
    entry.phase = Phase::Made;
    changed.notify_all();
  }

  /// The earliest step that is queued and not too far ahead. `mutex` is held.
  std::shared_ptr<Entry> nextEntry() const {
    std::shared_ptr<Entry> next;
    for (const auto &[number, replica] : replicas) {
      if (replica.entries.empty())
        continue;
      int64_t last = replica.taken.value_or(replica.entries.begin()->first - 1) + stepsAhead;
      for (const auto &[step, entry] : replica.entries)
        if (step <= last && entry->phase == Phase::Queued && (!next || step < next->loads.step))
          next = entry;
    }
    return next;
  }

  void planAhead() {
    std::unique_lock<std::mutex> lock(mutex);
    while (!isStopping) {
      if (std::shared_ptr<Entry> entry = nextEntry())
        make(*entry, lock);
      else
        changed.wait(lock);
    }
  }

  /// Forgets steps that are far behind. Who waits for one of them holds its entry.
  void drop(int64_t replica) {
    Replica &one = replicas[replica];
    one.entries.erase(one.entries.begin(), one.entries.lower_bound(*one.taken - stepsBehind));
  }

  StepPlansOptions options;
  const planner::StepModel model;
  const planner::StepPlanner search;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int64_t, Replica> replicas;
  bool isStopping = false;
  std::thread thread;
};

StepPlans::StepPlans(planner::StepProblem problem, std::vector<Message> messages,
                     StepPlansOptions options)
    : state(std::make_unique<State>(std::move(problem), std::move(messages), std::move(options))) {}

StepPlans::~StepPlans() = default;

const planner::StepProblem &StepPlans::problem() const { return state->problem; }

const std::vector<Message> &StepPlans::messages() const { return state->messages; }

Status StepPlans::expect(int64_t replica, const planner::StepLoads &loads) {
  return state->expect(replica, loads);
}

Result<TakenStep> StepPlans::take(int64_t replica, const planner::StepLoads &loads) {
  return state->take(replica, loads);
}

} // namespace omnibal::rt
