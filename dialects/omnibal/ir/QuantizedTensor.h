//===- QuantizedTensor.h - Types of weights that are stored quantized -------------------------===//
//
// A frozen matrix that is stored quantized has the kind as its type's encoding:
// `tensor<64x128xf32, "nf4">` is [out, in], and ops read its values as float32. As the type says
// it, layers of equal bodies and unequal storage have different functions.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_QUANTIZEDTENSOR_H
#define DIALECTS_OMNIBAL_IR_QUANTIZEDTENSOR_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "runtime/support/QuantizedMatrix.h"

namespace omnibal {

/// How values of the type are stored; kind None: as numbers.
inline rt::QuantizedShape quantizedShapeOf(mlir::Type type) {
  auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
  auto name =
      tensor ? mlir::dyn_cast_or_null<mlir::StringAttr>(tensor.getEncoding()) : mlir::StringAttr();
  auto kind = name ? rt::quantizationNamed(name.getValue()) : std::nullopt;
  if (!kind || tensor.getRank() != 2 || !tensor.hasStaticShape() ||
      !tensor.getElementType().isF32())
    return {};
  return {*kind, tensor.getDimSize(0), tensor.getDimSize(1)};
}

inline bool isQuantized(mlir::Type type) {
  return quantizedShapeOf(type).kind != rt::Quantization::None;
}

inline mlir::RankedTensorType makeQuantizedType(mlir::RankedTensorType matrix,
                                                rt::Quantization kind) {
  return mlir::RankedTensorType::get(matrix.getShape(), matrix.getElementType(),
                                     mlir::StringAttr::get(matrix.getContext(), rt::nameOf(kind)));
}

} // namespace omnibal
#endif // DIALECTS_OMNIBAL_IR_QUANTIZEDTENSOR_H
