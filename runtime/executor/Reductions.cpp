//===- Reductions.cpp - Who sums gradients with whom, and from when on ------------------------===//
#include "runtime/executor/Completions.h"
#include "runtime/executor/ExecutorInternal.h"
#include "runtime/program/RankGrid.h"
#include <algorithm>
#include <set>

namespace omnibal::rt {
namespace {

/// Returns the last additions by parameter. Of equal runs of a chunk the last one counts.
std::map<int32_t, LastAddition> lastByParameter(const Mode &mode, std::span<const Action> actions) {
  std::map<std::pair<ActionKind, int32_t>, int64_t> lastRuns;
  for (size_t k = 0; k < actions.size(); ++k)
    if (isCompute(actions[k].kind))
      lastRuns[{actions[k].kind, actions[k].index}] = static_cast<int64_t>(k);
  std::map<int32_t, LastAddition> last;
  for (const auto &[run, position] : lastRuns) {
    const std::vector<LayerCall> &calls = mode.chunks[run.second].calls(run.first);
    for (size_t i = 0; i < calls.size(); ++i)
      for (const Location &l : calls[i].bindings)
        if (l.space == Space::Gradient)
          last[l.index] = std::max(last[l.index], LastAddition{position, i});
  }
  return last;
}

/// Of context groups smaller than all replicas, which are a group anyway.
std::set<int32_t> degreesOf(const Program &program) {
  std::set<int32_t> degrees;
  for (const TrainMode &mode : program.trainModes)
    if (mode.degree > 1 && mode.degree < program.dataParallel)
      degrees.insert(mode.degree);
  return degrees;
}

} // namespace

RankGroups rankGroups(const Program &program) {
  std::map<int32_t, std::set<int32_t>> holders;
  for (const Stage &stage : program.stageList)
    for (const Parameter &q : stage.parameters)
      if (q.trainable && q.sharedGroup >= 0)
        holders[q.sharedGroup].insert(stage.id);
  const RankGrid grid(program);
  RankGroups groups;
  for (const auto &[group, stages] : holders)
    for (int replica = 0; replica < grid.replicas; ++replica)
      for (int part = 0; part < grid.parts; ++part)
        groups.push_back(grid.sharersOf(replica, stages, part));
  for (int stage = 0; stage < grid.stages; ++stage) {
    for (int part = 0; part < grid.parts; ++part)
      groups.push_back(grid.replicasOf(stage, part));
    if (grid.parts > 1)
      groups.push_back(grid.holdersOf(stage));
    for (int replica = 0; program.hasOwnParts() && replica < grid.replicas; ++replica)
      groups.push_back(grid.partsOf(replica, stage));
    for (int32_t degree : degreesOf(program))
      for (int replica = 0; replica < grid.replicas; replica += degree)
        groups.push_back(grid.contextOf(replica, stage, degree));
  }
  return groups;
}

std::vector<LastAddition> lastAdditions(const Stage &stage, const Mode &mode,
                                        std::span<const Action> actions) {
  std::map<int32_t, LastAddition> byParameter = lastByParameter(mode, actions);
  std::vector<LastAddition> last;
  for (const Bucket &bucket : stage.buckets) {
    LastAddition &latest = last.emplace_back();
    for (int32_t number : bucket.parameters)
      if (auto found = byParameter.find(number); found != byParameter.end())
        latest = std::max(latest, found->second);
    if (std::any_of(bucket.parameters.begin(), bucket.parameters.end(),
                    [&](int32_t number) { return stage.parameters[number].sharedGroup >= 0; }))
      latest = {};
  }
  return last;
}

Completions findCompletions(const Stage &stage, const Mode &mode, std::span<const Action> actions) {
  Completions completions;
  const std::vector<LastAddition> last = lastAdditions(stage, mode, actions);
  for (size_t b = 0; b < last.size(); ++b) {
    if (last[b].action < 0)
      continue;
    const Action &a = actions[last[b].action];
    completions[{a.kind, a.index, a.unit()}].push_back({last[b].layer, static_cast<int32_t>(b)});
  }
  return completions;
}

std::vector<Action> withEpilogue(const Stage &stage, const Mode &mode,
                                 std::vector<Action> actions) {
  auto sums = [](const Action &a) { return reducesBucket(a.kind); };
  auto starts = [](const Action &a) {
    return a.kind == ActionKind::PostRecv || a.kind == ActionKind::Send;
  };
  std::vector<LastAddition> last;
  const auto own = std::find_if(mode.actions.begin(), mode.actions.end(), sums);
  if (own != mode.actions.end())
    last = lastAdditions(stage, mode, actions);
  std::vector<Action> list;
  size_t next = 0;
  for (size_t k = 0; k < actions.size(); ++k) {
    list.push_back(actions[k]);
    if (k + 1 < actions.size() && starts(actions[k + 1]))
      continue;
    for (; next < last.size() && last[next].action >= 0 &&
           last[next].action <= static_cast<int64_t>(k);
         ++next)
      list.push_back({own->kind, 0, static_cast<int32_t>(next)});
  }
  for (const Action &a : mode.actions)
    if (a.kind > ActionKind::WaitSend && (!sums(a) || a.index >= static_cast<int32_t>(next)))
      list.push_back(a);
  return list;
}

} // namespace omnibal::rt
