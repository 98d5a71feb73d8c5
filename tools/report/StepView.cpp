//===- StepView.cpp ----------------------------------------------------------------------===//
#include "tools/report/StepView.h"
#include "runtime/planner/model/LinkTimes.h"
#include <algorithm>
#include <map>
#include <tuple>

namespace omnibal::planner {
namespace {

using Pair = std::pair<int64_t, int64_t>;

/// What flows from one chunk to another for one load.
struct Flow {
  int64_t bytes = 0, gradBytes = 0;
  bool sends = false, returns = false; ///< whatever the load
};

/// Sums for each chunk, for one load.
struct LoadSums {
  std::vector<int64_t> recomputeNs, savedBytes, splitBytes;
  std::map<Pair, Flow> flows; ///< between chunks of different stages
};

class Viewer {
public:
  Viewer(const Problem &problem, const Plan &plan, const Timeline &timeline)
      : problem(problem), plan(plan), timeline(timeline) {}

  StepView view() {
    sumLoads();
    for (size_t r = 0; r < plan.actions.size(); ++r)
      result.stages.push_back(viewOfStage(r));
    findTransfers();
    return std::move(result);
  }

private:
  void sumLoads() {
    for (size_t c = 0; c + 1 < plan.cuts.size(); ++c)
      chunkOf.insert(chunkOf.end(), plan.cuts[c + 1] - plan.cuts[c], static_cast<int64_t>(c));
    std::map<LoadFactors, size_t> known;
    for (int64_t m = 0; m < problem.microbatches; ++m) {
      LoadFactors factors = problem.factors.empty() ? LoadFactors() : problem.factors[m];
      auto [it, fresh] = known.try_emplace(std::move(factors), loads.size());
      if (fresh)
        loads.push_back(sumsOf(m));
      loadOf.push_back(it->second);
    }
  }

  LoadSums sumsOf(int64_t microbatch) const {
    LoadSums sums;
    for (auto *list : {&sums.recomputeNs, &sums.savedBytes, &sums.splitBytes})
      list->resize(plan.chunkStage.size());
    for (size_t l = 0; l < problem.layers.size(); ++l) {
      const Layer &layer = problem.layers[l];
      const RematOption &option = *layer.option(plan.remat[l]);
      Decimal factor = problem.factor(microbatch, layer.kind);
      sums.recomputeNs[chunkOf[l]] += factor.times(option.recomputeNs);
      sums.savedBytes[chunkOf[l]] += factor.times(option.savedBytes);
      sums.splitBytes[chunkOf[l]] += factor.times(option.heldWhileSplit());
    }
    for (const Edge &edge : problem.edges) {
      Pair ends{chunkOf[edge.from], chunkOf[edge.to]};
      if (plan.chunkStage[ends.first] == plan.chunkStage[ends.second])
        continue;
      Decimal factor = problem.factor(microbatch, problem.layers[edge.from].kind);
      Flow &flow = sums.flows[ends];
      flow.bytes += factor.times(edge.bytes);
      flow.gradBytes += factor.times(edge.gradBytes);
      flow.sends |= edge.bytes != 0;
      flow.returns |= edge.gradBytes != 0;
    }
    return sums;
  }

  StageView viewOfStage(size_t stage) const {
    StageView view;
    int64_t params = 0, workspace = 0;
    for (size_t l = 0; l < problem.layers.size(); ++l)
      if (plan.chunkStage[chunkOf[l]] == static_cast<int64_t>(stage)) {
        params += residentBytes(problem.cluster, problem.layers[l]);
        workspace = std::max(workspace, problem.layers[l].option(plan.remat[l])->workspaceBytes);
      }
    int64_t held = params + workspace, lastEnd = 0;
    auto note = [&](int64_t ns) {
      // A peak that lasts no time is one all the same.
      if (!view.memory.empty() && view.memory.back().ns == ns && view.memory.back().bytes <= held)
        view.memory.back().bytes = held;
      else
        view.memory.push_back({ns, held});
    };
    note(0);
    for (size_t k = 0; k < plan.actions[stage].size(); ++k) {
      const Action &action = plan.actions[stage][k];
      const ActionTime &time = timeline.times[stage][k];
      const LoadSums &sums = loads[loadOf[action.microbatch]];
      int64_t saved = sums.savedBytes[action.chunk], split = sums.splitBytes[action.chunk];
      bool recomputes = action.kind == ActionKind::Backward || action.kind == ActionKind::InputGrad;
      view.recomputeNs.push_back(recomputes ? sums.recomputeNs[action.chunk] : 0);
      int64_t atStart = action.kind == ActionKind::Forward     ? saved
                        : action.kind == ActionKind::InputGrad ? split - saved
                                                               : 0;
      int64_t atEnd = action.kind == ActionKind::Backward     ? -saved
                      : action.kind == ActionKind::WeightGrad ? -split
                                                              : 0;
      if (atStart) {
        held += atStart;
        note(time.startNs);
      }
      if (atEnd) {
        held += atEnd;
        note(time.endNs);
      }
      lastEnd = time.endNs;
    }
    const StageFigures &figures = timeline.stages[stage];
    view.reductionNs = timeline.stepNs - figures.forwardNs - figures.backwardNs - figures.idleNs;
    note(std::max(lastEnd, timeline.stepNs));
    return view;
  }

  void findTransfers() {
    std::map<Pair, ActionPlace> forwards, backwards; // by chunk and micro-batch
    for (size_t r = 0; r < plan.actions.size(); ++r)
      for (size_t k = 0; k < plan.actions[r].size(); ++k) {
        const Action &action = plan.actions[r][k];
        if (action.kind != ActionKind::WeightGrad)
          (action.kind == ActionKind::Forward
               ? forwards
               : backwards)[{action.chunk, action.microbatch}] = {r, k};
      }
    for (int64_t m = 0; m < problem.microbatches; ++m)
      for (const auto &[ends, flow] : loads[loadOf[m]].flows) {
        auto add = [&](bool gradient, int64_t from, int64_t to, int64_t bytes) {
          const std::map<Pair, ActionPlace> &places = gradient ? backwards : forwards;
          auto sender = places.find({from, m}), receiver = places.find({to, m});
          if (sender == places.end() || receiver == places.end())
            return;
          int64_t start = timeline.times[sender->second.stage][sender->second.index].endNs;
          int64_t ns = transferNs(problem.cluster.link, bytes);
          result.transfers.push_back(
              {gradient, from, to, m, bytes, start, start + ns, sender->second, receiver->second});
        };
        if (flow.sends)
          add(false, ends.first, ends.second, flow.bytes);
        if (flow.returns)
          add(true, ends.second, ends.first, flow.gradBytes);
      }
    auto order = [](const TransferTime &t) {
      return std::tuple(t.startNs, t.microbatch, t.gradient, t.fromChunk, t.toChunk);
    };
    std::sort(result.transfers.begin(), result.transfers.end(),
              [&](const TransferTime &a, const TransferTime &b) { return order(a) < order(b); });
  }

  const Problem &problem;
  const Plan &plan;
  const Timeline &timeline;
  StepView result;
  std::vector<int64_t> chunkOf; ///< by layer
  std::vector<LoadSums> loads;
  std::vector<size_t> loadOf; ///< by micro-batch
};

} // namespace

StepView viewOf(const Problem &problem, const Plan &plan, const Timeline &timeline) {
  return Viewer(problem, plan, timeline).view();
}

} // namespace omnibal::planner
