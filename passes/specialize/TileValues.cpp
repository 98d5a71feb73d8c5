//===- TileValues.cpp --------------------------------------------------------------------===//
#include "passes/specialize/TileValues.h"
#include "dialects/omnibal/interpreter/Interpreter.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace omnibal::specialization {
namespace {

/// Longer integer tensors are data, not sizes.
constexpr int64_t maximumSizes = 256;

std::optional<SymbolicShape> shapeOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? getSymbolicShape(type) : std::nullopt;
}
Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

/// The one dimension that is V, all others being static; none if there is no such dimension.
std::optional<size_t> tileDimension(const SymbolicShape &shape) {
  std::optional<size_t> found;
  for (auto [i, dim] : llvm::enumerate(shape)) {
    if (dim.isStatic())
      continue;
    if (found || dim != SymbolicDim::tiles())
      return std::nullopt;
    found = i;
  }
  return found;
}

bool isSplat(const HostTensor &tensor) {
  int64_t size = tensor.size();
  for (int64_t i = 1; i < size; ++i)
    if (tensor.at(i) != tensor.at(0))
      return false;
  return size > 0;
}

HostTensor scalar(Type element, double value) {
  HostTensor tensor(element, {});
  tensor.set(0, value);
  return tensor;
}

SmallVector<int64_t> sizesAt(const SymbolicShape &shape, int64_t tiles) {
  SmallVector<int64_t> sizes;
  for (const SymbolicDim &dim : shape)
    sizes.push_back(dim.evaluate(tiles, /*tokens=*/0));
  return sizes;
}

bool movesElementsOnly(Operation *op) {
  return isa<ReshapeOp, SqueezeOp, UnsqueezeOp, ExpandOp, SliceOp, TransposeOp, TileOp, GatherOp,
             GatherNDOp>(op);
}
} // namespace

TileValues::TileValues(func::FuncOp function, int64_t limitElements)
    : limitElements(limitElements) {
  for (BlockArgument argument : function.getArguments()) {
    auto shape = shapeOf(argument);
    if (!shape || shape->size() < 3 || !tileDimension(*shape))
      continue;
    Type element = elementOf(argument);
    if (isa<FloatType>(element)) {
      ofPictures[argument] = argument;
    } else if (element.isInteger(1)) {
      Probed valid;
      valid.splat = true;
      valid.tensors.fill(scalar(element, 1));
      known[argument] = valid;
    }
  }
}

std::optional<TileValues::Probed> TileValues::ofOperand(Value value,
                                                        const SymbolicContents &contents) const {
  ElementsAttr constant;
  Probed result;
  if (matchPattern(value, m_Constant(&constant))) {
    result.splat = isa<SplatElementsAttr>(constant);
    if (!result.splat && constant.getNumElements() > limitElements)
      return std::nullopt;
    FailureOr<HostTensor> tensor =
        result.splat ? fromAttribute(cast<SplatElementsAttr>(constant).resizeSplat(
                           RankedTensorType::get({}, elementOf(value))))
                     : fromAttribute(constant);
    if (failed(tensor))
      return std::nullopt;
    result.tensors.fill(*tensor);
    return result;
  }
  if (auto it = known.find(value); it != known.end())
    return it->second;
  auto sizes = contents.get(value);
  auto shape = shapeOf(value);
  if (!sizes || !shape || llvm::any_of(*sizes, [](SymbolicDim dim) { return dim.perToken != 0; }))
    return std::nullopt;
  for (auto [tensor, tiles] : llvm::zip(result.tensors, tileCounts)) {
    tensor = HostTensor(elementOf(value), sizesAt(*shape, tiles));
    for (auto [i, size] : llvm::enumerate(*sizes))
      tensor.set(i, static_cast<double>(size.evaluate(tiles, 0)));
  }
  return result;
}

std::optional<TileValues::Probed> TileValues::ofSplats(Operation *op,
                                                       const Operands &operands) const {
  if (movesElementsOnly(op) && operands.front().splat)
    return operands.front();
  if (!isa<ElementwiseOpInterface>(op) ||
      !llvm::all_of(operands, [](const Probed &operand) { return operand.splat; }))
    return std::nullopt;
  SmallVector<const HostTensor *> elements;
  for (const Probed &operand : operands)
    elements.push_back(&operand.tensors.front());
  auto values = Interpreter(InterpreterOptions{}).evaluateOp(op, elements);
  if (failed(values))
    return std::nullopt;
  Probed result;
  result.splat = true;
  result.tensors.fill(values->front());
  return result;
}

std::optional<TileValues::Probed> TileValues::evaluate(Operation *op, Operands operands) const {
  Value value = op->getResult(0);
  SymbolicShape shape = *shapeOf(value);
  Probed result;
  for (auto [i, tiles] : llvm::enumerate(tileCounts)) {
    SmallVector<const HostTensor *> tensors;
    if (elementCount(sizesAt(shape, tiles)) > limitElements)
      return std::nullopt;
    for (auto [operand, probed] : llvm::zip(op->getOperands(), operands)) {
      if (probed.splat) { // all of its elements
        SmallVector<int64_t> sizes = sizesAt(*shapeOf(operand), tiles);
        if (elementCount(sizes) > limitElements)
          return std::nullopt;
        HostTensor whole(elementOf(operand), sizes);
        double element = probed.tensors[i].at(0);
        for (int64_t at = 0, end = whole.size(); at < end; ++at)
          whole.set(at, element);
        probed.tensors[i] = std::move(whole);
      }
      tensors.push_back(&probed.tensors[i]);
    }
    auto values = Interpreter(InterpreterOptions{tiles}).evaluateOp(op, tensors);
    if (failed(values))
      return std::nullopt;
    result.tensors[i] = std::move(values->front());
  }
  double first = result.tensors.front().size() ? result.tensors.front().at(0) : 0;
  if (llvm::all_of(result.tensors, [&](const HostTensor &tensor) {
        return isSplat(tensor) && tensor.at(0) == first;
      })) {
    result.splat = true;
    result.tensors.fill(scalar(elementOf(value), first));
  }
  return result;
}

void TileValues::visit(Operation *op, const SymbolicContents &contents) {
  for (Value result : op->getResults()) {
    known.erase(result); // an erased op's results may have had this address
    ofPictures.erase(result);
  }
  if (op->getNumResults() != 1 || op->getNumOperands() == 0 || !isFoldable(op) ||
      isa<ShapeOp, SizeOp>(op))
    return;
  auto shape = shapeOf(op->getResult(0));
  if (!shape || llvm::any_of(*shape, [](SymbolicDim dim) { return dim.perToken != 0; }))
    return;
  Operands operands;
  bool varies = false; // constants alone are folded elsewhere
  for (Value operand : op->getOperands()) {
    auto type = shapeOf(operand);
    auto probed = type ? ofOperand(operand, contents) : std::nullopt;
    if (!probed)
      return followPictures(op, contents);
    varies |= !matchPattern(operand, m_Constant());
    operands.push_back(std::move(*probed));
  }
  if (!varies)
    return;
  // An op that cannot be evaluated here is just not known.
  ScopedDiagnosticHandler silent(op->getContext(), [](Diagnostic &) { return success(); });
  auto result = ofSplats(op, operands);
  if (!result)
    result = evaluate(op, std::move(operands));
  if (result)
    known[op->getResult(0)] = std::move(*result);
}

void TileValues::followPictures(Operation *op, const SymbolicContents &contents) {
  BlockArgument pictures;
  for (Value operand : op->getOperands()) {
    auto it = ofPictures.find(operand);
    if (it == ofPictures.end()) {
      if (!ofOperand(operand, contents))
        return;
    } else if (pictures && pictures != it->second) {
      return;
    } else {
      pictures = it->second;
    }
  }
  Value result = op->getResult(0);
  ofPictures[result] = pictures;
  if (!elementOf(result).isInteger(1) || product(*shapeOf(result)) != SymbolicDim::tiles())
    return;
  if (auto value = valueOfRealTiles(op, pictures)) {
    Probed all;
    all.splat = true;
    all.tensors.fill(scalar(elementOf(result), *value));
    known[result] = all;
  }
}

/// A boolean for each tile that tells tiles of zeros from all others: its value for the others,
/// which alone are in a micro-batch.
std::optional<bool> TileValues::valueOfRealTiles(Operation *op, BlockArgument pictures) const {
  constexpr int64_t tiles = 4; // of zeros, of ones, with one element, with elements of sum zero
  HostTensor probe(elementOf(pictures), sizesAt(*shapeOf(pictures), tiles));
  int64_t size = probe.size() / tiles;
  for (int64_t i = 0; i < size; ++i) {
    probe.set(size + i, 1);
    probe.set(3 * size + i, i % 2 ? 1 : size % 2 && i + 1 == size ? 0 : -1);
  }
  probe.set(3 * size - 1, -0.25);
  Interpreter interpreter(InterpreterOptions{tiles});
  Interpreter::Bindings bindings;
  bindings[pictures] = std::move(probe);
  ScopedDiagnosticHandler silent(op->getContext(), [](Diagnostic &) { return success(); });
  auto result = interpreter.evaluate(op->getResult(0), bindings);
  if (failed(result) || result->size() != tiles || result->ints[1] != result->ints[2] ||
      result->ints[1] != result->ints[3] || result->ints[0] == result->ints[1])
    return std::nullopt;
  return result->ints[1] != 0;
}

Value TileValues::repeatedRow(OpBuilder &builder, Operation *op) const {
  if (op->getNumResults() != 1)
    return {};
  Value value = op->getResult(0);
  auto it = known.find(value);
  auto shape = shapeOf(value);
  auto axis = shape ? tileDimension(*shape) : std::nullopt;
  if (it == known.end() || !axis || isa<ExpandOp>(op))
    return {};
  SymbolicShape rowShape = *shape;
  rowShape[*axis] = 1;
  HostTensor row(elementOf(value), sizesAt(rowShape, 0));
  const Probed &probed = it->second;
  int64_t inner = 1;
  for (size_t i = *axis + 1; i < rowShape.size(); ++i)
    inner *= rowShape[i].constant;
  auto source = [&](int64_t i, int64_t tile, int64_t tiles) {
    return (i / inner * tiles + tile) * inner + i % inner;
  };
  for (int64_t i = 0, end = row.size(); i < end; ++i) {
    row.set(i, probed.tensors.front().at(probed.splat ? 0 : source(i, 0, tileCounts.front())));
    for (auto [tensor, tiles] : llvm::zip(probed.tensors, tileCounts))
      for (int64_t tile = 0; tile < tiles && !probed.splat; ++tile)
        if (tensor.at(source(i, tile, tiles)) != row.at(i))
          return {};
  }
  DenseElementsAttr elements = toAttribute(row);
  Value constant = ConstantOp::create(builder, op->getLoc(), elements.getType(), elements);
  return ExpandOp::create(builder, op->getLoc(), value.getType(), constant, Value());
}

std::optional<SymbolicShape> TileValues::affine(Value value) const {
  auto it = known.find(value);
  auto type = cast<RankedTensorType>(value.getType());
  if (it == known.end() || !type.hasStaticShape() || type.getNumElements() > maximumSizes ||
      !type.getElementType().isInteger(64))
    return std::nullopt;
  const Probed &probed = it->second;
  SymbolicShape result;
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    auto at = [&](size_t probe) { return probed.tensors[probe].ints[probed.splat ? 0 : i]; };
    int64_t slope = (at(1) - at(0)) / (tileCounts[1] - tileCounts[0]);
    SymbolicDim dim(at(0) - slope * tileCounts[0], slope);
    for (auto [probe, tiles] : llvm::enumerate(tileCounts))
      if (dim.evaluate(tiles, 0) != at(probe))
        return std::nullopt;
    result.push_back(dim);
  }
  return result;
}

bool TileValues::listsAllTiles(Value value) const {
  auto it = known.find(value);
  if (it == known.end() || it->second.splat || product(*shapeOf(value)) != SymbolicDim::tiles())
    return false;
  for (const HostTensor &tensor : it->second.tensors)
    for (int64_t i = 0, end = tensor.size(); i < end; ++i)
      if (tensor.at(i) != static_cast<double>(i))
        return false;
  return true;
}

bool TileValues::choosesAllTiles(Value value) const {
  auto it = known.find(value);
  auto shape = shapeOf(value);
  return it != known.end() && it->second.splat && it->second.tensors.front().at(0) == 1 && shape &&
         shape->size() == 1 && shape->front() == SymbolicDim::tiles();
}

void TileValues::replace(Value from, Value to) {
  auto probed = known.find(from);
  std::optional<Probed> held;
  if (probed != known.end())
    held = probed->second;
  auto pictures = ofPictures.lookup(from);
  known.erase(from);
  ofPictures.erase(from);
  if (!to)
    return;
  known.erase(to);
  ofPictures.erase(to);
  if (held)
    known[to] = std::move(*held);
  if (pictures)
    ofPictures[to] = pictures;
}

} // namespace omnibal::specialization
