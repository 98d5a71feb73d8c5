#include "passes/lower/transforms/GemmGradients.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/lower/TensorBuilder.h"
#include "passes/lower/transforms/IterationSpace.h"

using namespace mlir;

namespace omnibal::lower {
namespace {

bool isPlain(GemmOp gemm) {
  return gemm.getActivation() == Activation::None && !gemm.getResidual() && !gemm.getPre();
}

/// Ops that read a value, as it is or in another shape.
void collectReaders(Value value, SmallVector<Operation *> &readers) {
  for (Operation *user : value.getUsers())
    if (isa<ReshapeOp>(user))
      collectReaders(user->getResult(0), readers);
    else
      readers.push_back(user);
}

/// A sum over all dimensions but the last.
bool isColumnSum(Operation *op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  if (!reduce || reduce.getKind() != ReduceKind::Sum)
    return false;
  if (!reduce.getAxes())
    return false;
  ArrayRef<int64_t> axes = *reduce.getAxes();
  int64_t rank = typeOf(reduce.getInput()).getRank();
  if (rank < 2 || static_cast<int64_t>(axes.size()) != rank - 1)
    return false;
  for (int64_t axis = 0; axis < rank - 1; ++axis)
    if (!llvm::is_contained(axes, axis))
      return false;
  return true;
}

/// Whether no fused group would read `value`, except for sums over its rows.
bool isReadByKernels(Value value) {
  SmallVector<Operation *> readers;
  collectReaders(value, readers);
  return llvm::all_of(readers, [](Operation *op) { return !isFusible(op) || isColumnSum(op); });
}

/// The value before all reshapes.
Value sourceOf(Value value) {
  while (auto view = value.getDefiningOp<ReshapeOp>())
    value = view.getInput();
  return value;
}

GemmOp makeLike(GemmOp gemm, OpBuilder &builder, Location loc, Type pre, Type sums, Value bias,
                Value at, Activation activation, bool sumRhs) {
  return GemmOp::create(builder, builder.getFusedLoc({gemm.getLoc(), loc}),
                        gemm.getResult().getType(), pre, sums, gemm.getLhs(), gemm.getRhs(), bias,
                        gemm.getResidual(), at, gemm.getTransposeLhs(), gemm.getTransposeRhs(),
                        gemm.getAlpha(), activation, sumRhs);
}

/// The product over the rows of `dy` of which dy^T (then lhs) or dy (then rhs) is a factor.
GemmOp findWeightGrad(Value dy, SymbolicDim columns, bool &isRhs) {
  SmallVector<Operation *> readers;
  collectReaders(dy, readers);
  for (Operation *reader : readers) {
    auto gemm = dyn_cast<GemmOp>(reader);
    if (!gemm || !isPlain(gemm) || gemm.getBias() || gemm.getSums() ||
        typeOf(gemm.getResult()).getRank() != 2 || gemm.getAlpha().convertToDouble() != 1.0)
      continue;
    for (bool rhs : {false, true}) {
      Value factor = rhs ? gemm.getRhs() : gemm.getLhs();
      SymbolicShape shape = *getSymbolicShape(typeOf(factor));
      if (sourceOf(factor) == dy && shape.size() == 2 && shape.back() == columns &&
          (rhs ? !gemm.getTransposeRhs() : gemm.getTransposeLhs())) {
        isRhs = rhs;
        return gemm;
      }
    }
  }
  return {};
}

} // namespace

void keepArgument(GeluOp op) {
  auto gemm = op.getOperand().getDefiningOp<GemmOp>();
  if (!gemm || gemm.getResult().hasOneUse() || !isPlain(gemm) || gemm.getSums() ||
      op->getBlock() != gemm->getBlock() || !isReadByKernels(op))
    return;
  OpBuilder builder(gemm);
  Type type = gemm.getResult().getType();
  GemmOp both = makeLike(gemm, builder, op.getLoc(), type, Type(), gemm.getBias(), Value(),
                         Activation::GeluTanh, false);
  op.getResult().replaceAllUsesWith(both.getResult());
  op.erase();
  gemm.getResult().replaceAllUsesWith(both.getPre());
  gemm.erase();
}

void absorbGeluGrad(GeluGradOp op) {
  auto gemm = op.getGrad().getDefiningOp<GemmOp>();
  if (!gemm || !gemm.getResult().hasOneUse() || !isPlain(gemm) || gemm.getBias() ||
      gemm.getSums() || op->getBlock() != gemm->getBlock() ||
      op.getOperand().getType() != gemm.getResult().getType() ||
      op.getType() != gemm.getResult().getType() || !isReadByKernels(op))
    return;
  OpBuilder builder(op);
  GemmOp fused = makeLike(gemm, builder, op.getLoc(), Type(), Type(), Value(), op.getOperand(),
                          Activation::GeluTanh, false);
  op.getResult().replaceAllUsesWith(fused.getResult());
  op.erase();
  gemm.erase();
}

void absorbColumnSum(ReduceOp op) {
  if (!isColumnSum(op) || !op.getResult().hasOneUse() ||
      !isa<func::ReturnOp>(*op.getResult().user_begin()))
    return;
  Value dy = sourceOf(op.getInput());
  if (Operation *producer = dy.getDefiningOp(); producer && isFusible(producer))
    return;
  SmallVector<Operation *> readers;
  collectReaders(dy, readers);
  if (llvm::any_of(readers, [&](Operation *reader) { return reader != op && isFusible(reader); }))
    return;
  SymbolicDim columns = getSymbolicShape(typeOf(op.getInput()))->back();
  bool isRhs = false;
  GemmOp gemm = findWeightGrad(dy, columns, isRhs);
  if (!gemm || gemm->getBlock() != op->getBlock())
    return;
  OpBuilder builder(gemm);
  auto type = makeTensorType(op.getContext(), {columns}, typeOf(op.getInput()).getElementType());
  GemmOp both =
      makeLike(gemm, builder, op.getLoc(), Type(), type, Value(), Value(), Activation::None, isRhs);
  TensorBuilder t(builder, op.getLoc());
  op.getResult().replaceAllUsesWith(
      t.reshape(both.getSums(), *getSymbolicShape(typeOf(op.getResult()))));
  op.erase();
  gemm.getResult().replaceAllUsesWith(both.getResult());
  gemm.erase();
}

} // namespace omnibal::lower
