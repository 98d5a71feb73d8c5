//===- Messages.h - What chunks on different stages tell each other ----------------------===//
#ifndef PASSES_SCHEDULE_MESSAGES_H
#define PASSES_SCHEDULE_MESSAGES_H

#include "dialects/omnibal/analysis/CallGraph.h"

namespace omnibal::schedule {

/// One message between two chunks on different stages, the same for every micro-batch.
struct Message {
  int32_t id = 0;
  bool gradient = false;
  int64_t fromChunk = 0, toChunk = 0;
  int64_t fromStage = 0, toStage = 0;
  std::vector<int64_t> edges = {}; ///< that travel together
};

/// Whether the backward of `call` yields the gradient of its input `input`.
bool givesInputGradient(const analysis::Call &call, int64_t input);

/// Returns the messages for every pair of chunks on different stages that an edge joins: one per
/// direction, in the order of the edges. `chunkStage` has one stage per chunk; gradients are sent
/// only if asked for.
std::vector<Message> collectMessages(const analysis::CallGraph &graph,
                                     llvm::ArrayRef<int64_t> chunkStage, bool gradients);

} // namespace omnibal::schedule
#endif // PASSES_SCHEDULE_MESSAGES_H
