//===- BindInputs.cpp - Graph inputs in (V, N) -------------------------------------------===//
#include "passes/specialize/SpecializeInternal.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace omnibal::specialization {
namespace {

/// A dimension as the exporter wrote it: NAME or k*NAME.
struct NamedSize {
  int64_t factor = 1;
  StringRef symbol;
};
std::optional<NamedSize> parseSize(StringRef text) {
  NamedSize size{1, text.trim()};
  if (text.contains('*')) {
    auto [factor, symbol] = text.split('*');
    size.symbol = symbol.trim();
    if (factor.trim().getAsInteger(10, size.factor) || size.factor < 1)
      return std::nullopt;
  }
  bool isName = !size.symbol.empty() && !llvm::isDigit(size.symbol.front()) &&
                llvm::all_of(size.symbol, [](char c) { return llvm::isAlnum(c) || c == '_'; });
  return isName ? std::optional(size) : std::nullopt;
}

/// The names of an argument's dimensions; empty where the module was written without them.
SmallVector<StringRef> dimensionNames(func::FuncOp function, unsigned argument) {
  SmallVector<StringRef> names;
  if (auto dims = function.getArgAttrOfType<ArrayAttr>(argument, "omnibal.dims"))
    for (Attribute name : dims)
      names.push_back(cast<StringAttr>(name).getValue());
  return names;
}

/// Rank 1 or 2 with the first dimension dynamic and no other: such an input may have rows per unit.
bool hasRows(RankedTensorType type, ArrayRef<StringRef> names) {
  int64_t rank = type ? type.getRank() : 0;
  return rank >= 1 && rank <= 2 && static_cast<int64_t>(names.size()) == rank &&
         type.isDynamicDim(0) && (rank == 1 || !type.isDynamicDim(1));
}

/// Names of batch and token dimensions: the last two of integer inputs that end in a dynamic one.
llvm::StringSet<> tokenSymbols(func::FuncOp function) {
  llvm::StringSet<> symbols;
  for (BlockArgument argument : function.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    SmallVector<StringRef> names = dimensionNames(function, argument.getArgNumber());
    int64_t rank = type ? type.getRank() : 0;
    if (rank < 2 || static_cast<int64_t>(names.size()) != rank ||
        isa<FloatType>(type.getElementType()) || !type.isDynamicDim(rank - 1))
      continue;
    for (StringRef name : ArrayRef(names).take_back(2))
      if (auto size = parseSize(name))
        symbols.insert(size->symbol);
  }
  return symbols;
}

/// Names of the numbers of pictures: of dynamic dimensions in front of [3, height, width].
llvm::StringSet<> pictureSymbols(func::FuncOp function) {
  llvm::StringSet<> symbols;
  for (BlockArgument argument : function.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    SmallVector<StringRef> names = dimensionNames(function, argument.getArgNumber());
    int64_t rank = type ? type.getRank() : 0;
    if (rank < 4 || static_cast<int64_t>(names.size()) != rank ||
        !isa<FloatType>(type.getElementType()))
      continue;
    for (int64_t dim = 0; dim < 2; ++dim)
      if (type.isDynamicDim(dim))
        symbols.insert(names[dim]);
  }
  return symbols;
}

struct Binder {
  BlockArgument argument;
  RankedTensorType type;
  std::string name;
  const SpecializeOptions &options;
  SmallVector<StringRef> names; ///< of the dimensions, where known
  const llvm::StringSet<> &tokenSymbols, &pictureSymbols;
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
  /// [batch, tokens, pictures]: which pictures a token sees.
  bool bindSeenPictures();
  /// Rows per vision unit: rank 1 or 2, the first dimension k units, the second static.
  bool bindUnits();
  LogicalResult bindImages();
  LogicalResult bind();
};

bool Binder::bindUnits() {
  if (!hasRows(type, names))
    return false;
  auto size = parseSize(names[0]);
  if (!size || tokenSymbols.contains(size->symbol))
    return false;
  shape[0] = SymbolicDim(0, size->factor, 0);
  return true;
}

bool Binder::bindSeenPictures() {
  if (type.getRank() != 3 || isa<FloatType>(type.getElementType()) || !dynamic(2) ||
      names.size() != 3 || !pictureSymbols.contains(names[2]))
    return false;
  bindBatch(0);
  bindTokens(1);
  shape[2] = SymbolicDim::tiles();
  return true;
}

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
  if (bindUnits() || bindSeenPictures())
    return success();
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

/// Inputs with rows per vision unit must count the same unit, else their sizes are unrelated.
LogicalResult checkUnits(func::FuncOp function, const llvm::StringSet<> &tokens) {
  StringRef unit, first;
  for (BlockArgument argument : function.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    SmallVector<StringRef> names = dimensionNames(function, argument.getArgNumber());
    if (!hasRows(type, names) || names[0].empty())
      continue;
    auto size = parseSize(names[0]);
    auto attr = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "omnibal.input");
    StringRef name = attr ? attr.getValue() : "unnamed";
    if (!size)
      return emitError(argument.getLoc(), "graph input '")
             << name << "': the size '" << names[0] << "' of dimension 0 is not a multiple of one "
             << "symbol; export with one symbol for the vision units and sizes k * units";
    if (tokens.contains(size->symbol))
      continue;
    if (!unit.empty() && unit != size->symbol)
      return emitError(argument.getLoc(), "graph input '")
             << name << "' counts '" << size->symbol << "', but '" << first << "' counts '" << unit
             << "'; export with one symbol for the vision units and sizes k * units";
    unit = size->symbol;
    first = name;
  }
  return success();
}
} // namespace

LogicalResult bindInputs(func::FuncOp function, const SpecializeOptions &options) {
  Block &body = function.getBody().front();
  OpBuilder builder = OpBuilder::atBlockBegin(&body);
  llvm::BitVector erased(function.getNumArguments());
  const llvm::StringSet<> symbols = tokenSymbols(function), pictures = pictureSymbols(function);
  if (failed(checkUnits(function, symbols)))
    return failure();
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
    Binder binder{argument, type,     name, options, dimensionNames(function, index),
                  symbols,  pictures, {}};
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
