//===- RaiseActivations.cpp - omnibal-raise-activations ----------------------------------===//
#include "passes/raise/Passes.h"
#include "passes/raise/match/Match.h"
#include <cmath>

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_RAISEACTIVATIONSPASS
#include "passes/raise/Passes.h.inc"

namespace raise {
namespace {

/// Constants of exported graphs are rounded to float32 or typed with few digits.
constexpr double relative = 1e-4;

bool near(double value, double expected) {
  return std::abs(value - expected) <= relative * std::abs(expected);
}

/// True if the value is constant * x.
bool isScaled(Value value, Value x, double constant) {
  if (value == x)
    return near(1, constant);
  Product product = productOf(value);
  return product.factors.size() == 1 && product.factors[0] == x && near(product.constant, constant);
}

/// x^3 * constant in any grouping.
bool isScaledCube(Value value, Value x, double constant) {
  Product product = productOf(value);
  if (!near(product.constant, constant))
    return false;
  int degree = 0;
  for (Value factor : product.factors) {
    auto power = factor.getDefiningOp<PowOp>();
    auto exponent = power ? splatConstant(power.getRhs()) : std::nullopt;
    if (factor == x)
      degree += 1;
    else if (power && power.getLhs() == x && exponent)
      degree += static_cast<int>(*exponent);
    else if (matchSquare(factor) == x)
      degree += 2;
    else
      return false;
  }
  return degree == 3;
}

/// sqrt(2 / pi) * (x + 0.044715 x^3).
bool isTanhGeluArgument(Value value, Value x) {
  Product product = productOf(value);
  double factor = std::sqrt(2 / M_PI);
  if (product.factors.size() == 1 && near(product.constant, factor))
    if (auto sum = product.factors[0].getDefiningOp<AddOp>())
      return (sum.getLhs() == x && isScaledCube(sum.getRhs(), x, 0.044715)) ||
             (sum.getRhs() == x && isScaledCube(sum.getLhs(), x, 0.044715));
  // x * (1 + 0.044715 x^2) * sqrt(2 / pi)
  if (product.factors.size() == 2 && near(product.constant, factor))
    for (int i : {0, 1})
      if (product.factors[i] == x)
        if (auto sum = matchWithConstant<AddOp>(product.factors[1 - i]);
            sum && near(sum->second, 1)) {
          Product square = productOf(sum->first);
          return near(square.constant, 0.044715) &&
                 ((square.factors.size() == 1 && matchSquare(square.factors[0]) == x) ||
                  (square.factors.size() == 2 && square.factors[0] == x && square.factors[1] == x));
        }
  return false;
}

/// The op that the product x * other * constant is, if it is an activation.
Value raiseProduct(OpBuilder &builder, Location loc, Value x, Value other, double constant) {
  if (auto sigmoid = other.getDefiningOp<SigmoidOp>(); sigmoid && near(constant, 1)) {
    if (sigmoid.getOperand() == x)
      return SiluOp::create(builder, loc, x.getType(), x);
    if (isScaled(sigmoid.getOperand(), x, 1.702))
      return QuickGeluOp::create(builder, loc, x.getType(), x);
    return {};
  }
  auto onePlus = matchWithConstant<AddOp>(other);
  if (!onePlus || !near(onePlus->second, 1) || !near(constant, 0.5))
    return {};
  if (auto erf = onePlus->first.getDefiningOp<ErfOp>();
      erf && isScaled(erf.getOperand(), x, M_SQRT1_2))
    return GeluOp::create(builder, loc, x.getType(), x, false);
  if (auto tanh = onePlus->first.getDefiningOp<TanhOp>();
      tanh && isTanhGeluArgument(tanh.getOperand(), x))
    return GeluOp::create(builder, loc, x.getType(), x, true);
  return {};
}
} // namespace
} // namespace raise

namespace {
struct RaiseActivationsPass : impl::RaiseActivationsPassBase<RaiseActivationsPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      OpBuilder builder(function);
      raise::forEachOp(function, [&](Operation *op) {
        if (!isa<MulOp, DivOp>(op) || op->use_empty())
          return;
        raise::Product product = raise::productOf(op->getResult(0));
        if (product.factors.size() != 2)
          return;
        builder.setInsertionPoint(op);
        for (int i : {0, 1}) {
          Value x = product.factors[i];
          if (x.getType() != op->getResult(0).getType())
            continue;
          Value raised = raise::raiseProduct(builder, op->getLoc(), x, product.factors[1 - i],
                                             product.constant);
          if (raised) {
            op->getResult(0).replaceAllUsesWith(raised);
            return;
          }
        }
      });
    }
  }
};
} // namespace
} // namespace omnibal
