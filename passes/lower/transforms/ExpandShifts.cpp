//===- ExpandShifts.cpp - Rows from before in their sample, as copies -----------------------===//
#include "mlir/IR/PatternMatch.h"
#include "passes/lower/Passes.h"
#include "passes/lower/TensorBuilder.h"

namespace omnibal::lower {
#define GEN_PASS_DEF_EXPANDSHIFTS
#include "passes/lower/Passes.h.inc"

using namespace mlir;

namespace {

class Expansion {
public:
  explicit Expansion(ShiftTokensOp op)
      : op(op), builder(op), t(builder, op.getLoc()), type(typeOf(op.getInput())),
        shape(*getSymbolicShape(type)), distance(op.getDistance()) {}

  void run() {
    Value x = op.getInput();
    Value result = op.getInverse() ? moved(ofLaterRows(x), 0, distance) : moved(x, distance, 0);
    op.getResult().replaceAllUsesWith(op.getInverse() ? result : ofLaterRows(result));
    op.erase();
  }

private:
  /// Rows that have a row `distance` before them in their sample; zeros for the others.
  Value ofLaterRows(Value rows) {
    MLIRContext *context = builder.getContext();
    Location loc = op.getLoc();
    Value positions = t.reshape(op.getPositions(), {1, shape[1], 1});
    Type integer = typeOf(positions).getElementType();
    auto scalar = RankedTensorType::get({}, integer);
    Value least = ConstantOp::create(
        builder, loc, scalar,
        DenseElementsAttr::get(scalar, Attribute(builder.getIntegerAttr(integer, distance))));
    auto flags = makeTensorType(context, {1, shape[1], 1}, builder.getI1Type());
    Value later = CompareOp::create(builder, loc, flags, positions, least, ComparePredicate::GE);
    return SelectOp::create(builder, loc, type, later, rows, t.scalar(0, type.getElementType()));
  }
  /// Row n is row n - low + begin, zeros where there is none.
  Value moved(Value rows, int64_t low, int64_t begin) {
    SymbolicShape longer = shape;
    longer[1] = longer[1] + SymbolicDim(distance);
    auto paddedType = makeTensorType(builder.getContext(), longer, type.getElementType());
    Value padded = PadOp::create(builder, op.getLoc(), paddedType, rows,
                                 builder.getDenseI64ArrayAttr({0, low, 0}), DenseI64ArrayAttr());
    return SliceOp::create(builder, op.getLoc(), type, padded, Value(), Value(), Value(), Value(),
                           builder.getDenseI64ArrayAttr({0, begin, 0}), DenseI64ArrayAttr());
  }

  ShiftTokensOp op;
  OpBuilder builder;
  TensorBuilder t;
  RankedTensorType type;
  SymbolicShape shape;
  int64_t distance;
};

struct ExpandShiftsPass : impl::ExpandShiftsBase<ExpandShiftsPass> {
  void runOnOperation() override {
    getOperation().walk([](ShiftTokensOp op) { Expansion(op).run(); });
  }
};

} // namespace
} // namespace omnibal::lower
