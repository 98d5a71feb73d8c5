//===- Communication.h - Lists of the compiler's modes, with their messages ---------------===//
#ifndef PASSES_SCHEDULE_COMMUNICATION_H
#define PASSES_SCHEDULE_COMMUNICATION_H

#include "passes/schedule/Messages.h"
#include "runtime/schedule/Communication.h"

namespace omnibal::schedule {

/// What each stage does of evaluation or prediction: every micro-batch through its chunks. As many
/// micro-batches as there are stages go through a chunk before the stage's next one, so that the
/// pipeline fills.
std::vector<std::vector<planner::Action>> forwardOnly(llvm::ArrayRef<int64_t> chunkStages,
                                                      int64_t stages, int64_t microbatches);

/// rt::findDeadlock and rt::insertCommunication for messages that name their edges.
std::string findDeadlock(const std::vector<std::vector<planner::Action>> &compute,
                         const std::vector<Message> &dependencies);
std::vector<std::vector<rt::Action>>
insertCommunication(const std::vector<std::vector<planner::Action>> &compute,
                    const std::vector<Message> &messages);

} // namespace omnibal::schedule
#endif // PASSES_SCHEDULE_COMMUNICATION_H
