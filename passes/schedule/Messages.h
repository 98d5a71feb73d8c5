//===- Messages.h - What chunks on different stages tell each other ----------------------===//
#ifndef PASSES_SCHEDULE_MESSAGES_H
#define PASSES_SCHEDULE_MESSAGES_H

#include "dialects/omnibal/analysis/CallGraph.h"
#include "runtime/schedule/Message.h"

namespace omnibal::schedule {

/// One message between two chunks on different stages, the same for every micro-batch.
struct Message : rt::Message {
  std::vector<int64_t> edges = {}; ///< that travel together
};

/// A value between layers, in the terms of chunks.
struct SharedValue {
  struct Use {
    int64_t chunk = 0;
    bool givesGradient = false; ///< the layer's backward yields a gradient of the value
  };
  int64_t chunk = 0; ///< that makes it
  std::vector<Use> uses;
};
/// One an edge of the graph, in order.
std::vector<SharedValue> sharedValues(const analysis::CallGraph &graph);

/// For every pair of chunks on different stages that a value joins: one message per direction, in
/// the order of the values. `chunkStage` has one stage a chunk; gradients only where asked for.
std::vector<Message> collectMessages(const std::vector<SharedValue> &values,
                                     llvm::ArrayRef<int64_t> chunkStage, bool gradients);

} // namespace omnibal::schedule
#endif // PASSES_SCHEDULE_MESSAGES_H
