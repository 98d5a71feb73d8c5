//===- Update.h - AdamW and sums over one block of values --------------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_VECTOR_UPDATE_H
#define RUNTIME_BACKENDS_HOST_VECTOR_UPDATE_H

#include "runtime/backends/host/vector/Isa.h"
#include <cstdint>

namespace omnibal::rt {

/// AdamW's constants of one step, in the form in which the inner loop uses them.
struct AdamWFactors {
  float gradientScale, take1, keep2, take2; ///< m = m + take1 (g - m); v = keep2 v + take2 g g
  float shrink;                             ///< 1 - lr * decay
  float stepSize;                           ///< lr / bias correction 1
  float rootScale, epsilon;                 ///< 1 / sqrt(bias correction 2)
  bool zeroGradients;
};

struct UpdateTable {
  void (*adamW)(float *param, float *grad, float *moment1, float *moment2, int64_t n,
                const AdamWFactors &factors);
  double (*squares)(const float *x, int64_t n);
};
OMNIBAL_DECLARE_VECTOR_TABLE(UpdateTable, updateTable)

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_VECTOR_UPDATE_H
