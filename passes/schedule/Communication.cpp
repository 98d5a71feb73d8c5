//===- Communication.cpp -----------------------------------------------------------------===//
#include "passes/schedule/Communication.h"

namespace omnibal::schedule {
namespace {

using Lists = std::vector<std::vector<planner::Action>>;

std::vector<rt::Message> withoutEdges(const std::vector<Message> &messages) {
  return {messages.begin(), messages.end()};
}

} // namespace

Lists forwardOnly(llvm::ArrayRef<int64_t> chunkStages, int64_t stages, int64_t microbatches) {
  Lists lists(stages);
  for (int64_t begin = 0; begin < microbatches; begin += stages)
    for (auto [chunk, stage] : llvm::enumerate(chunkStages))
      for (int64_t m = begin; m < std::min(begin + stages, microbatches); ++m)
        lists[stage].push_back({planner::ActionKind::Forward, m, static_cast<int64_t>(chunk)});
  return lists;
}

std::string findDeadlock(const Lists &compute, const std::vector<Message> &dependencies) {
  return rt::findDeadlock(compute, withoutEdges(dependencies));
}

std::vector<std::vector<rt::Action>> insertCommunication(const Lists &compute,
                                                         const std::vector<Message> &messages) {
  return rt::insertCommunication(compute, withoutEdges(messages));
}

} // namespace omnibal::schedule
