//===- Specialize.cpp - Form I to form S -------------------------------------------------===//
#include "passes/specialize/Specialize.h"
#include "mlir/IR/Matchers.h"
#include "passes/specialize/TileValues.h"
#include <cmath>

using namespace mlir;

namespace omnibal {
namespace specialization {
namespace {

/// Walks the ops in order; types before an op are final when the op is reached.
class Specializer {
public:
  Specializer(func::FuncOp function, const SpecializeOptions &options)
      : function(function), options(options), rewriter(function.getContext()),
        tileValues(function, options.foldLimitElements) {}

  LogicalResult run() {
    Block &block = function.getBody().front();
    for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
      if (failed(visit(&op)))
        return failure();
    Operation *terminator = block.getTerminator();
    function.setType(FunctionType::get(function.getContext(), block.getArgumentTypes(),
                                       terminator->getOperandTypes()));
    eliminateDeadAndEqual(function);
    return verify();
  }

private:
  LogicalResult visit(Operation *op);
  LogicalResult inferTypes(Operation *op);
  LogicalResult infer(Operation *op, SmallVectorImpl<SymbolicShape> &shapes);
  LogicalResult verify();
  bool replaceByTileValue(Operation *op);
  bool dependsOnData(Operation *op) const {
    return llvm::any_of(op->getOperands(), [&](Value v) { return dataDependent.contains(v); });
  }

  func::FuncOp function;
  const SpecializeOptions &options;
  IRRewriter rewriter;
  SymbolicContents contents;
  TileValues tileValues;
  /// Values whose shape or contents follow from the positions of non-zero elements. They may only
  /// end in a scatter, which the image merge becomes.
  llvm::DenseSet<Value> dataDependent;
};

/// Number of elements of a range between constants that are not integers.
std::optional<SymbolicDim> lengthOfFloatRange(Operation *op) {
  if (!isa<RangeOp>(op))
    return std::nullopt;
  SmallVector<double> bounds;
  for (Value operand : op->getOperands()) {
    DenseFPElementsAttr constant;
    if (!matchPattern(operand, m_Constant(&constant)) || constant.getNumElements() != 1)
      return std::nullopt;
    bounds.push_back((*constant.begin()).convertToDouble());
  }
  if (bounds[2] == 0)
    return std::nullopt;
  double count = std::ceil((bounds[1] - bounds[0]) / bounds[2]);
  return count > 0 ? SymbolicDim(static_cast<int64_t>(count)) : SymbolicDim(0);
}

LogicalResult Specializer::infer(Operation *op, SmallVectorImpl<SymbolicShape> &shapes) {
  if (auto length = lengthOfFloatRange(op)) {
    shapes.push_back({*length});
    return success();
  }
  SmallVector<SymbolicShape> operandShapes;
  for (Value operand : op->getOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    auto shape = type ? getSymbolicShape(type) : std::nullopt;
    if (!shape)
      return op->emitError() << describe(op) << ": the shape of an operand is not known";
    operandShapes.push_back(std::move(*shape));
  }
  auto inference = dyn_cast<ShapeInferenceOpInterface>(op);
  if (!inference)
    return op->emitError() << describe(op) << ": the op has no shape rule";
  return inference.inferSymbolicShapes(
      operandShapes, [&](unsigned i) { return contents.get(op->getOperand(i)); }, shapes);
}

LogicalResult Specializer::inferTypes(Operation *op) {
  SmallVector<SymbolicShape> shapes;
  auto nonzero = dyn_cast<NonZeroOp>(op);
  bool allTiles = nonzero && tileValues.choosesAllTiles(nonzero.getInput());
  bool uncertain = (nonzero && !allTiles) || dependsOnData(op);
  if (allTiles) {
    shapes.push_back({1, SymbolicDim::tiles()});
  } else if (!uncertain) {
    if (failed(infer(op, shapes)))
      return failure();
  } else if (isa<ScatterNDOp, ScatterElementsOp>(op)) {
    if (auto shape = getSymbolicShape(cast<RankedTensorType>(op->getOperand(0).getType())))
      shapes.push_back(*shape);
  } else if (!nonzero) {
    // The shape may be known all the same; if not, the type stays as imported.
    ScopedDiagnosticHandler silent(op->getContext(), [](Diagnostic &) { return success(); });
    if (failed(infer(op, shapes)))
      shapes.clear();
  }
  for (auto [result, shape] : llvm::zip(op->getResults(), shapes))
    result.setType(makeTensorType(op->getContext(), shape,
                                  cast<RankedTensorType>(result.getType()).getElementType()));
  if (uncertain && !isa<ScatterNDOp, ScatterElementsOp>(op))
    dataDependent.insert(op->result_begin(), op->result_end());
  return success();
}

LogicalResult Specializer::visit(Operation *op) {
  if (isa<ConstantOp>(op)) {
    contents.visit(op);
    return success();
  }
  if (isa<GetParameterOp, BatchValueOp>(op))
    return success();
  if (op->use_empty() && isOpTriviallyDead(op)) {
    rewriter.eraseOp(op);
    return success();
  }
  if (failed(inferTypes(op)))
    return failure();
  bool uncertain =
      llvm::any_of(op->getResults(), [&](Value v) { return dataDependent.contains(v); });
  if (!uncertain) {
    contents.visit(op);
    tileValues.visit(op, contents);
    if (op->getNumResults() == 1 && !contents.get(op->getResult(0)))
      if (auto sizes = tileValues.affine(op->getResult(0)))
        contents.set(op->getResult(0), *sizes);
    // Contents without V and N are a constant, whatever computed them.
    if (op->getNumResults() == 1)
      if (auto known = contents.get(op->getResult(0));
          known && llvm::all_of(*known, [](const SymbolicDim &d) { return d.isStatic(); })) {
        auto type = cast<RankedTensorType>(op->getResult(0).getType());
        SmallVector<APInt> values;
        unsigned width = type.getElementTypeBitWidth();
        for (const SymbolicDim &dim : *known)
          values.push_back(APInt(width, dim.constant, /*isSigned=*/true, /*implicitTrunc=*/true));
        rewriter.setInsertionPoint(op);
        auto constant =
            ConstantOp::create(rewriter, op->getLoc(), type, DenseElementsAttr::get(type, values));
        contents.forget(op->getResult(0)); // its address may be used again
        tileValues.replace(op->getResult(0), Value());
        rewriter.replaceOp(op, constant);
        contents.visit(constant);
        return success();
      }
    auto folded = foldConstant(rewriter, op, options.foldLimitElements);
    if (failed(folded))
      return failure();
    if (!folded->empty()) {
      for (Operation *constant : *folded)
        contents.visit(constant);
      return success();
    }
    if (replaceByTileValue(op))
      return success();
  }
  if (uncertain && llvm::any_of(op->getOperandTypes(), [](Type type) {
        return !getSymbolicShape(cast<RankedTensorType>(type));
      }))
    return success(); // nothing to rewrite without shapes
  if (uncertain && isa<SliceOp>(op))
    return success(); // ends where the data says
  if (op->getNumResults() != 1 || op->use_empty())
    return success();
  // What is known of the result holds for whatever replaces it.
  Value result = op->getResult(0);
  auto known = contents.get(result);
  contents.forget(result);
  dataDependent.erase(result);
  OpOperand *use = &*result.getUses().begin();
  if (failed(rewriteShapes(rewriter, op, contents)))
    return failure();
  if (use->get() != result)
    tileValues.replace(result, use->get());
  if (known)
    contents.set(use->get(), *known);
  if (uncertain)
    dataDependent.insert(use->get());
  return success();
}

/// Replaces what is the same row for every tile, what looks up such rows in a table, and the choice
/// of the tiles that are there: all of them.
bool Specializer::replaceByTileValue(Operation *op) {
  rewriter.setInsertionPoint(op);
  Value replacement = tileValues.repeatedRow(rewriter, op);
  bool isGather = isa<GatherNDOp>(op) || (isa<GatherOp>(op) && cast<GatherOp>(op).getAxis() == 0);
  if (!replacement && isGather && tileValues.listsAllTiles(op->getOperand(1)) &&
      op->getResult(0).getType() == op->getOperand(0).getType())
    replacement = op->getOperand(0);
  if (auto gather = dyn_cast<GatherOp>(op); gather && !replacement && isGather) {
    auto rows = gather.getIndices().getDefiningOp<ExpandOp>();
    auto table = cast<RankedTensorType>(gather.getInput().getType());
    if (rows && matchPattern(rows.getInput(), m_Constant()) && table.hasStaticShape()) {
      SmallVector<int64_t> shape(cast<RankedTensorType>(rows.getInput().getType()).getShape());
      llvm::append_range(shape, table.getShape().drop_front());
      auto type = RankedTensorType::get(shape, table.getElementType());
      Value once = GatherOp::create(rewriter, op->getLoc(), type, gather.getInput(),
                                    rows.getInput(), gather.getAxisAttr(), gather.getPaddingAttr());
      replacement = ExpandOp::create(rewriter, op->getLoc(), gather.getType(), once, Value());
    }
  }
  if (!replacement)
    return false;
  Value result = op->getResult(0);
  auto known = contents.get(result);
  contents.forget(result);
  if (replacement != op->getOperand(0))
    tileValues.replace(result, replacement);
  else
    tileValues.replace(result, Value());
  rewriter.replaceOp(op, replacement);
  if (known)
    contents.set(replacement, *known);
  return true;
}

LogicalResult Specializer::verify() {
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (isa<NonZeroOp>(op))
      continue;
    for (Value result : op.getResults()) {
      auto type = dyn_cast<RankedTensorType>(result.getType());
      if (type && !getSymbolicShape(type) && !dataDependent.contains(result))
        return op.emitError() << describe(&op) << ": the shape of the result " << type
                              << " is not a function of the number of tiles and tokens";
    }
  }
  for (OpOperand &operand : function.getBody().front().getTerminator()->getOpOperands())
    if (!getSymbolicShape(cast<RankedTensorType>(operand.get().getType())))
      return function.emitError() << "graph output " << operand.getOperandNumber()
                                  << ": its shape depends on the data";
  return success();
}
} // namespace
} // namespace specialization

LogicalResult specialize(func::FuncOp function, const SpecializeOptions &options) {
  if (function.isExternal())
    return success();
  if (failed(specialization::bindInputs(function, options)))
    return failure();
  specialization::rewriteMaskedWrites(function);
  return specialization::Specializer(function, options).run();
}

} // namespace omnibal
