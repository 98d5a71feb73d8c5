//===- ElementwiseEmit.cpp - Elementwise ops as arith and math ops -----------------------===//
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/omnibal/ir/ScalarFunctions.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "runtime/support/RandomBits.h"
#include <cmath>
#include <numbers>

using namespace mlir;
using namespace omnibal;
using namespace omnibal::scalar;

namespace {
/// Short names for arith and math ops at one location, on scalars or vectors alike.
class Scalars {
public:
  Scalars(OpBuilder &builder, Location loc) : b(builder), loc(loc) {}

  template <typename OpT, typename... Args> Value op(Args... args) {
    return OpT::create(b, loc, args...).getResult();
  }
  /// `value` in the type of `like`.
  Value constant(Value like, double value) { return constant(like.getType(), value); }
  Value constant(Type type, double value) {
    Type element = getElementTypeOrSelf(type);
    TypedAttr attr;
    if (isa<FloatType>(element))
      attr = b.getFloatAttr(element, value);
    else
      attr = b.getIntegerAttr(element, static_cast<int64_t>(value));
    if (auto vector = dyn_cast<VectorType>(type))
      attr = DenseElementsAttr::get(vector, Attribute(attr));
    return arith::ConstantOp::create(b, loc, attr);
  }
  Value add(Value x, Value y) { return op<arith::AddFOp>(x, y); }
  Value sub(Value x, Value y) { return op<arith::SubFOp>(x, y); }
  Value mul(Value x, Value y) { return op<arith::MulFOp>(x, y); }
  Value mul(Value x, double y) { return mul(x, constant(x, y)); }
  Value div(Value x, Value y) { return op<arith::DivFOp>(x, y); }
  Value plusOne(Value x) { return add(x, constant(x, 1)); }
  /// 1 / (1 + exp(-x))
  Value sigmoid(Value x) {
    return div(constant(x, 1), plusOne(op<math::ExpOp>(op<arith::NegFOp>(x))));
  }
  Value select(Value c, Value x, Value y) { return op<arith::SelectOp>(c, x, y); }
  Value less(Value x, Value y) {
    if (isFloat(x))
      return op<arith::CmpFOp>(arith::CmpFPredicate::OLT, x, y);
    return op<arith::CmpIOp>(arith::CmpIPredicate::slt, x, y);
  }
  static bool isFloat(Value x) { return isa<FloatType>(getElementTypeOrSelf(x)); }
  static bool isBool(Value x) { return getElementTypeOrSelf(x).isInteger(1); }

  OpBuilder &b;
  Location loc;
};

/// RandomBits::mix.
Value mixBits(Scalars &s, Value x) {
  auto fold = [&](Value word, unsigned shift) {
    return s.op<arith::XOrIOp>(word, s.op<arith::ShRUIOp>(word, s.constant(word, shift)));
  };
  auto times = [&](Value word, uint32_t factor) {
    return s.op<arith::MulIOp>(word, s.constant(word, static_cast<int32_t>(factor)));
  };
  x = times(fold(x, rt::RandomBits::shifts[0]), rt::RandomBits::factors[0]);
  x = times(fold(x, rt::RandomBits::shifts[1]), rt::RandomBits::factors[1]);
  return fold(x, rt::RandomBits::shifts[2]);
}
/// tanh(sqrt(2/pi) * (x + 0.044715 x^3))
Value innerTanh(Scalars &s, Value x) {
  Value cubic = s.plusOne(s.mul(s.mul(x, x), tanhGeluCubic));
  return s.op<math::TanhOp>(s.mul(s.mul(x, cubic), tanhGeluScale));
}
Value normalDistribution(Scalars &s, Value x) {
  return s.mul(s.plusOne(s.op<math::ErfOp>(s.mul(x, 1 / std::numbers::sqrt2))), 0.5);
}
/// dy * (s + x s (1 - s) factor), s = sigmoid(factor x)
Value sigmoidGradient(Scalars &s, Value x, Value dy, double factor) {
  Value sig = s.sigmoid(factor == 1 ? x : s.mul(x, factor));
  Value slope = s.mul(x, s.sub(s.constant(x, 1), sig));
  if (factor != 1)
    slope = s.mul(slope, factor);
  return s.mul(dy, s.mul(sig, s.plusOne(slope)));
}
/// The constant that fills a tensor, if it is one.
std::optional<double> splatValue(Value value) {
  DenseElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)) || !elements.isSplat())
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType()))
    return elements.getSplatValue<APFloat>().convertToDouble();
  return static_cast<double>(elements.getSplatValue<APInt>().getSExtValue());
}
Value convert(Scalars &s, Value x, Type element) {
  Type type = element;
  if (auto vector = dyn_cast<VectorType>(x.getType()))
    type = vector.clone(element);
  if (type == x.getType())
    return x;
  bool fromFloat = s.isFloat(x), toFloat = isa<FloatType>(element);
  if (element.isInteger(1))
    return fromFloat ? s.op<arith::CmpFOp>(arith::CmpFPredicate::UNE, x, s.constant(x, 0))
                     : s.op<arith::CmpIOp>(arith::CmpIPredicate::ne, x, s.constant(x, 0));
  unsigned from = getElementTypeOrSelf(x).getIntOrFloatBitWidth();
  unsigned to = element.getIntOrFloatBitWidth();
  if (fromFloat && toFloat)
    return to > from ? arith::ExtFOp::create(s.b, s.loc, type, x).getResult()
                     : arith::TruncFOp::create(s.b, s.loc, type, x).getResult();
  if (fromFloat)
    return arith::FPToSIOp::create(s.b, s.loc, type, x);
  if (toFloat)
    return s.isBool(x) ? arith::UIToFPOp::create(s.b, s.loc, type, x).getResult()
                       : arith::SIToFPOp::create(s.b, s.loc, type, x).getResult();
  if (to < from)
    return arith::TruncIOp::create(s.b, s.loc, type, x);
  return s.isBool(x) ? arith::ExtUIOp::create(s.b, s.loc, type, x).getResult()
                     : arith::ExtSIOp::create(s.b, s.loc, type, x).getResult();
}
} // namespace

#define EMIT(OP)                                                                                   \
  static Value emit##OP(OP op, Scalars &s, ValueRange x);                                          \
  Value OP::emitScalar(OpBuilder &builder, Location loc, ValueRange operands) {                    \
    Scalars scalars(builder, loc);                                                                 \
    return emit##OP(*this, scalars, operands);                                                     \
  }                                                                                                \
  static Value emit##OP([[maybe_unused]] OP op, Scalars &s, ValueRange x)

EMIT(ExpOp) { return s.op<math::ExpOp>(x[0]); }
EMIT(LogOp) { return s.op<math::LogOp>(x[0]); }
EMIT(SqrtOp) { return s.op<math::SqrtOp>(x[0]); }
EMIT(RsqrtOp) { return s.op<math::RsqrtOp>(x[0]); }
EMIT(ReciprocalOp) { return s.div(s.constant(x[0], 1), x[0]); }
EMIT(ErfOp) { return s.op<math::ErfOp>(x[0]); }
EMIT(TanhOp) { return s.op<math::TanhOp>(x[0]); }
EMIT(SigmoidOp) { return s.sigmoid(x[0]); }
EMIT(CosOp) { return s.op<math::CosOp>(x[0]); }
EMIT(SinOp) { return s.op<math::SinOp>(x[0]); }
EMIT(FloorOp) { return s.op<math::FloorOp>(x[0]); }
EMIT(NegOp) {
  if (s.isFloat(x[0]))
    return s.op<arith::NegFOp>(x[0]);
  return s.op<arith::SubIOp>(s.constant(x[0], 0), x[0]);
}
EMIT(AbsOp) { return s.isFloat(x[0]) ? s.op<math::AbsFOp>(x[0]) : s.op<math::AbsIOp>(x[0]); }
EMIT(SignOp) {
  Value zero = s.constant(x[0], 0); // 0 and NaN pass through
  Value negative = s.select(s.less(x[0], zero), s.constant(x[0], -1), x[0]);
  return s.select(s.less(zero, x[0]), s.constant(x[0], 1), negative);
}
EMIT(NotOp) { return s.op<arith::XOrIOp>(x[0], s.constant(x[0], -1)); }
EMIT(IsNaNOp) { return s.op<arith::CmpFOp>(arith::CmpFPredicate::UNO, x[0], x[0]); }
EMIT(CastOp) { return convert(s, x[0], op.getResult().getType().getElementType()); }
EMIT(ReluOp) {
  Value zero = s.constant(x[0], 0);
  return s.isFloat(x[0]) ? s.op<arith::MaximumFOp>(x[0], zero) : s.op<arith::MaxSIOp>(x[0], zero);
}
EMIT(SiluOp) { return s.mul(x[0], s.sigmoid(x[0])); }
EMIT(QuickGeluOp) { return s.mul(x[0], s.sigmoid(s.mul(x[0], quickGeluFactor))); }
EMIT(GeluOp) {
  if (op.getTanh())
    return s.mul(s.mul(x[0], 0.5), s.plusOne(innerTanh(s, x[0])));
  return s.mul(x[0], normalDistribution(s, x[0]));
}
EMIT(SiluGradOp) { return sigmoidGradient(s, x[0], x[1], 1); }
EMIT(QuickGeluGradOp) { return sigmoidGradient(s, x[0], x[1], quickGeluFactor); }
EMIT(GeluGradOp) {
  Value v = x[0];
  if (op.getTanh()) {
    Value t = innerTanh(s, v), one = s.constant(v, 1);
    Value slope = s.mul(s.plusOne(s.mul(s.mul(v, v), 3 * tanhGeluCubic)), tanhGeluScale);
    Value tail = s.mul(s.mul(v, s.sub(one, s.mul(t, t))), slope);
    return s.mul(x[1], s.mul(s.add(s.add(one, t), tail), 0.5));
  }
  Value density =
      s.mul(s.op<math::ExpOp>(s.mul(s.mul(v, v), -0.5)), 1 / std::sqrt(2 * std::numbers::pi));
  return s.mul(x[1], s.add(normalDistribution(s, v), s.mul(v, density)));
}
EMIT(AddOp) { return s.isFloat(x[0]) ? s.add(x[0], x[1]) : s.op<arith::AddIOp>(x[0], x[1]); }
EMIT(SubOp) { return s.isFloat(x[0]) ? s.sub(x[0], x[1]) : s.op<arith::SubIOp>(x[0], x[1]); }
EMIT(MulOp) { return s.isFloat(x[0]) ? s.mul(x[0], x[1]) : s.op<arith::MulIOp>(x[0], x[1]); }
EMIT(DivOp) {
  if (s.isFloat(x[0]))
    return s.div(x[0], x[1]);
  // x / 0 is 0, as the interpreter has it: never a trap.
  Value zero = s.constant(x[1], 0);
  Value isZero = s.op<arith::CmpIOp>(arith::CmpIPredicate::eq, x[1], zero);
  Value quotient = s.op<arith::DivSIOp>(x[0], s.select(isZero, s.constant(x[1], 1), x[1]));
  return s.select(isZero, zero, quotient);
}
EMIT(PowOp) {
  if (!s.isFloat(x[0]))
    return s.op<math::IPowIOp>(x[0], convert(s, x[1], getElementTypeOrSelf(x[0])));
  std::optional<double> exponent = splatValue(op.getRhs());
  if (exponent == 2.0)
    return s.mul(x[0], x[0]);
  if (exponent == 3.0)
    return s.mul(s.mul(x[0], x[0]), x[0]);
  if (exponent == 0.5)
    return s.op<math::SqrtOp>(x[0]);
  return s.op<math::PowFOp>(x[0], convert(s, x[1], getElementTypeOrSelf(x[0])));
}
EMIT(ModOp) {
  bool isFloat = s.isFloat(x[0]);
  Value divisor = x[1], zero = s.constant(x[0], 0), isZero;
  if (!isFloat) { // x mod 0 is 0
    isZero = s.op<arith::CmpIOp>(arith::CmpIPredicate::eq, divisor, zero);
    divisor = s.select(isZero, s.constant(x[1], 1), divisor);
  }
  Value rest = isFloat ? s.op<arith::RemFOp>(x[0], divisor) : s.op<arith::RemSIOp>(x[0], divisor);
  if (!op.getFmod()) { // the divisor's sign
    Value signsDiffer = s.op<arith::XOrIOp>(s.less(rest, zero), s.less(divisor, zero));
    Value nonZero = isFloat ? s.op<arith::CmpFOp>(arith::CmpFPredicate::UNE, rest, zero)
                            : s.op<arith::CmpIOp>(arith::CmpIPredicate::ne, rest, zero);
    Value moved = isFloat ? s.add(rest, divisor) : s.op<arith::AddIOp>(rest, divisor);
    rest = s.select(s.op<arith::AndIOp>(signsDiffer, nonZero), moved, rest);
  }
  return isZero ? s.select(isZero, zero, rest) : rest;
}
EMIT(MaxOp) {
  if (s.isFloat(x[0]))
    return s.op<arith::MaximumFOp>(x[0], x[1]);
  return s.isBool(x[0]) ? s.op<arith::OrIOp>(x[0], x[1]) : s.op<arith::MaxSIOp>(x[0], x[1]);
}
EMIT(MinOp) {
  if (s.isFloat(x[0]))
    return s.op<arith::MinimumFOp>(x[0], x[1]);
  return s.isBool(x[0]) ? s.op<arith::AndIOp>(x[0], x[1]) : s.op<arith::MinSIOp>(x[0], x[1]);
}
EMIT(AndOp) { return s.op<arith::AndIOp>(x[0], x[1]); }
EMIT(OrOp) { return s.op<arith::OrIOp>(x[0], x[1]); }
EMIT(XorOp) { return s.op<arith::XOrIOp>(x[0], x[1]); }
EMIT(CompareOp) {
  using F = arith::CmpFPredicate;
  using I = arith::CmpIPredicate;
  static constexpr F floats[] = {F::OEQ, F::OLT, F::OLE, F::OGT, F::OGE};
  static constexpr I integers[] = {I::eq, I::slt, I::sle, I::sgt, I::sge};
  static constexpr I booleans[] = {I::eq, I::ult, I::ule, I::ugt, I::uge};
  auto i = static_cast<unsigned>(op.getPredicate());
  if (s.isFloat(x[0]))
    return s.op<arith::CmpFOp>(floats[i], x[0], x[1]);
  return s.op<arith::CmpIOp>(s.isBool(x[0]) ? booleans[i] : integers[i], x[0], x[1]);
}
EMIT(SelectOp) { return s.select(x[0], x[1], x[2]); }
EMIT(RandomUniformOp) {
  auto word = [&](uint32_t value) { return s.constant(x[0], static_cast<int32_t>(value)); };
  Value layer = s.op<arith::AddIOp>(s.op<arith::MulIOp>(x[2], word(rt::RandomBits::ofLayer)),
                                    word(op.getStream() * rt::RandomBits::ofStream));
  Value row = mixBits(s, s.op<arith::XOrIOp>(x[0], mixBits(s, layer)));
  Value column = s.op<arith::MulIOp>(x[1], word(rt::RandomBits::ofColumn));
  Value bits = mixBits(s, s.op<arith::XOrIOp>(row, column));
  Value upper = s.op<arith::ShRUIOp>(bits, word(rt::RandomBits::dropped));
  // 24 bits are positive as signed words, too.
  return s.mul(convert(s, upper, op.getResult().getType().getElementType()), rt::RandomBits::unit);
}
#undef EMIT
