//===- KnownInts.h - Integers that shape arithmetic is known to give ---------------------===//
#ifndef IMPORTERS_ONNX_KNOWNINTS_H
#define IMPORTERS_ONNX_KNOWNINTS_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace omnibal::onnx {

/// Elements of integer values of rank 0 or 1 as far as constants and static dimensions give them;
/// ShapedType::kDynamic stands for an element that is not known.
class KnownInts {
public:
  using Ints = llvm::SmallVector<int64_t, 4>;
  /// Returns the known integers; none if even the number of elements is unknown (or is large: no
  /// shape).
  std::optional<Ints> get(mlir::Value value);
  /// All elements, or none.
  std::optional<Ints> getAll(mlir::Value value);

private:
  std::optional<Ints> compute(mlir::Value value);
  llvm::DenseMap<mlir::Value, std::optional<Ints>> known;
};

} // namespace omnibal::onnx
#endif // IMPORTERS_ONNX_KNOWNINTS_H
