//===- BindInputs.cpp - Graph inputs in (V, N) -------------------------------------------===//
#include "passes/specialize/SpecializeInternal.h"

using namespace mlir;

namespace omnibal::specialization {
namespace {

struct Binder {
  BlockArgument argument;
  RankedTensorType type;
  std::string name;
  const SpecializeOptions &options;
  SymbolicShape shape;

  InFlightDiagnostic error() {
    return emitError(argument.getLoc(), "graph input '") << name << "' (" << type << ")";
  }
  void warnFixed(int64_t dim, StringRef what) {
    if (!options.staticInputs)
      emitWarning(argument.getLoc(), "graph input '")
          << name << "': dimension " << dim << " is fixed at " << type.getDimSize(dim)
          << " by the exporter; it should be the " << what << ": export with dynamic shapes";
  }
  bool dynamic(int64_t dim) const { return type.isDynamicDim(dim); }
  /// Dimension `dim` as the batch, which is 1.
  void bindBatch(int64_t dim) {
    if (dynamic(dim))
      shape[dim] = 1;
    else if (type.getDimSize(dim) != 1)
      warnFixed(dim, "batch size, 1 or dynamic");
  }
  void bindTokens(int64_t dim) {
    if (dynamic(dim))
      shape[dim] = SymbolicDim::tokens();
    else
      warnFixed(dim, "number of tokens");
  }
  LogicalResult bindImages();
  LogicalResult bind();
};

LogicalResult Binder::bindImages() {
  // Behind a batch of 1, which may be dynamic as well: [rows, pictures, 3, H, W].
  bool isBatch = dynamic(0) ? type.getRank() > 3 : type.getDimSize(0) == 1;
  int64_t tiles = isBatch && dynamic(1) ? 1 : 0;
  if (tiles == 1)
    bindBatch(0);
  if (dynamic(tiles))
    shape[tiles] = SymbolicDim::tiles();
  else
    warnFixed(tiles, "number of images");
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (dim > tiles && dynamic(dim))
      return error() << ": dimension " << dim
                     << " of an image input is dynamic; only the number of "
                     << "images may be: export with fixed picture height and width";
  return success();
}

LogicalResult Binder::bind() {
  int64_t rank = type.getRank();
  bool isFloat = isa<FloatType>(type.getElementType());
  bool isMask = rank == 4 && dynamic(2) && dynamic(3) && (dynamic(0) || type.getDimSize(0) == 1) &&
                type.getDimSize(1) == 1;
  if (isMask) {
    bindBatch(0);
    bindTokens(2);
    bindTokens(3);
    return success();
  }
  if (rank >= 3 && !(rank == 3 && !isFloat && dynamic(2)))
    return bindImages();
  if (isFloat) {
    if (type.hasStaticShape())
      return success();
    return error()
           << ": neither token ids (integer, rank 2), nor pictures (float, rank 3 or more), "
           << "nor a mask (rank 4); give its sizes with --input-dims";
  }
  if (rank == 0)
    return success();
  bindTokens(rank - 1);
  for (int64_t dim = 0; dim + 1 < rank; ++dim)
    if (dim + 2 == rank || dynamic(dim))
      bindBatch(dim);
  return success();
}
} // namespace

LogicalResult bindInputs(func::FuncOp function, const SpecializeOptions &options) {
  Block &body = function.getBody().front();
  OpBuilder builder = OpBuilder::atBlockBegin(&body);
  llvm::BitVector erased(function.getNumArguments());
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    auto attr = function.getArgAttrOfType<StringAttr>(index, "omnibal.input");
    std::string name = attr ? attr.str() : "#" + std::to_string(index);
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type)
      return emitError(argument.getLoc(), "graph input '") << name << "' has no known rank";
    auto constant = options.constants.find(name);
    if (constant != options.constants.end()) {
      Value value = ConstantOp::create(builder, argument.getLoc(), constant->second.getShapedType(),
                                       constant->second);
      argument.replaceAllUsesWith(value);
      erased.set(index);
      continue;
    }
    Binder binder{argument, type, name, options, {}};
    auto given = options.inputDims.find(name);
    if (given != options.inputDims.end()) {
      if (given->second.size() != static_cast<size_t>(type.getRank()))
        return binder.error() << ": --input-dims gives " << given->second.size() << " sizes";
      for (auto [dim, size] : llvm::enumerate(given->second)) {
        if (!type.isDynamicDim(dim) && type.getDimSize(dim) != size)
          return binder.error() << ": --input-dims gives " << size << " for dimension " << dim;
        binder.shape.push_back(size);
      }
    } else if (auto known = getSymbolicShape(type); known && !type.hasStaticShape()) {
      continue; // bound before
    } else {
      for (int64_t size : type.getShape())
        binder.shape.push_back(ShapedType::isDynamic(size) ? SymbolicDim(-1) : SymbolicDim(size));
      if (failed(binder.bind()))
        return failure();
    }
    argument.setType(makeTensorType(function.getContext(), binder.shape, type.getElementType()));
  }
  if (erased.any() && failed(function.eraseArguments(erased)))
    return failure();
  function.setType(FunctionType::get(function.getContext(), body.getArgumentTypes(),
                                     function.getFunctionType().getResults()));
  return success();
}

} // namespace omnibal::specialization
