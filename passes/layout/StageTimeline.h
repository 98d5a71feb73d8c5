//===- StageTimeline.h - When a stage's runs and messages happen -----------------------------===//
#ifndef PASSES_LAYOUT_STAGETIMELINE_H
#define PASSES_LAYOUT_STAGETIMELINE_H

#include "passes/schedule/Communication.h"
#include <map>

namespace omnibal::layout {

/// When things happen on a stage: positions in its list of runs and messages, as passes/schedule
/// makes it.
class StageTimeline {
public:
  explicit StageTimeline(const std::vector<schedule::Step> &steps) {
    for (const schedule::Step &step : steps) {
      auto &entry = step.kind <= schedule::StepKind::WeightGrad ? runs : messages;
      entry[{step.index, step.microbatch}][step.kind] = count++;
    }
  }
  /// Position of the first of `kinds` that runs for the chunk and micro-batch; -1: none.
  int64_t run(int64_t chunk, int64_t microbatch,
              std::initializer_list<schedule::StepKind> kinds) const {
    return find(runs, chunk, microbatch, kinds);
  }
  int64_t posted(int64_t message, int64_t microbatch) const {
    return find(messages, message, microbatch, {schedule::StepKind::PostRecv});
  }
  int64_t sent(int64_t message, int64_t microbatch) const {
    return find(messages, message, microbatch, {schedule::StepKind::WaitSend});
  }
  int64_t end() const { return count; }

private:
  using Positions = std::map<std::pair<int64_t, int64_t>, std::map<schedule::StepKind, int64_t>>;
  static int64_t find(const Positions &positions, int64_t index, int64_t microbatch,
                      std::initializer_list<schedule::StepKind> kinds) {
    auto entry = positions.find({index, microbatch});
    for (schedule::StepKind kind : kinds)
      if (entry != positions.end())
        if (auto at = entry->second.find(kind); at != entry->second.end())
          return at->second;
    return -1;
  }
  Positions runs, messages;
  int64_t count = 0;
};

} // namespace omnibal::layout
#endif // PASSES_LAYOUT_STAGETIMELINE_H
