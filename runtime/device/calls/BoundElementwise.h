//===- BoundElementwise.h - Operands and ops of plain elementwise calls ----------------------===//
//
// One reading of the contract (docs/kernels.md) for all backends.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_CALLS_BOUNDELEMENTWISE_H
#define RUNTIME_DEVICE_CALLS_BOUNDELEMENTWISE_H

#include "runtime/device/CallReader.h"
#include "runtime/device/PlainMath.h"

namespace omnibal::rt {

/// A call of a kernel of plain::unaryNames: indices of its operands, and what it computes.
struct BoundUnary {
  BoundUnary(CallReader &call, const std::string &kernel);

  int operand, result;
  plain::Unary op;
};

/// A call of a kernel of plain::binaryNames; the derivatives of activations have `operand` and
/// `grad` for lhs and rhs.
struct BoundBinary {
  BoundBinary(CallReader &call, const std::string &kernel);

  int lhs, rhs, result;
  plain::Binary op;
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_CALLS_BOUNDELEMENTWISE_H
