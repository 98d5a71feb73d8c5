//===- Tensors.h - ONNX tensors and types as attributes ----------------------------------===//
#ifndef IMPORTERS_ONNX_TENSORS_H
#define IMPORTERS_ONNX_TENSORS_H

#include "importers/onnx/Schema.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Location.h"
#include <optional>

namespace omnibal::onnx {

/// Numbers of TensorProto.DataType that the importer takes.
enum DataType : int32_t {
  Float = 1,
  Uint8 = 2,
  Int8 = 3,
  Uint16 = 4,
  Int16 = 5,
  Int32 = 6,
  Int64 = 7,
  String = 8,
  Bool = 9,
  Float16 = 10,
  Double = 11,
  Uint32 = 12,
  Uint64 = 13,
  BFloat16 = 16
};

/// "float", "int64", ...; "type 17" for numbers without a name here.
std::string dataTypeName(int32_t dataType);
/// The element type a value has here: float, float16 and bfloat16 are f32, double is f64, bool i1,
/// every integer i64. Null for what is not supported.
mlir::Type elementType(int32_t dataType, mlir::MLIRContext *context);
/// Bytes of one stored element; 0 for types without a fixed size.
int64_t storedBytes(int32_t dataType);
bool isFloat(int32_t dataType);
bool isInteger(int32_t dataType);
/// Range of a narrow integer type, none for int64 and what is no integer.
std::optional<std::pair<int64_t, int64_t>> narrowRange(int32_t dataType);

/// What is wrong with sizes that no memory holds, empty if nothing is: a dimension below 0 or over
/// 2^31 - 1, or more than 2^62 elements. With a few of those that pass one can count in 64 bits.
std::string sizeError(llvm::ArrayRef<int64_t> shape);

/// The tensor's type after checks of its element type and dimensions (sign, overflow).
mlir::FailureOr<mlir::RankedTensorType> tensorType(const TensorProto &tensor, mlir::Location where);
/// Bytes that `tensor` takes when stored raw.
int64_t rawBytes(const TensorProto &tensor);
/// The elements, from `external` where the tensor's data is external. Checks that there are as many
/// as the dimensions say.
mlir::FailureOr<mlir::DenseElementsAttr>
tensorValue(const TensorProto &tensor, llvm::ArrayRef<char> external, mlir::Location where);
/// The type a value is declared with; null if it says nothing (then a rank must be inferred).
mlir::FailureOr<mlir::RankedTensorType> declaredType(const ValueInfoProto &info,
                                                     mlir::Location where);

} // namespace omnibal::onnx
#endif // IMPORTERS_ONNX_TENSORS_H
