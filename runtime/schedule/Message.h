//===- Message.h - What chunks on different stages tell each other ------------------------===//
#ifndef RUNTIME_SCHEDULE_MESSAGE_H
#define RUNTIME_SCHEDULE_MESSAGE_H

#include <cstdint>

namespace omnibal::rt {

/// One message between two chunks, the same for every micro-batch: a value that the forward of
/// `fromChunk` makes and that of `toChunk` reads, or a gradient from backward to backward.
struct Message {
  int32_t id = 0;
  bool gradient = false;
  int64_t fromChunk = 0, toChunk = 0;
  int64_t fromStage = 0, toStage = 0;
};

} // namespace omnibal::rt
#endif // RUNTIME_SCHEDULE_MESSAGE_H
