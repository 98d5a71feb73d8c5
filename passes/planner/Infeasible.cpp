#include "passes/planner/Infeasible.h"
#include "passes/planner/RematChoices.h"
#include <algorithm>

namespace omnibal::planner {
namespace {

/// How far the ranks come, each holding at least one layer.
struct Reach {
  int64_t rank = 0;  ///< that holds nothing more
  int64_t begin = 0; ///< its first layer
  int64_t layer = 0; ///< the first that finds no place; the number of layers if all do
};

/// One past the last layer that fits the rank after `begin`; `begin` if none does. Fewer layers fit
/// where more do, so bisection finds it.
int64_t furthestEnd(const PlanningModel &model, int64_t rank, int64_t begin) {
  bool given = !model.problem.varyCuts;
  int64_t least = given ? model.problem.givenCuts[rank + 1] : begin + 1;
  int64_t most = given ? least : model.layers - (model.stages - 1 - rank);
  if (least > most || missingBytes(model, rank, begin, least) > 0)
    return begin;
  while (least < most) {
    int64_t middle = (least + most + 1) / 2;
    if (missingBytes(model, rank, begin, middle) > 0)
      most = middle - 1;
    else
      least = middle;
  }
  return least;
}

/// All first layers that each rank can have, rank after rank.
Reach reachOf(const PlanningModel &model) {
  std::vector<char> starts(model.layers + 1, 0);
  starts[0] = 1;
  Reach reach;
  for (int64_t s = 0; s < model.stages; ++s) {
    std::vector<char> ends(model.layers + 1, 0);
    Reach best{s, reach.layer, reach.layer};
    bool any = false;
    for (int64_t i = s; i < model.layers; ++i) {
      if (!starts[i])
        continue;
      int64_t end = furthestEnd(model, s, i);
      if (end > i && (!any || end > best.layer))
        best = {s, i, end};
      any |= end > i;
      for (int64_t j = model.problem.varyCuts ? i + 1 : end; j > i && j <= end; ++j)
        ends[j] = 1;
    }
    reach = best;
    if (!any)
      return reach;
    starts = std::move(ends);
  }
  return reach;
}

bool everythingFits(Problem problem, int64_t stages, int64_t moreBytes) {
  problem.cluster.stages = stages;
  for (int64_t &limit : problem.cluster.memoryBytes)
    limit += moreBytes;
  PlanningModel model(problem);
  return reachOf(model).layer == model.layers;
}

/// The least bytes more on every rank that make it fit.
int64_t bytesThatHelp(const PlanningModel &model) {
  int64_t low = 0, high = 1;
  while (!everythingFits(model.problem, model.stages, high)) {
    low = high;
    high *= 2;
  }
  while (low + 1 < high) {
    int64_t middle = low + (high - low) / 2;
    (everythingFits(model.problem, model.stages, middle) ? high : low) = middle;
  }
  return high;
}

/// The layer that fits no rank even alone, with the rank where least is missing.
struct TooBig {
  int64_t layer = -1, rank = 0, missing = 0;
};
TooBig layerThatFitsNowhere(const PlanningModel &model) {
  for (int64_t l = 0; l < model.layers; ++l) {
    TooBig found{l, 0, unreachable};
    // Every rank before and after needs a layer of its own.
    int64_t first = std::max<int64_t>(0, model.stages - (model.layers - l));
    for (int64_t s = first; s <= std::min(l, model.stages - 1); ++s)
      if (int64_t missing = missingBytes(model, s, l, l + 1); missing < found.missing)
        found = {l, s, missing};
    if (found.missing > 0)
      return found;
  }
  return {};
}

std::string advice(const PlanningModel &model) {
  const Problem &problem = model.problem;
  std::string text = "; " + std::to_string(bytesThatHelp(model)) + " bytes more on every rank";
  if (problem.varyCuts && problem.cluster.memoryBytes.size() == 1)
    for (int64_t stages = model.stages + 1; stages <= model.layers; ++stages)
      if (everythingFits(problem, stages, 0))
        return text + ", or " + std::to_string(stages - model.stages) +
               (stages == model.stages + 1 ? " more stage" : " more stages") + ", would be enough";
  return text + " would be enough";
}

} // namespace

std::string explainInfeasible(const PlanningModel &model) {
  const Problem &problem = model.problem;
  if (model.stages > model.layers)
    return std::to_string(model.stages) + " stages need at least as many layers, but there are " +
           std::to_string(model.layers) + "; at most " + std::to_string(model.layers) +
           " stages are possible";
  Reach reach = reachOf(model);
  if (reach.layer == model.layers)
    return "";
  std::string options =
      problem.varyRemat ? "even with everything recomputed" : "with the given rematerialisation";
  if (!problem.varyCuts) {
    int64_t end = problem.givenCuts[reach.rank + 1];
    return "rank " + std::to_string(reach.rank) + " cannot hold its layers " +
           problem.layers[reach.begin].name + " to " + problem.layers[end - 1].name + " " +
           options + ": " + std::to_string(missingBytes(model, reach.rank, reach.begin, end)) +
           " bytes are missing" + advice(model);
  }
  if (TooBig alone = layerThatFitsNowhere(model); alone.layer >= 0)
    return "layer " + problem.layers[alone.layer].name + " fits no rank even alone, " + options +
           ": on rank " + std::to_string(alone.rank) + ", where least is missing, " +
           std::to_string(alone.missing) + " bytes are" + advice(model);
  const std::string &name = problem.layers[reach.layer].name;
  int64_t missing = missingBytes(model, reach.rank, reach.begin, reach.layer + 1);
  std::string place = "layer " + name + " does not fit rank " + std::to_string(reach.rank);
  if (reach.begin < reach.layer)
    place += " beside the layers from " + problem.layers[reach.begin].name +
             " on, which the ranks before it cannot take";
  return place + ", " + options + ": " + std::to_string(missing) + " bytes are missing" +
         advice(model);
}

} // namespace omnibal::planner
