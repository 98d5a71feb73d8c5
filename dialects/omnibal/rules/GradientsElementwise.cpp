//===- GradientsElementwise.cpp - Gradients of elementwise ops ---------------------------===//
#include "dialects/omnibal/ir/GradientBuilder.h"
#include "mlir/IR/Matchers.h"
#include <cmath>
#include <numbers>

using namespace mlir;
using namespace omnibal;

// x: operand, y: result, dy: its gradient.
#define UNARY_GRADIENT(OP, EXPRESSION)                                                             \
  OMNIBAL_GRADIENT_RULE(OP) {                                                                      \
    [[maybe_unused]] Value x = op.getOperand(), y = op.getResult(), dy = g[0];                     \
    if (needs(0))                                                                                  \
      gradients[0] = EXPRESSION;                                                                   \
    return success();                                                                              \
  }

UNARY_GRADIENT(NegOp, b.neg(dy))
UNARY_GRADIENT(ExpOp, b.mul(dy, y))
UNARY_GRADIENT(LogOp, b.div(dy, x))
UNARY_GRADIENT(SqrtOp, b.div(b.mul(dy, 0.5), y))
UNARY_GRADIENT(RsqrtOp, b.mul(b.mul(dy, -0.5), b.mul(y, b.mul(y, y))))
UNARY_GRADIENT(ReciprocalOp, b.neg(b.mul(dy, b.mul(y, y))))
UNARY_GRADIENT(ErfOp, b.mul(b.mul(dy, 2 / std::sqrt(std::numbers::pi)),
                            b.create<ExpOp>(b.neg(b.mul(x, x)))))
UNARY_GRADIENT(TanhOp, b.mul(dy, b.sub(b.scalar(y, 1), b.mul(y, y))))
UNARY_GRADIENT(SigmoidOp, b.mul(dy, b.mul(y, b.sub(b.scalar(y, 1), y))))
UNARY_GRADIENT(CosOp, b.neg(b.mul(dy, b.create<SinOp>(x))))
UNARY_GRADIENT(SinOp, b.mul(dy, b.create<CosOp>(x)))
UNARY_GRADIENT(AbsOp, b.mul(dy, b.create<SignOp>(x)))
UNARY_GRADIENT(ReluOp,
               b.select(b.compare(ComparePredicate::GT, x, b.scalar(x, 0)), dy, b.scalar(dy, 0)))
UNARY_GRADIENT(SiluOp, b.create<SiluGradOp>(x, dy))
UNARY_GRADIENT(QuickGeluOp, b.create<QuickGeluGradOp>(x, dy))
UNARY_GRADIENT(GeluOp, b.create<GeluGradOp>(x, dy, op.getTanh()))
#undef UNARY_GRADIENT

OMNIBAL_GRADIENT_RULE(CastOp) {
  // Through an integer or boolean nothing flows.
  if (needs(0) && isFloatTensor(op.getResult()))
    gradients[0] = tensorType(g[0]) == tensorType(op.getOperand())
                       ? Value(g[0])
                       : CastOp::create(b.builder, b.loc, op.getOperand().getType(), g[0]);
  return success();
}

OMNIBAL_GRADIENT_RULE(AddOp) {
  for (unsigned i : {0u, 1u})
    if (needs(i))
      gradients[i] = b.reduceTo(g[0], op->getOperand(i));
  return success();
}

OMNIBAL_GRADIENT_RULE(SubOp) {
  if (needs(0))
    gradients[0] = b.reduceTo(g[0], op.getLhs());
  if (needs(1))
    gradients[1] = b.neg(b.reduceTo(g[0], op.getRhs()));
  return success();
}

OMNIBAL_GRADIENT_RULE(MulOp) {
  if (needs(0))
    gradients[0] = b.reduceTo(b.mul(g[0], op.getRhs()), op.getLhs());
  if (needs(1))
    gradients[1] = b.reduceTo(b.mul(g[0], op.getLhs()), op.getRhs());
  return success();
}

OMNIBAL_GRADIENT_RULE(DivOp) {
  Value quotient = b.div(g[0], op.getRhs());
  if (needs(0))
    gradients[0] = b.reduceTo(quotient, op.getLhs());
  if (needs(1)) // -dy * (x / y) / y
    gradients[1] = b.reduceTo(b.neg(b.mul(quotient, op.getResult())), op.getRhs());
  return success();
}

OMNIBAL_GRADIENT_RULE(PowOp) {
  Value base = op.getLhs(), exponent = op.getRhs();
  if (needs(0)) {
    Value slope;
    if (isFilledWith(exponent, 2)) { // the common case, without a power
      slope = b.mul(base, 2);
    } else {
      Value e = exponent;
      if (!isFloatTensor(e)) {
        SymbolicShape shape = shapeOf(e);
        e = CastOp::create(
            b.builder, b.loc,
            makeTensorType(op.getContext(), shape, tensorType(base).getElementType()), e);
      }
      slope = b.mul(e, b.create<PowOp>(base, b.sub(e, b.scalar(e, 1))));
    }
    gradients[0] = b.reduceTo(b.mul(g[0], slope), base);
  }
  if (needs(1)) { // d x^e / de = x^e log x; nothing where x <= 0
    Value positive = b.compare(ComparePredicate::GT, base, b.scalar(base, 0));
    Value safe = b.select(positive, base, b.scalar(base, 1));
    Value slope = b.mul(op.getResult(), b.create<LogOp>(safe));
    gradients[1] = b.reduceTo(b.mul(g[0], slope), exponent);
  }
  return success();
}

namespace {
/// At a tie the first operand gets the gradient: clip(x, low, high) then behaves as in PyTorch.
template <typename OpT>
void chooseGradients(OpT op, GradientBuilder &b, Value dy, ComparePredicate firstWins,
                     llvm::function_ref<bool(unsigned)> needs, MutableArrayRef<Value> gradients) {
  Value first = b.compare(firstWins, op.getLhs(), op.getRhs()), zero = b.scalar(dy, 0);
  if (needs(0))
    gradients[0] = b.reduceTo(b.select(first, dy, zero), op.getLhs());
  if (needs(1))
    gradients[1] = b.reduceTo(b.select(first, zero, dy), op.getRhs());
}
} // namespace

OMNIBAL_GRADIENT_RULE(MaxOp) {
  chooseGradients(op, b, g[0], ComparePredicate::GE, needs, gradients);
  return success();
}

OMNIBAL_GRADIENT_RULE(MinOp) {
  chooseGradients(op, b, g[0], ComparePredicate::LE, needs, gradients);
  return success();
}

OMNIBAL_GRADIENT_RULE(SelectOp) {
  Value zero = b.scalar(g[0], 0);
  if (needs(1))
    gradients[1] = b.reduceTo(b.select(op.getCondition(), g[0], zero), op.getOnTrue());
  if (needs(2))
    gradients[2] = b.reduceTo(b.select(op.getCondition(), zero, g[0]), op.getOnFalse());
  return success();
}
