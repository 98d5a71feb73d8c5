//===- BoundDequantize.h - Operands and attributes of a `dequantize` call --------------------===//
//
// One reading of the contract (docs/kernels.md) for all backends.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_CALLS_BOUNDDEQUANTIZE_H
#define RUNTIME_DEVICE_CALLS_BOUNDDEQUANTIZE_H

#include "runtime/device/CallReader.h"
#include "runtime/device/CheckedKernel.h"
#include "runtime/support/QuantizedMatrix.h"

namespace omnibal::rt {

struct BoundDequantize {
  explicit BoundDequantize(CallReader &call);

  /// Checks that the operands are the words of a matrix and dense memory for its numbers.
  Status checkOperands(const CheckedKernel &kernel, std::span<const TensorView> views) const;
  QuantizedShape shapeOf(std::span<const TensorView> views) const {
    return {kind, views[matrix].shape[0], views[matrix].shape[1]};
  }

  int codes, matrix; ///< operands
  Quantization kind;
};

/// The kind that attribute `quantized` of a call names.
Quantization quantizationOf(CallReader &call);

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_CALLS_BOUNDDEQUANTIZE_H
