//===- Emit.h - Building dialect ops with inferred result types --------------------------===//
//
// Result types as far as import knows them: rank and element type always, dimensions where they are
// constant (specialization finds the rest). Every function returns null after an error, which it
// has reported, and null for null operands, so that decompositions need no checks between steps.
//
//===------------------------------------------------------------------------------------------------===//
#ifndef IMPORTERS_ONNX_EMIT_H
#define IMPORTERS_ONNX_EMIT_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "importers/onnx/KnownInts.h"
#include "mlir/IR/Builders.h"
#include <string>

namespace omnibal::onnx {

inline mlir::RankedTensorType typeOf(mlir::Value v) {
  return llvm::cast<mlir::RankedTensorType>(v.getType());
}
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value v) { return typeOf(v).getShape(); }
inline int64_t rankOf(mlir::Value v) { return typeOf(v).getRank(); }
inline mlir::Type elementOf(mlir::Value v) { return typeOf(v).getElementType(); }
constexpr int64_t kDynamic = mlir::ShapedType::kDynamic;

class Emitter {
public:
  Emitter(mlir::OpBuilder &builder, mlir::Location loc, KnownInts &known, std::string label)
      : builder(builder), loc(loc), known(known), label(std::move(label)) {}

  mlir::OpBuilder &builder;
  mlir::Location loc;
  KnownInts &known;
  std::string label; ///< of the node, for errors

  /// Return null. The first of a node is reported: a builder may find what is wrong in several
  /// places.
  std::nullptr_t invalid(const llvm::Twine &what);
  std::nullptr_t unsupported(const llvm::Twine &what);

  // Constants.
  mlir::Value constant(mlir::DenseElementsAttr value);
  mlir::Value ints(llvm::ArrayRef<int64_t> values); ///< i64, rank 1
  mlir::Value intScalar(int64_t value);
  /// A scalar of any element type.
  mlir::Value scalar(double value, mlir::Type element);

  // Elementwise.
  template <typename OpT> mlir::Value unary(mlir::Value x) {
    return x ? OpT::create(builder, loc, x.getType(), x).getResult() : mlir::Value();
  }
  template <typename OpT> mlir::Value binary(mlir::Value a, mlir::Value b) {
    mlir::RankedTensorType type = broadcastType({a, b});
    if (!type || !sameElements(a, b))
      return {};
    return OpT::create(builder, loc, type, a, b).getResult();
  }
  mlir::Value add(mlir::Value a, mlir::Value b) { return binary<AddOp>(a, b); }
  mlir::Value sub(mlir::Value a, mlir::Value b) { return binary<SubOp>(a, b); }
  mlir::Value mul(mlir::Value a, mlir::Value b) { return binary<MulOp>(a, b); }
  mlir::Value div(mlir::Value a, mlir::Value b) { return binary<DivOp>(a, b); }
  mlir::Value scale(mlir::Value x, double factor); ///< x itself for 1
  mlir::Value compare(mlir::Value a, mlir::Value b, ComparePredicate predicate);
  mlir::Value select(mlir::Value condition, mlir::Value onTrue, mlir::Value onFalse);
  mlir::Value cast(mlir::Value x, mlir::Type element); ///< x itself if it has that type

  // Layout. `fallback`: the declared type, for results whose rank only the shape's values tell.
  mlir::Value reshape(mlir::Value x, mlir::Value shape, bool allowZero,
                      mlir::RankedTensorType fallback = {});
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<int64_t> shape); ///< 0 copies, -1 infers
  mlir::Value squeeze(mlir::Value x, mlir::Value axes); ///< no axes: all dimensions of size 1
  mlir::Value squeeze(mlir::Value x, llvm::ArrayRef<int64_t> axes);
  mlir::Value unsqueeze(mlir::Value x, mlir::Value axes);
  mlir::Value unsqueeze(mlir::Value x, llvm::ArrayRef<int64_t> axes);
  mlir::Value transpose(mlir::Value x, llvm::ArrayRef<int64_t> permutation);
  mlir::Value expand(mlir::Value x, mlir::Value shape, mlir::RankedTensorType fallback = {});
  mlir::Value slice(mlir::Value x, mlir::Value starts, mlir::Value ends, mlir::Value axes,
                    mlir::Value steps);
  /// x[.., begin:end, ..] along `axis`.
  mlir::Value slice(mlir::Value x, int64_t axis, int64_t begin, int64_t end);
  mlir::Value concat(llvm::ArrayRef<mlir::Value> inputs, int64_t axis);
  mlir::Value tile(mlir::Value x, mlir::Value repeats);

  // Shapes and indexing.
  mlir::Value shape(mlir::Value x, int64_t start, int64_t end);
  mlir::Value gather(mlir::Value x, mlir::Value indices, int64_t axis);
  mlir::Value gatherElements(mlir::Value x, mlir::Value indices, int64_t axis);
  mlir::Value range(mlir::Value start, mlir::Value limit, mlir::Value delta);

  // Reductions and neural-network ops.
  mlir::Value reduce(mlir::Value x, ReduceKind kind, llvm::ArrayRef<int64_t> axes, bool keepDims);
  mlir::Value matmul(mlir::Value a, mlir::Value b, bool transposeA = false,
                     bool transposeB = false);
  mlir::Value softmax(mlir::Value x, int64_t axis);
  mlir::Value logSoftmax(mlir::Value x, int64_t axis);

  /// The type that operands broadcast to (element type of the last one); null after an error.
  mlir::RankedTensorType broadcastType(llvm::ArrayRef<mlir::Value> operands);
  /// Brings an axis into [0, rank); none after an error.
  std::optional<int64_t> axis(int64_t axis, int64_t rank);
  bool requireFloat(mlir::Value v, llvm::StringRef what);
  bool requireInt(mlir::Value v, llvm::StringRef what);

private:
  bool sameElements(mlir::Value a, mlir::Value b);

  bool told = false; ///< an error of the node
};

} // namespace omnibal::onnx
#endif // IMPORTERS_ONNX_EMIT_H
