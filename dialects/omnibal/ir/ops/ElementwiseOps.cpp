//===- ElementwiseOps.cpp - Elementwise ops: shapes, float64 values ----------------------===//
#include "dialects/omnibal/ir/ScalarFunctions.h"
#include "dialects/omnibal/ir/ShapeInference.h"
#include "runtime/support/RandomBits.h"
#include <limits>

using namespace mlir;
using namespace omnibal;
using namespace omnibal::scalar;

namespace {
LogicalResult inferElementwise(Operation *op, ShapeList shapes, ShapeResults &results) {
  SymbolicShape result = shapes[0];
  for (const SymbolicShape &shape : shapes.drop_front()) {
    auto joint = broadcast(result, shape);
    if (!joint) // elementwise_c1
      return op->emitOpError() << "cannot broadcast " << toString(result) << " and "
                               << toString(shape);
    result = *joint;
  }
  results.push_back(result);
  return success();
}
bool isInteger(Value value) {
  return isa<IntegerType>(cast<RankedTensorType>(value.getType()).getElementType());
}
} // namespace

#define ELEMENTWISE_SHAPE(OP)                                                                      \
  OMNIBAL_SHAPE_RULE(OP) { return inferElementwise(*this, shapes, results); }
ELEMENTWISE_SHAPE(NegOp)
ELEMENTWISE_SHAPE(ExpOp)
ELEMENTWISE_SHAPE(LogOp)
ELEMENTWISE_SHAPE(SqrtOp)
ELEMENTWISE_SHAPE(RsqrtOp)
ELEMENTWISE_SHAPE(ReciprocalOp)
ELEMENTWISE_SHAPE(ErfOp)
ELEMENTWISE_SHAPE(TanhOp)
ELEMENTWISE_SHAPE(SigmoidOp)
ELEMENTWISE_SHAPE(CosOp)
ELEMENTWISE_SHAPE(SinOp)
ELEMENTWISE_SHAPE(AbsOp)
ELEMENTWISE_SHAPE(FloorOp)
ELEMENTWISE_SHAPE(SignOp)
ELEMENTWISE_SHAPE(NotOp)
ELEMENTWISE_SHAPE(IsNaNOp)
ELEMENTWISE_SHAPE(CastOp)
ELEMENTWISE_SHAPE(ReluOp)
ELEMENTWISE_SHAPE(SiluOp)
ELEMENTWISE_SHAPE(QuickGeluOp)
ELEMENTWISE_SHAPE(GeluOp)
ELEMENTWISE_SHAPE(SiluGradOp)
ELEMENTWISE_SHAPE(QuickGeluGradOp)
ELEMENTWISE_SHAPE(GeluGradOp)
ELEMENTWISE_SHAPE(AddOp)
ELEMENTWISE_SHAPE(SubOp)
ELEMENTWISE_SHAPE(MulOp)
ELEMENTWISE_SHAPE(DivOp)
ELEMENTWISE_SHAPE(PowOp)
ELEMENTWISE_SHAPE(ModOp)
ELEMENTWISE_SHAPE(MaxOp)
ELEMENTWISE_SHAPE(MinOp)
ELEMENTWISE_SHAPE(AndOp)
ELEMENTWISE_SHAPE(OrOp)
ELEMENTWISE_SHAPE(XorOp)
ELEMENTWISE_SHAPE(CompareOp)
ELEMENTWISE_SHAPE(SelectOp)
ELEMENTWISE_SHAPE(RandomUniformOp)
ELEMENTWISE_SHAPE(DropoutOp)
#undef ELEMENTWISE_SHAPE

LogicalResult DropoutOp::verify() {
  const double ratio = getRatio().convertToDouble();
  if (!(ratio > 0 && ratio < 1)) // dropout_c1
    return emitOpError() << "has a ratio of " << ratio << ", which must be above 0 and below 1";
  return success();
}

// Values in float64. `x` holds the operands.
#define VALUE(OP) double OP::evaluate(ArrayRef<double> x)
VALUE(NegOp) { return -x[0]; }
VALUE(ExpOp) { return std::exp(x[0]); }
VALUE(LogOp) { return std::log(x[0]); }
VALUE(SqrtOp) { return std::sqrt(x[0]); }
VALUE(RsqrtOp) { return 1 / std::sqrt(x[0]); }
VALUE(ReciprocalOp) { return 1 / x[0]; }
VALUE(ErfOp) { return std::erf(x[0]); }
VALUE(TanhOp) { return std::tanh(x[0]); }
VALUE(SigmoidOp) { return sigmoid(x[0]); }
VALUE(CosOp) { return std::cos(x[0]); }
VALUE(SinOp) { return std::sin(x[0]); }
VALUE(AbsOp) { return std::abs(x[0]); }
VALUE(FloorOp) { return std::floor(x[0]); }
VALUE(SignOp) { return x[0] > 0 ? 1 : x[0] < 0 ? -1 : x[0]; }
VALUE(IsNaNOp) { return std::isnan(x[0]); }
VALUE(ReluOp) { return x[0] < 0 ? 0 : x[0]; }
VALUE(SiluOp) { return silu(x[0]); }
VALUE(QuickGeluOp) { return quickGelu(x[0]); }
VALUE(GeluOp) { return gelu(x[0], getTanh()); }
VALUE(GeluGradOp) { return x[1] * geluDerivative(x[0], getTanh()); }
VALUE(AddOp) { return x[0] + x[1]; }
VALUE(SubOp) { return x[0] - x[1]; }
VALUE(MulOp) { return x[0] * x[1]; }
VALUE(MaxOp) { return std::isnan(x[0]) || x[0] > x[1] ? x[0] : x[1]; }
VALUE(MinOp) { return std::isnan(x[0]) || x[0] < x[1] ? x[0] : x[1]; }
VALUE(SelectOp) { return x[0] != 0 ? x[1] : x[2]; }
VALUE(RandomUniformOp) {
  auto word = [](double integer) { return static_cast<uint32_t>(static_cast<int64_t>(integer)); };
  return rt::RandomBits::uniform(word(x[0]), word(x[1]), word(x[2]), getStream());
}
VALUE(NotOp) {
  bool boolean = cast<RankedTensorType>(getOperand().getType()).getElementType().isInteger(1);
  return boolean ? x[0] == 0 : static_cast<double>(~static_cast<int64_t>(x[0]));
}
VALUE(CastOp) {
  Type target = getResult().getType().getElementType();
  if (target.isInteger(1))
    return x[0] != 0;
  return isa<IntegerType>(target) ? std::trunc(x[0]) : x[0];
}
VALUE(SiluGradOp) {
  double s = sigmoid(x[0]);
  return x[1] * s * (1 + x[0] * (1 - s));
}
VALUE(QuickGeluGradOp) {
  double s = sigmoid(quickGeluFactor * x[0]);
  return x[1] * s * (1 + quickGeluFactor * x[0] * (1 - s));
}
VALUE(DivOp) {
  if (!isInteger(getLhs()))
    return x[0] / x[1];
  return x[1] == 0 ? 0 : std::trunc(x[0] / x[1]);
}
VALUE(PowOp) {
  double power = std::pow(x[0], x[1]);
  return isInteger(getLhs()) ? std::trunc(power) : power;
}
VALUE(ModOp) {
  if (x[1] == 0)
    return isInteger(getLhs()) ? 0 : std::numeric_limits<double>::quiet_NaN();
  double rest = std::fmod(x[0], x[1]);
  // Without fmod the result has the divisor's sign, as in Python.
  return !getFmod() && rest != 0 && (rest < 0) != (x[1] < 0) ? rest + x[1] : rest;
}
VALUE(AndOp) {
  return static_cast<double>(static_cast<int64_t>(x[0]) & static_cast<int64_t>(x[1]));
}
VALUE(OrOp) { return static_cast<double>(static_cast<int64_t>(x[0]) | static_cast<int64_t>(x[1])); }
VALUE(XorOp) {
  return static_cast<double>(static_cast<int64_t>(x[0]) ^ static_cast<int64_t>(x[1]));
}
VALUE(CompareOp) {
  switch (getPredicate()) {
  case ComparePredicate::EQ:
    return x[0] == x[1];
  case ComparePredicate::LT:
    return x[0] < x[1];
  case ComparePredicate::LE:
    return x[0] <= x[1];
  case ComparePredicate::GT:
    return x[0] > x[1];
  case ComparePredicate::GE:
    return x[0] >= x[1];
  }
  return 0;
}
