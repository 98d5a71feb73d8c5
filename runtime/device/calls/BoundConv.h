//===- BoundConv.h - Operands and attributes of a convolution's call -------------------------===//
//
// One reading of the contract (docs/kernels.md) for all backends.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_CALLS_BOUNDCONV_H
#define RUNTIME_DEVICE_CALLS_BOUNDCONV_H

#include "runtime/device/CallReader.h"
#include "runtime/device/CheckedKernel.h"

namespace omnibal::rt {

/// Indices of the operands of `conv`, `conv_input_grad` or `conv_weight_grad`, whichever of them is
/// the result: input [N, C, x..], weight [O, C / group, k..], output [N, O, y..]; `bias` is -1
/// where the call lacks it. Attributes that do not fit together are an error of `call`.
struct BoundConv {
  enum Kind { Forward, InputGrad, WeightGrad };

  BoundConv(CallReader &call, const std::string &kernel);
  Status checkOperands(const CheckedKernel &kernel, std::span<const TensorView> views) const;

  Kind kind;
  int input, weight, output, bias;
  std::vector<int64_t> strides, pads, dilations; ///< pads: those before, then those after
  int64_t group;
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_CALLS_BOUNDCONV_H
