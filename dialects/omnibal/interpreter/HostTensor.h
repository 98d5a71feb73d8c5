//===- HostTensor.h - A dense tensor of the interpreter ----------------------------------===//
#ifndef DIALECTS_OMNIBAL_INTERPRETER_HOSTTENSOR_H
#define DIALECTS_OMNIBAL_INTERPRETER_HOSTTENSOR_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVector.h"
#include <vector>

namespace omnibal {

/// A dense row-major tensor. Floating-point elements are in `floats` (as doubles, whatever the
/// element type), integers and booleans in `ints`; the other vector is empty.
struct HostTensor {
  llvm::SmallVector<int64_t> shape;
  mlir::Type elementType;
  std::vector<double> floats;
  std::vector<int64_t> ints;

  HostTensor() = default;
  /// Makes a tensor of zeros.
  HostTensor(mlir::Type elementType, llvm::ArrayRef<int64_t> shape);

  bool isFloat() const { return llvm::isa<mlir::FloatType>(elementType); }
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t size() const;
  /// Returns element i as a double, which is exact for integers up to 2^53.
  double at(int64_t i) const { return isFloat() ? floats[i] : static_cast<double>(ints[i]); }
  /// Stores into element i; integers truncate, booleans become 0 or 1.
  void set(int64_t i, double value);
};

/// Number of elements of a shape.
int64_t elementCount(llvm::ArrayRef<int64_t> shape);
/// Row-major strides of a shape.
llvm::SmallVector<int64_t> rowMajorStrides(llvm::ArrayRef<int64_t> shape);

/// Returns the elements of a constant; fails (without a diagnostic) for an attribute whose data is
/// not present or whose element type is neither integer nor float.
llvm::FailureOr<HostTensor> fromAttribute(mlir::ElementsAttr attribute);
/// Returns a constant of the tensor's own shape and element type (float64 values are rounded to the
/// type).
mlir::DenseElementsAttr toAttribute(const HostTensor &tensor);

} // namespace omnibal
#endif // DIALECTS_OMNIBAL_INTERPRETER_HOSTTENSOR_H
