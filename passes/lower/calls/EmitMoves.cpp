//===- EmitMoves.cpp - Where the parts of a stage meet -----------------------------------===//
#include "dialects/omnibal/ir/Layouts.h"
#include "dialects/omnibal/ir/ShapeInference.h"
#include "passes/lower/calls/CallBuilder.h"

using namespace mlir;

namespace omnibal::lower {
namespace {

StringRef kernelOf(Move move) {
  switch (move) {
  case Move::AllReduce:
    return "all_reduce";
  case Move::AllGather:
    return "all_gather";
  case Move::ReduceScatter:
    return "reduce_scatter";
  case Move::AllToAll:
    return "all_to_all";
  case Move::Take:
    return "take_part";
  case Move::Place:
    return "place_part";
  case Move::KeepFirst:
    return "keep_first";
  case Move::None:
    return "";
  }
  llvm_unreachable("all moves are above");
}

LogicalResult setSplit(ReshardOp op, LayoutAttr layout, StringRef side, Call &call) {
  if (!layout.isSplit())
    return success();
  auto whole = getSymbolicShape(cast<RankedTensorType>(op.getWhole()));
  std::optional<SymbolicDim> outer = outerOf(layout, *whole);
  if (!outer)
    return op.emitOpError() << "splits " << toString(*whole) << " as " << layout
                            << ", which does not fit";
  call.attributes[side.str()] = {layout.getDim(), layout.getUnits(), layout.getInner()};
  if (layout.getUnitsOf() != UnitsOf::Number)
    call.attributes[(side + "_units").str()] = toJson(unitsOf(layout));
  if (!outer->isOne())
    call.attributes[(side + "_outer").str()] = toJson(*outer);
  return success();
}

} // namespace

LogicalResult CallBuilder::emitReshard(ReshardOp op) {
  const Move move = moveOf(op.getFrom(), op.getTo());
  Place source = placeOf(op.getInput());
  if (move == Move::None) {
    set(op.getResult(), source);
    return success();
  }
  if (!isDense(source))
    source = materialize(source, op);
  Place result = fresh(op.getResult());
  set(op.getResult(), result);
  std::vector<std::pair<std::string, Place>> operands = {{"src", source}, {"dst", result}};
  if (move == Move::ReduceScatter)
    operands.emplace_back("workspace", fresh(elementType(op.getResult()), shapeOf(op.getResult())));
  Call &emitted = call(op, kernelOf(move), std::move(operands));
  const bool splitsSource =
      move == Move::AllGather || move == Move::AllToAll || move == Move::Place;
  const bool splitsResult =
      move == Move::ReduceScatter || move == Move::AllToAll || move == Move::Take;
  if ((splitsSource && failed(setSplit(op, op.getFrom(), "from", emitted))) ||
      (splitsResult && failed(setSplit(op, op.getTo(), "to", emitted))))
    return failure();
  return success();
}

} // namespace omnibal::lower
