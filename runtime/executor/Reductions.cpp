//===- Reductions.cpp - Who sums gradients with whom, and from when on ------------------------===//
#include "runtime/executor/ExecutorInternal.h"
#include <algorithm>
#include <set>

namespace omnibal::rt {
namespace {

/// Says where a gradient is added to for the last time: position of the action and of its layer.
struct Last {
  int64_t action = -1;
  size_t layer = 0;
  bool operator<(const Last &other) const {
    return std::pair(action, layer) < std::pair(other.action, other.layer);
  }
};

/// Returns the last additions by parameter.
std::map<int32_t, Last> lastAdditions(const Mode &mode) {
  std::map<int32_t, Last> last;
  for (size_t k = 0; k < mode.actions.size(); ++k) {
    const Action &a = mode.actions[k];
    if (!isCompute(a.kind))
      continue;
    const std::vector<LayerCall> &calls = mode.chunks[a.index].calls(a.kind);
    for (size_t i = 0; i < calls.size(); ++i)
      for (const Location &l : calls[i].bindings)
        if (l.space == Space::Gradient)
          last[l.index] = {static_cast<int64_t>(k), i};
  }
  return last;
}

} // namespace

RankGroups rankGroups(const Program &program) {
  std::map<int32_t, std::set<int32_t>> holders;
  for (const Stage &stage : program.stageList)
    for (const Parameter &q : stage.parameters)
      if (q.trainable && q.sharedGroup >= 0)
        holders[q.sharedGroup].insert(stage.id);
  RankGroups groups;
  for (const auto &[group, stages] : holders)
    for (int d = 0; d < program.dataParallel; ++d) {
      std::vector<int> &ranks = groups.emplace_back();
      for (int32_t s : stages)
        ranks.push_back(d * program.stages + s);
    }
  for (int s = 0; s < program.stages; ++s) {
    std::vector<int> &ranks = groups.emplace_back();
    for (int d = 0; d < program.dataParallel; ++d)
      ranks.push_back(d * program.stages + s);
  }
  return groups;
}

Completions findCompletions(const Stage &stage, const Mode &mode) {
  std::map<int32_t, Last> last = lastAdditions(mode);
  Completions completions;
  for (size_t b = 0; b < stage.buckets.size(); ++b) {
    Last latest;
    bool shared = false;
    for (int32_t number : stage.buckets[b].parameters) {
      shared |= stage.parameters[number].sharedGroup >= 0;
      if (auto found = last.find(number); found != last.end())
        latest = std::max(latest, found->second);
    }
    if (latest.action < 0 || shared)
      continue;
    const Action &a = mode.actions[latest.action];
    completions[{a.kind, a.index, a.microbatch}].push_back({latest.layer, static_cast<int32_t>(b)});
  }
  return completions;
}

} // namespace omnibal::rt
