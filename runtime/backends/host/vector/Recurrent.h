//===- Recurrent.h - The gated delta rule over one segment and head -----------------------===//
//
// The columns of a state are independent of each other: a forward task has some of them, a backward
// task all, one after the other, because gradients of queries and keys are sums over columns.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_VECTOR_RECURRENT_H
#define RUNTIME_BACKENDS_HOST_VECTOR_RECURRENT_H

#include "runtime/backends/host/vector/Attention.h"

namespace omnibal::rt {

struct GatedDeltaTask {
  Heads q, k, v, out;     ///< features side by side
  Heads dout, dq, dk, dv; ///< backward only
  Heads decay, beta;      ///< features unused
  Heads ddecay, dbeta;    ///< backward only
  int64_t size = 0, valueSize = 0;
  float scale = 1;
  int64_t begin = 0, end = 0; ///< the segment's tokens
  int64_t head = 0;
  int64_t column = 0; ///< forward: the first one
  float *scratch = nullptr;
};

struct GatedDeltaTable {
  int64_t columns; ///< of a forward task
  /// Floats of scratch that a task needs for a segment of so many tokens.
  int64_t (*forwardFloats)(int64_t size);
  int64_t (*backwardFloats)(int64_t size, int64_t tokens);
  void (*forward)(const GatedDeltaTask &);
  void (*backward)(const GatedDeltaTask &);
};
OMNIBAL_DECLARE_VECTOR_TABLE(GatedDeltaTable, gatedDeltaTable)

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_VECTOR_RECURRENT_H
