//===- TinyProgram.h - A program small enough to check by hand ---------------------------===//
//
// Layer "embedding" looks tokens up in a table; layer "head" multiplies with a weight and takes the
// cross entropy. On one stage or one layer a stage (1F1B), any number of micro-batches and
// replicas, the head's weight its own or the table itself, backward whole or in two halves.
//
//===-------------------------------------------------------------------------------------------------------===//
#ifndef TEST_UNIT_RUNTIME_PROGRAM_TINYPROGRAM_H
#define TEST_UNIT_RUNTIME_PROGRAM_TINYPROGRAM_H

#include "runtime/program/Program.h"

namespace omnibal::rt {

constexpr int64_t tinyVocabulary = 11, tinyWidth = 6, tinyTokensCap = 24;

struct TinyOptions {
  int32_t stages = 1, microbatches = 2, dataParallel = 1;
  bool tied = false;
  bool split = false; ///< backward in two halves, the second of a micro-batch after the next one's
                      ///< first
  int32_t rowBucket = 1;
  bool inBFloat16 = false; ///< parameters, activations and their gradients lie in bfloat16
  int64_t tokensCap = tinyTokensCap;
  bool zero = false; ///< replicas divide the optimizer's state; the parameters are one block
  int32_t modelParallel = 1;
};

Program tinyProgram(const TinyOptions &options);

} // namespace omnibal::rt
#endif // TEST_UNIT_RUNTIME_PROGRAM_TINYPROGRAM_H
