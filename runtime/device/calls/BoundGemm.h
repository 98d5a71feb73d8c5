//===- BoundGemm.h - Operands and attributes of a `gemm` call --------------------------------===//
//
// One reading of the contract (docs/kernels.md) for all backends.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_CALLS_BOUNDGEMM_H
#define RUNTIME_DEVICE_CALLS_BOUNDGEMM_H

#include "runtime/device/CallReader.h"

namespace omnibal::rt {

/// Indices of the call's operands, -1 for those that it lacks. `activation` counts none, gelu,
/// gelu_tanh, silu, quick_gelu, relu. Operands that cannot be combined are an error of `call`.
struct BoundGemm {
  explicit BoundGemm(CallReader &call);

  int a, b, c, bias, residual, pre, at, sumA, sumB;
  bool accumulate;
  float alpha;
  int activation;
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_CALLS_BOUNDGEMM_H
