#include "runtime/planner/search/Infeasible.h"
#include "runtime/planner/evaluate/MemoryProfile.h"
#include "runtime/planner/model/ScheduleRules.h"
#include "runtime/planner/model/SearchControl.h"
#include <algorithm>
#include <set>

namespace omnibal::planner {
namespace {

int64_t chunksOf(const Problem &problem) {
  return problem.schedule == "auto" ? 1 : *chunksPerStage(problem.schedule);
}

/// Chunks in a row, each as if its stage had no other one: more chunks only need more.
/// Under "auto", one chunk a stage and one micro-batch at a time, than which nothing needs less.
struct Row {
  Row(const Problem &problem, const SearchControl &clock) : model(problem), clock(clock) {
    bool any = problem.schedule == "auto";
    int64_t stages = problem.cluster.stages, count = problem.microbatches;
    stageOf = stagesInTurn(stages * chunksOf(problem), stages);
    profiles = memoryProfiles(model, stageOf,
                              any ? oneAtATime(stages, stages, count)
                                  : *scheduleActions(problem.schedule, stages, count));
  }
  int64_t size() const { return static_cast<int64_t>(stageOf.size()); }

  PlanningModel model;
  const SearchControl &clock;
  std::vector<int64_t> stageOf; ///< by chunk
  std::vector<MemoryProfile> profiles;
};

/// Bytes by which layers [begin, end) miss the limit of the chunk's stage when they keep as little
/// as they can; 0 or less: they fit.
int64_t missingBytes(const Row &row, int64_t chunk, int64_t begin, int64_t end) {
  const PlanningModel &model = row.model;
  int64_t limit = model.memoryOf(row.stageOf[chunk]);
  if (limit == unreachable)
    return 0;
  std::set<int64_t> bounds;
  for (int64_t l = begin; l < end; ++l)
    for (const RematOption &option : model.loads[0].remat[l])
      bounds.insert(option.workspaceBytes);
  int64_t least = unreachable;
  for (int64_t bound : bounds) {
    // Under a bound on workspace each layer keeps as little as it can.
    std::vector<int64_t> saved(model.loads.size(), 0), split = saved;
    bool possible = true;
    for (int64_t l = begin; l < end; ++l)
      for (size_t load = 0; load < saved.size(); ++load) {
        int64_t fewest = unreachable, fewestSplit = unreachable;
        for (const RematOption &option : model.loads[load].remat[l])
          if (option.workspaceBytes <= bound) {
            fewest = std::min(fewest, option.savedBytes);
            fewestSplit = std::min(fewestSplit, option.splitBytes);
          }
        possible &= fewest < unreachable;
        saved[load] += possible ? fewest : 0;
        split[load] += possible ? fewestSplit : 0;
      }
    if (possible)
      least = std::min(least, row.profiles[chunk].held(saved, split) + bound + model.paramSum[end] -
                                  model.paramSum[begin] - limit);
  }
  return least;
}

/// How far the chunks come, each holding at least one layer.
struct Reach {
  int64_t chunk = 0;   ///< that holds nothing more
  int64_t begin = 0;   ///< its first layer
  int64_t layer = 0;   ///< the first that finds no place; the number of layers if all do
  bool isKnown = true; ///< false: time was up
};

/// One past the last layer that fits the chunk after `begin`; `begin` if none does. Fewer layers
/// fit where more do: what fits after an earlier begin, up to `known`, fits here.
int64_t furthestEnd(const Row &row, int64_t chunk, int64_t begin, int64_t known) {
  const PlanningModel &model = row.model;
  bool given = !model.problem.varyCuts;
  int64_t least = given ? model.problem.givenCuts[chunk + 1] : begin + 1;
  int64_t most = given ? least : model.layers - (row.size() - 1 - chunk);
  auto fits = [&](int64_t end) {
    return end <= most && (end <= known || missingBytes(row, chunk, begin, end) <= 0);
  };
  if (!fits(least))
    return begin;
  int64_t end = std::max(least, std::min(known, most)), step = 1;
  for (; fits(end + step); step *= 2)
    end += step;
  for (; step > 0; step /= 2)
    if (fits(end + step))
      end += step;
  return end;
}

/// All first layers that each chunk can have, chunk after chunk.
Reach reachOf(const Row &row) {
  int64_t layers = row.model.layers;
  std::vector<char> starts(layers + 1, 0);
  starts[0] = 1;
  Reach reach;
  for (int64_t c = 0; c < row.size(); ++c) {
    std::vector<char> ends(layers + 1, 0);
    Reach best{c, reach.layer, reach.layer};
    bool any = false;
    int64_t known = 0;
    for (int64_t i = c; i < layers; ++i) {
      if (!starts[i])
        continue;
      if (row.clock.secondsLeft() <= 0)
        return {c, i, layers, false};
      int64_t end = known = std::max(known, furthestEnd(row, c, i, known));
      if (end > i && (!any || end > best.layer))
        best = {c, i, end};
      any |= end > i;
      for (int64_t j = row.model.problem.varyCuts ? i + 1 : end; j > i && j <= end; ++j)
        ends[j] = 1;
    }
    reach = best;
    if (!any)
      return reach;
    starts = std::move(ends);
  }
  return reach;
}

/// True too where time is up, so that callers come to their end.
bool everythingFits(Problem problem, int64_t stages, int64_t moreBytes,
                    const SearchControl &clock) {
  problem.cluster.stages = stages;
  for (int64_t &limit : problem.cluster.memoryBytes)
    limit += moreBytes;
  Row row(problem, clock);
  return row.size() <= row.model.layers && reachOf(row).layer == row.model.layers;
}

/// The least bytes more on every stage that make it fit; no problem's bytes reach the most.
int64_t bytesThatHelp(const Problem &problem, const SearchControl &clock) {
  constexpr int64_t most = int64_t{1} << 60;
  int64_t low = 0, high = 1;
  while (high < most && !everythingFits(problem, problem.cluster.stages, high, clock)) {
    low = high;
    high *= 2;
  }
  while (low + 1 < high) {
    int64_t middle = low + (high - low) / 2;
    (everythingFits(problem, problem.cluster.stages, middle, clock) ? high : low) = middle;
  }
  return high;
}

/// The layer that fits no chunk even alone, with the chunk where least is missing.
struct TooBig {
  int64_t layer = -1, chunk = 0, missing = 0;
};
TooBig layerThatFitsNowhere(const Row &row) {
  for (int64_t l = 0; l < row.model.layers; ++l) {
    TooBig found{l, 0, unreachable};
    // Every chunk before and after needs a layer of its own.
    int64_t first = std::max<int64_t>(0, row.size() - (row.model.layers - l));
    for (int64_t c = first; c <= std::min(l, row.size() - 1); ++c)
      if (int64_t missing = missingBytes(row, c, l, l + 1); missing < found.missing)
        found = {l, c, missing};
    if (found.missing > 0)
      return found;
  }
  return {};
}

/// Where a stage has one chunk, what is missing is all that is missing.
std::string advice(const Row &row) {
  const Problem &problem = row.model.problem;
  bool shared = row.size() > problem.cluster.stages;
  std::string text = "; " + std::string(shared ? "at least " : "") +
                     std::to_string(bytesThatHelp(problem, row.clock)) +
                     " bytes more on every stage";
  if (row.clock.secondsLeft() <= 0)
    return "";
  if (shared)
    return text + " are needed";
  if (problem.varyCuts && problem.cluster.memoryBytes.size() == 1)
    for (int64_t stages = problem.cluster.stages + 1; stages <= row.model.layers; ++stages)
      if (everythingFits(problem, stages, 0, row.clock))
        return row.clock.secondsLeft() <= 0
                   ? text + " would be enough"
                   : text + ", or " + std::to_string(stages - problem.cluster.stages) +
                         (stages == problem.cluster.stages + 1 ? " more stage" : " more stages") +
                         ", would be enough";
  return text + " would be enough";
}

std::string tooFewLayers(const Problem &problem) {
  int64_t layers = static_cast<int64_t>(problem.layers.size());
  int64_t perStage = chunksOf(problem);
  std::string needs = std::to_string(problem.cluster.stages) + " stages";
  if (perStage > 1)
    needs += " of " + std::to_string(perStage) + " chunks each";
  return needs + " need at least as many layers, but there are " + std::to_string(layers) +
         "; at most " + std::to_string(layers / perStage) + " stages are possible";
}

} // namespace

bool exceedsAllMemory(const PlanningModel &model) {
  __int128 limit = 0, held = 0;
  for (int64_t r = 0; r < model.stages; ++r) {
    if (model.memoryOf(r) == unreachable)
      return false;
    limit += model.memoryOf(r);
  }
  int64_t largestWorkspace = 0;
  for (int64_t l = 0; l < model.layers; ++l) {
    int64_t saved = unreachable, workspace = unreachable;
    for (const LoadModel &load : model.loads)
      for (const RematOption &option : load.remat[l]) {
        saved = std::min(saved, option.savedBytes);
        workspace = std::min(workspace, option.workspaceBytes);
      }
    held += model.paramSum[l + 1] - model.paramSum[l] + saved;
    largestWorkspace = std::max(largestWorkspace, workspace);
  }
  return held + largestWorkspace > limit;
}

std::string explainInfeasible(const PlanningModel &model, double seconds) {
  SearchControl clock(seconds);
  const Problem &problem = model.problem;
  if (model.stages * chunksOf(problem) > model.layers)
    return tooFewLayers(problem);
  // Lists by search may have other numbers of chunks than one a stage, which is what a row has.
  if (!problem.varyCuts &&
      static_cast<int64_t>(problem.givenCuts.size()) != model.stages * chunksOf(problem) + 1)
    return "";
  Row row(problem, clock);
  Reach reach = reachOf(row);
  if (!reach.isKnown || reach.layer == model.layers)
    return "";
  std::string options =
      problem.varyRemat ? "even with everything recomputed" : "with the given rematerialization";
  std::string stage = std::to_string(row.stageOf[reach.chunk]);
  if (!problem.varyCuts) {
    int64_t end = problem.givenCuts[reach.chunk + 1];
    return "stage " + stage + " cannot hold its layers " + problem.layers[reach.begin].name +
           " to " + problem.layers[end - 1].name + " " + options + ": " +
           std::to_string(missingBytes(row, reach.chunk, reach.begin, end)) + " bytes are missing" +
           advice(row);
  }
  if (TooBig alone = layerThatFitsNowhere(row); alone.layer >= 0)
    return "layer " + problem.layers[alone.layer].name + " fits no stage even alone, " + options +
           ": on stage " + std::to_string(row.stageOf[alone.chunk]) + ", where least is missing, " +
           std::to_string(alone.missing) + " bytes are" + advice(row);
  const std::string &name = problem.layers[reach.layer].name;
  int64_t missing = missingBytes(row, reach.chunk, reach.begin, reach.layer + 1);
  std::string place = "layer " + name + " does not fit stage " + stage;
  if (reach.begin < reach.layer)
    place += " beside the layers from " + problem.layers[reach.begin].name + " on, which the " +
             (row.size() > model.stages ? "chunks" : "ranks") + " before it cannot take";
  return place + ", " + options + ": " + std::to_string(missing) + " bytes are missing" +
         advice(row);
}

} // namespace omnibal::planner
