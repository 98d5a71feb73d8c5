//===- FormGemms.cpp - Matrix products with their epilogues ------------------------------===//
#include "dialects/omnibal/ir/QuantizedTensor.h"
#include "passes/lower/Passes.h"
#include "passes/lower/TensorBuilder.h"
#include "passes/lower/transforms/GemmGradients.h"

namespace omnibal::lower {
#define GEN_PASS_DEF_FORMGEMMS
#include "passes/lower/Passes.h.inc"

using namespace mlir;

namespace {

GemmOp makeGemm(OpBuilder &builder, Location loc, Type type, Value lhs, Value rhs, Value bias,
                bool transposeLhs, bool transposeRhs) {
  return GemmOp::create(builder, loc, type, Type(), Type(), lhs, rhs, bias, Value(), Value(),
                        transposeLhs, transposeRhs, APFloat(1.0), Activation::None, false);
}

/// [.., C] as [product of .., C]; null if the product is not affine.
Value flatten(TensorBuilder &t, Value value) {
  SymbolicShape shape = *getSymbolicShape(typeOf(value));
  auto rows = product(ArrayRef(shape).drop_back());
  return rows ? t.reshape(value, {*rows, shape.back()}) : Value();
}

LogicalResult formLinear(LinearOp op) {
  OpBuilder builder(op);
  TensorBuilder t(builder, op.getLoc());
  Value input = op.getInput();
  Type type = op.getType();
  SymbolicShape result = *getSymbolicShape(typeOf(op));
  if (typeOf(input).getRank() < 2) {
    input = t.reshape(input, {1, getSymbolicShape(typeOf(input))->front()});
    type = makeTensorType(op.getContext(), {1, result.back()}, typeOf(op).getElementType());
  }
  Value gemm = makeGemm(builder, op.getLoc(), type, input, op.getWeight(), op.getBias(), false,
                        !op.getInOut())
                   .getResult();
  op.getResult().replaceAllUsesWith(t.reshape(gemm, result));
  op.erase();
  return success();
}

LogicalResult formWeightGrad(LinearWeightGradOp op) {
  OpBuilder builder(op);
  TensorBuilder t(builder, op.getLoc());
  Value input = flatten(t, op.getInput()), grad = flatten(t, op.getGrad());
  if (!input || !grad)
    return op.emitOpError("the leading dimensions are not one number of rows, affine in V and N");
  Value lhs = op.getInOut() ? input : grad, rhs = op.getInOut() ? grad : input;
  Value gemm =
      makeGemm(builder, op.getLoc(), op.getType(), lhs, rhs, Value(), true, false).getResult();
  op.getResult().replaceAllUsesWith(gemm);
  op.erase();
  return success();
}

LogicalResult formMatMul(MatMulOp op) {
  OpBuilder builder(op);
  TensorBuilder t(builder, op.getLoc());
  Value lhs = op.getLhs(), rhs = op.getRhs();
  SymbolicShape left = *getSymbolicShape(typeOf(lhs)), right = *getSymbolicShape(typeOf(rhs));
  SymbolicShape result = *getSymbolicShape(typeOf(op)), full = result;
  if (left.empty() || right.empty())
    return op.emitOpError("operands of matmul need at least one dimension");
  if (right.size() == 1) {
    rhs = t.reshape(rhs, {right[0], 1});
    full.push_back(1);
  }
  if (left.size() == 1) {
    lhs = t.reshape(lhs, {1, left[0]});
    full.insert(full.end() - 1, 1);
  }
  Type type = makeTensorType(op.getContext(), full, typeOf(op).getElementType());
  Value gemm =
      makeGemm(builder, op.getLoc(), type, lhs, rhs, Value(),
               left.size() > 1 && op.getTransposeLhs(), right.size() > 1 && op.getTransposeRhs())
          .getResult();
  op.getResult().replaceAllUsesWith(t.reshape(gemm, result));
  op.erase();
  return success();
}

/// For a target without a kernel for them: a product that adds to the weight, of which rows are
/// squared and added up.
void formRowSquares(RowSquaresOp op) {
  OpBuilder builder(op);
  TensorBuilder t(builder, op.getLoc());
  const bool turned = op.getInOut(); // the sum lies as the weight
  Value lhs = turned ? op.getA() : op.getB(), rhs = turned ? op.getB() : op.getA();
  Value sum = GemmOp::create(builder, op.getLoc(), op.getWeight().getType(), Type(), Type(), lhs,
                             rhs, Value(), op.getWeight(), Value(), turned, turned, op.getScale(),
                             Activation::None, false)
                  .getResult();
  const int64_t axis = turned ? 0 : 1;
  Value squares = ReduceOp::create(builder, op.getLoc(), op.getType(), t.like<MulOp>(sum, sum, sum),
                                   Value(), ReduceKind::Sum, builder.getDenseI64ArrayAttr(axis),
                                   /*keepdims=*/false, /*noop_with_empty_axes=*/false);
  op.getResult().replaceAllUsesWith(squares);
  op.erase();
}

std::optional<Activation> activationOf(Operation *op) {
  if (auto gelu = dyn_cast<GeluOp>(op))
    return gelu.getTanh() ? Activation::GeluTanh : Activation::Gelu;
  if (isa<SiluOp>(op))
    return Activation::Silu;
  if (isa<QuickGeluOp>(op))
    return Activation::QuickGelu;
  if (isa<ReluOp>(op))
    return Activation::Relu;
  return std::nullopt;
}

bool isPlain(GemmOp gemm) {
  return gemm.getActivation() == Activation::None && !gemm.getResidual() && !gemm.getPre();
}

/// Replaces `op` and the gemm that it absorbs by `gemm` at the place of `op`.
GemmOp rebuild(Operation *op, GemmOp gemm, Value bias, Value residual, Activation activation) {
  OpBuilder builder(op);
  auto fused = GemmOp::create(builder, builder.getFusedLoc({gemm.getLoc(), op->getLoc()}),
                              gemm.getResult().getType(), Type(), Type(), gemm.getLhs(),
                              gemm.getRhs(), bias, residual, Value(), gemm.getTransposeLhs(),
                              gemm.getTransposeRhs(), gemm.getAlpha(), activation, false);
  op->getResult(0).replaceAllUsesWith(fused.getResult());
  op->erase();
  gemm.erase();
  return fused;
}

void absorbActivation(Operation *op) {
  auto activation = activationOf(op);
  if (!activation)
    return;
  auto gemm = op->getOperand(0).getDefiningOp<GemmOp>();
  if (gemm && gemm.getResult().hasOneUse() && isPlain(gemm) && op->getBlock() == gemm->getBlock())
    rebuild(op, gemm, gemm.getBias(), Value(), *activation);
}

/// add(gemm, [N]) is a bias; add(gemm, same shape) a residual.
void absorbAddition(AddOp add) {
  auto candidate = [&](Value value) -> GemmOp {
    auto gemm = value.getDefiningOp<GemmOp>();
    bool fits = gemm && gemm.getResult().hasOneUse() && !gemm.getResidual() && !gemm.getPre() &&
                value.getType() == add.getType() && gemm->getBlock() == add->getBlock();
    return fits ? gemm : GemmOp();
  };
  GemmOp left = candidate(add.getLhs()), right = candidate(add.getRhs());
  if (add.getLhs() == add.getRhs() || (!left && !right))
    return;
  // The product that is computed last adds to what exists by then.
  GemmOp gemm = left && right ? (left->isBeforeInBlock(right) ? right : left) : left ? left : right;
  Value other = gemm == left ? add.getRhs() : add.getLhs();
  if (other.getType() == add.getType()) {
    rebuild(add, gemm, gemm.getBias(), other, gemm.getActivation());
    return;
  }
  SymbolicShape shape = *getSymbolicShape(typeOf(other));
  SymbolicDim columns = getSymbolicShape(typeOf(add))->back();
  if (shape.empty() || shape.back() != columns || product(shape) != columns || !isPlain(gemm) ||
      gemm.getBias())
    return;
  OpBuilder builder(add);
  Value bias = TensorBuilder(builder, add.getLoc()).reshape(other, {columns});
  rebuild(add, gemm, bias, Value(), Activation::None);
}

/// True if the library of target cuda has this epilogue. For other targets it would take a kernel
/// behind the product, as a fused group does, which may hold more.
bool hasEpilogue(Operation *op) {
  auto gelu = dyn_cast<GeluOp>(op);
  return (gelu && gelu.getTanh()) || isa<ReluOp>(op);
}

/// Gives an op that reads quantized weights their numbers. Each reader has its own, which need not
/// be in memory from one to the next.
void expandWeights(Operation *op) {
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.get().getType());
    if (!type || !isQuantized(type))
      continue;
    OpBuilder builder(op);
    operand.set(DequantizeOp::create(builder, op->getLoc(), type.dropEncoding(), operand.get()));
  }
}

struct FormGemmsPass : impl::FormGemmsBase<FormGemmsPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) { ops.push_back(op); });
    for (Operation *op : ops) {
      if (!isa<LinearOp, MatMulOp, LinearWeightGradOp>(op) &&
          !(isa<RowSquaresOp>(op) && target == "cuda"))
        continue;
      for (Value value : op->getOperands())
        if (!getSymbolicShape(typeOf(value))) {
          op->emitOpError("needs shapes that are affine in V and N (run omnibal-specialize first)");
          return signalPassFailure();
        }
      if (target == "cuda")
        expandWeights(op);
      LogicalResult formed = success();
      if (auto linear = dyn_cast<LinearOp>(op))
        formed = formLinear(linear);
      else if (auto matmul = dyn_cast<MatMulOp>(op))
        formed = formMatMul(matmul);
      else if (auto squares = dyn_cast<RowSquaresOp>(op))
        formRowSquares(squares);
      else
        formed = formWeightGrad(cast<LinearWeightGradOp>(op));
      if (failed(formed))
        return signalPassFailure();
    }
    // In program order, so that a gemm has its bias and activation before its residual.
    ops.clear();
    getOperation().walk([&](Operation *op) {
      if (isa<AddOp>(op) || (activationOf(op) && (target != "cuda" || hasEpilogue(op))))
        ops.push_back(op);
    });
    for (Operation *op : ops) {
      if (auto add = dyn_cast<AddOp>(op))
        absorbAddition(add);
      else
        absorbActivation(op);
    }
    if (target == "cuda")
      formGradients();
  }

  void formGradients() {
    SmallVector<GeluOp> gelus;
    SmallVector<GeluGradOp> derivatives;
    SmallVector<ReduceOp> sums;
    getOperation().walk([&](Operation *op) {
      if (auto gelu = dyn_cast<GeluOp>(op); gelu && gelu.getTanh())
        gelus.push_back(gelu);
      else if (auto derivative = dyn_cast<GeluGradOp>(op); derivative && derivative.getTanh())
        derivatives.push_back(derivative);
      else if (auto reduce = dyn_cast<ReduceOp>(op))
        sums.push_back(reduce);
    });
    for (GeluOp op : gelus)
      keepArgument(op);
    for (GeluGradOp op : derivatives)
      absorbGeluGrad(op);
    for (ReduceOp op : sums) // when what they read is known to be a product's
      absorbColumnSum(op);
  }
};

} // namespace
} // namespace omnibal::lower
