//===- TensorBuilder.h - Dialect ops on tensors whose shapes are known -------------------===//
#ifndef PASSES_LOWER_TENSORBUILDER_H
#define PASSES_LOWER_TENSORBUILDER_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/IR/Builders.h"

namespace omnibal::lower {

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

/// Short forms for rewrites; the caller knows that shapes fit.
class TensorBuilder {
public:
  TensorBuilder(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  mlir::Value scalar(double value, mlir::Type elementType) {
    auto type = mlir::RankedTensorType::get({}, elementType);
    auto data = mlir::DenseElementsAttr::get(
        type, mlir::cast<mlir::Attribute>(builder.getFloatAttr(elementType, value)));
    return ConstantOp::create(builder, loc, type, data);
  }
  /// Elementwise op whose result has the type of `like`.
  template <typename OpT, typename... Args> mlir::Value like(mlir::Value like, Args &&...args) {
    return OpT::create(builder, loc, like.getType(), std::forward<Args>(args)...);
  }
  /// Reduction over dimensions [axis, rank), kept as ones.
  mlir::Value reduceFrom(mlir::Value input, int64_t axis, ReduceKind kind) {
    SymbolicShape shape = *getSymbolicShape(typeOf(input));
    llvm::SmallVector<int64_t> axes;
    for (int64_t i = axis; i < static_cast<int64_t>(shape.size()); ++i) {
      axes.push_back(i);
      shape[i] = 1;
    }
    auto type = makeTensorType(builder.getContext(), shape, typeOf(input).getElementType());
    return ReduceOp::create(builder, loc, type, input, mlir::Value(), kind,
                            builder.getDenseI64ArrayAttr(axes), true, false);
  }
  /// Gives the elements another shape; the result is the value itself if the shape is the same.
  mlir::Value reshape(mlir::Value input, llvm::ArrayRef<SymbolicDim> shape) {
    auto type = makeTensorType(builder.getContext(), shape, typeOf(input).getElementType());
    if (type == input.getType())
      return input;
    return ReshapeOp::create(builder, loc, type, input, mlir::Value(), false);
  }

private:
  mlir::OpBuilder &builder;
  mlir::Location loc;
};

} // namespace omnibal::lower
#endif // PASSES_LOWER_TENSORBUILDER_H
