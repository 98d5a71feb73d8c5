#include "runtime/planner/search/AutoSearch.h"
#include "runtime/planner/evaluate/Simulator.h"
#include "runtime/planner/model/RoundLayouts.h"
#include "runtime/planner/model/ScheduleRules.h"
#include "runtime/planner/search/ChunkSearch.h"
#include "runtime/planner/search/Infeasible.h"
#include "runtime/planner/search/bounds/WorkBound.h"
#include "runtime/planner/search/orders/ListScheduler.h"
#include <algorithm>

namespace omnibal::planner {
namespace {

constexpr int64_t mostChunks = 4; ///< a stage
/// Plans that go on to have their cuts improved, rounds of that, and its work.
constexpr size_t mostSeeds = 4;
constexpr int mostRounds = 4;
/// Work (SearchControl) for each named schedule, and for list scheduling.
constexpr int64_t namedUnits = 25'000'000, refineUnits = 200'000'000, layoutUnits = 100'000'000,
                  polishUnits = 300'000'000;

class AutoSearch {
public:
  AutoSearch(const PlanningModel &m, SearchControl &c) : model(m), control(c) {}

  std::optional<SearchOutcome> run() {
    if (exceedsAllMemory(model))
      return std::nullopt;
    searchNamed();
    if (seeds.empty())
      searchOneAtATime();
    if (seeds.empty())
      return std::nullopt;
    bound = std::min(workBound(model), best.stepNs);
    refineBest(seeds, refineUnits);
    refineBest(otherLayouts(), refineUnits / 2);
    findCutShort();
    polish();
    merge();
    best.boundNs = std::min(bound, best.stepNs);
    return std::move(best);
  }

private:
  /// The fastest plans get half of what is left of the work each.
  void refineBest(std::vector<SearchOutcome> from, int64_t units) {
    sortByStep(from);
    for (size_t i = 0; model.stages > 1 && i < std::min(from.size(), mostSeeds); ++i) {
      int64_t before = control.spent();
      control.allowInTotal(units / 2);
      refine(from[i]);
      units -= control.spent() - before;
    }
  }

  void consider(const SearchOutcome &found) {
    if (found.stepNs < best.stepNs)
      best = found;
  }

  /// Every named schedule that there are enough layers for.
  void searchNamed() {
    std::vector<std::string> names = {"1f1b", "zb-h1", "gpipe"};
    for (int64_t v = 2; v <= mostChunks && model.stages > 1; ++v)
      names.push_back("interleaved:" + std::to_string(v));
    for (const std::string &name : names) {
      Problem problem = model.problem;
      problem.schedule = name;
      int64_t chunks = model.stages * *chunksPerStage(name);
      if (chunks > model.layers || !fitsGivenCuts(chunks) || control.stoppedByTime())
        continue;
      PlanningModel named(problem);
      control.allowInTotal(namedUnits);
      if (std::optional<SearchOutcome> found = searchFixed(named, control, Effort::Proof)) {
        found->method = name;
        consider(*found);
        seeds.push_back(std::move(*found));
      }
    }
  }

  /// Named schedules that were cut short close to the best plan are searched as by themselves.
  void polish() {
    for (const std::string &name : cutShort) {
      Problem problem = model.problem;
      problem.schedule = name;
      PlanningModel named(problem);
      control.allowInTotal(polishUnits / static_cast<int64_t>(cutShort.size()));
      if (std::optional<SearchOutcome> found = searchFixed(named, control, Effort::Proof)) {
        found->method = name;
        consider(*found);
      }
    }
  }

  void findCutShort() {
    for (const SearchOutcome &seed : seeds)
      if (seed.boundNs < seed.stepNs && seed.stepNs <= best.stepNs + best.stepNs / 100 &&
          chunksPerStage(seed.method))
        cutShort.push_back(seed.method);
  }

  bool fitsGivenCuts(int64_t chunks) const {
    return model.problem.varyCuts ||
           static_cast<int64_t>(model.problem.givenCuts.size()) == chunks + 1;
  }

  /// Searches where memory rules out every named schedule: a micro-batch at a time.
  void searchOneAtATime() {
    for (int64_t perStage = 1; perStage <= mostChunks && seeds.empty(); ++perStage) {
      int64_t chunks = model.stages * perStage;
      if (chunks > model.layers || !fitsGivenCuts(chunks) || control.stoppedByTime())
        continue;
      ActionLists lists{stagesInTurn(chunks, model.stages),
                        oneAtATime(chunks, model.stages, model.microbatches)};
      control.allowInTotal(refineUnits);
      ChunkSearch search(model, std::move(lists), control);
      if (search.run(Effort::Quick))
        seeds.push_back(resultOf(search, "one at a time"));
    }
    for (const SearchOutcome &seed : seeds)
      consider(seed);
  }

  /// Layouts that no named schedule has: rounds of chunks over the stages and back, and chunks of
  /// the vision component apart from the others. Each becomes a seed with the options of the best
  /// named plan and the better one of a few lists.
  std::vector<SearchOutcome> otherLayouts() {
    std::vector<SearchOutcome> layouts;
    if (model.stages < 2 || !model.problem.varyCuts)
      return layouts;
    std::vector<int64_t> work;
    for (int64_t l = 0; l < model.layers; ++l)
      work.push_back(model.workSum[l + 1] - model.workSum[l]);
    int64_t vision = 0;
    while (vision < model.layers && model.problem.layers[vision].kind == "vision")
      ++vision;
    control.allowInTotal(layoutUnits);
    for (const RoundLayout &layout : roundLayouts(work, vision, model.stages, mostChunks))
      if (layout.wave || layout.visionRounds > 0)
        if (std::optional<SearchOutcome> plan = layoutPlan(layout))
          layouts.push_back(std::move(*plan));
    return layouts;
  }

  static std::string nameOf(const RoundLayout &layout) {
    std::string name = layout.visionRounds == 0
                           ? std::to_string(layout.rounds) + " rounds"
                           : std::to_string(layout.visionRounds) + " rounds of vision and " +
                                 std::to_string(layout.rounds) + " others";
    return name + (layout.wave ? " in a wave" : "");
  }

  std::optional<SearchOutcome> layoutPlan(const RoundLayout &layout) {
    auto chunks = static_cast<int64_t>(layout.stages.size());
    SearchOutcome seed = best;
    seed.cuts = layout.cuts;
    seed.lists = {layout.stages, {}};
    SearchOutcome fastest = seed;
    fastest.stepNs = unreachable;
    for (const ListPolicy &policy : policies(chunks / model.stages))
      if (policy.delay == 0.5 && !control.exhausted())
        if (SearchOutcome made = withLists(seed, policy); made.stepNs < fastest.stepNs)
          fastest = std::move(made);
    if (fastest.stepNs == unreachable)
      return std::nullopt;
    fastest.method = nameOf(layout);
    consider(fastest);
    return fastest;
  }

  static SearchOutcome resultOf(const ChunkSearch &search, std::string method) {
    return {search.bestCuts(), search.bestOptions(), search.lists(), search.bestStep(), 0,
            std::move(method)};
  }

  static void sortByStep(std::vector<SearchOutcome> &plans) {
    std::sort(plans.begin(), plans.end(), [](const SearchOutcome &a, const SearchOutcome &b) {
      return std::tie(a.stepNs, a.method) < std::tie(b.stepNs, b.method);
    });
  }

  ChunkLoads loadsOf(const SearchOutcome &plan) const {
    size_t loads = model.loads.size(), chunks = plan.lists.chunkStage.size();
    ChunkLoads result;
    result.chunkStage = plan.lists.chunkStage;
    setTimes(model, result.chunkStage, plan.cuts, result.times);
    result.savedBytes.assign(chunks * loads, 0);
    result.splitBytes = result.savedBytes;
    result.fixedBytes.assign(model.stages, 0);
    std::vector<int64_t> workspace(model.stages, 0);
    for (size_t c = 0; c < chunks; ++c) {
      int64_t stage = result.chunkStage[c];
      result.fixedBytes[stage] += model.paramSum[plan.cuts[c + 1]] - model.paramSum[plan.cuts[c]];
      for (int64_t l = plan.cuts[c]; l < plan.cuts[c + 1]; ++l)
        for (size_t load = 0; load < loads; ++load) {
          const RematOption &option = model.loads[load].remat[l][plan.options[l]];
          result.times.inputGrad[c * loads + load] += option.recomputeNs;
          result.savedBytes[c * loads + load] += option.savedBytes;
          result.splitBytes[c * loads + load] += option.splitBytes;
          workspace[stage] = std::max(workspace[stage], option.workspaceBytes);
        }
    }
    for (int64_t r = 0; r < model.stages; ++r)
      result.fixedBytes[r] += workspace[r];
    return result;
  }

  std::vector<ListPolicy> policies(int64_t chunksPerStage) const {
    int64_t stages = model.stages, all = model.microbatches * chunksPerStage;
    std::vector<ListPolicy> list;
    for (double scale : {1.0, 1.5, 2.0, 1e9})
      for (double delay : {0.0, 0.5, 1.0})
        for (bool deepest : {false, true}) {
          if (deepest && chunksPerStage == 1)
            continue;
          ListPolicy policy;
          policy.delay = delay;
          policy.deepestFirst = deepest;
          for (int64_t r = 0; r < stages; ++r) {
            int64_t usual = chunksPerStage == 1
                                ? (scale == 1.0 ? stages : stages - r)
                                : 2 * (stages - 1 - r) + (chunksPerStage - 1) * stages + 1;
            double cap = static_cast<double>(usual) * scale;
            policy.ahead.push_back(cap < static_cast<double>(all) ? static_cast<int64_t>(cap)
                                                                  : all);
          }
          list.push_back(policy);
        }
    return list;
  }

  int64_t listWork(const SearchOutcome &plan) const {
    return 3 * static_cast<int64_t>(plan.lists.chunkStage.size()) * model.microbatches * 150;
  }

  /// The plan with lists made to measure; its step is unreachable if there are none.
  SearchOutcome withLists(SearchOutcome plan, const ListPolicy &policy) {
    ChunkLoads loads = loadsOf(plan);
    plan.stepNs = unreachable;
    control.spend(listWork(plan));
    if (std::optional<MadeLists> made = makeLists(model, loads, policy)) {
      plan.lists = std::move(made->lists);
      plan.stepNs = made->stepNs;
    }
    return plan;
  }

  /// Moves runs of up to three cuts by a layer, making lists anew, as long as that helps.
  void moveCuts(SearchOutcome &plan, const ListPolicy &policy) {
    auto chunks = static_cast<int64_t>(plan.lists.chunkStage.size());
    for (bool better = model.problem.varyCuts; better;) {
      better = false;
      for (int64_t first = 1; first < chunks; ++first)
        for (int64_t last = first; last < std::min(first + 3, chunks); ++last)
          for (int64_t by : {-1, 1}) {
            if (control.exhausted())
              return;
            SearchOutcome moved = plan;
            for (int64_t c = first; c <= last; ++c)
              moved.cuts[c] += by;
            if (moved.cuts[first] <= moved.cuts[first - 1] ||
                moved.cuts[last] >= moved.cuts[last + 1])
              continue;
            moved = withLists(std::move(moved), policy);
            if (moved.stepNs < plan.stepNs) {
              plan = std::move(moved);
              better = true;
            }
          }
    }
  }

  /// Lists for the cuts, cuts for the lists, as long as that helps.
  void refine(SearchOutcome plan) {
    auto chunks = static_cast<int64_t>(plan.lists.chunkStage.size());
    const std::string origin = "list scheduling from " + plan.method;
    for (int round = 0; round < mostRounds && !control.exhausted() && best.stepNs > bound;
         ++round) {
      SearchOutcome fastest = plan;
      fastest.stepNs = unreachable;
      ListPolicy chosen;
      for (const ListPolicy &policy : policies(chunks / model.stages))
        if (SearchOutcome made = withLists(plan, policy); made.stepNs < fastest.stepNs) {
          fastest = std::move(made);
          chosen = policy;
        }
      if (fastest.stepNs == unreachable)
        break;
      fastest.method = origin;
      consider(fastest);
      moveCuts(fastest, chosen);
      consider(fastest);
      ChunkSearch search(model, fastest.lists, control);
      search.improveFrom(fastest.cuts);
      if (search.bestStep() < fastest.stepNs)
        fastest = resultOf(search, origin);
      consider(fastest);
      if (round > 0 && fastest.stepNs >= plan.stepNs)
        break;
      plan = std::move(fastest);
    }
  }

  /// I and W in a row become B where that delays nothing.
  void merge() {
    for (size_t r = 0; r < best.lists.actions.size(); ++r) {
      SearchOutcome merged = best;
      std::vector<Action> &list = merged.lists.actions[r];
      for (size_t i = 0; i + 1 < list.size(); ++i)
        if (list[i].kind == ActionKind::InputGrad && list[i + 1].kind == ActionKind::WeightGrad &&
            list[i].chunk == list[i + 1].chunk && list[i].microbatch == list[i + 1].microbatch) {
          list[i].kind = ActionKind::Backward;
          list.erase(list.begin() + static_cast<int64_t>(i) + 1);
        }
      if (list.size() == best.lists.actions[r].size())
        continue;
      ChunkLoads loads = loadsOf(merged);
      if (ActionOrder(model, merged.lists).step(loads.times) <= best.stepNs && fits(merged, loads))
        best.lists = std::move(merged.lists);
    }
  }

  bool fits(const SearchOutcome &plan, const ChunkLoads &loads) const {
    ActionOrder order(model, plan.lists);
    for (int64_t r = 0; r < model.stages; ++r)
      for (const Holding &holding : order.holdings(r)) {
        __int128 held = loads.fixedBytes[r];
        const std::vector<int64_t> &chunks = order.chunksOf(r);
        for (size_t i = 0; i < holding.saved.size(); ++i) {
          size_t at = chunks[i / model.loads.size()] * model.loads.size() + i % model.loads.size();
          held += static_cast<__int128>(holding.saved[i]) * loads.savedBytes[at] +
                  static_cast<__int128>(holding.split[i]) * loads.splitBytes[at];
        }
        if (held > model.memoryOf(r))
          return false;
      }
    return true;
  }

  const PlanningModel &model;
  SearchControl &control;
  std::vector<SearchOutcome> seeds;
  std::vector<std::string> cutShort; ///< schedules whose search did not come to its end
  SearchOutcome best;
  int64_t bound = 0;
};

} // namespace

std::optional<SearchOutcome> searchAuto(const PlanningModel &model, SearchControl &control) {
  return AutoSearch(model, control).run();
}

} // namespace omnibal::planner
