//===- Elementwise.cpp - Arithmetic, comparisons, activations, casts ---------------------===//
#include "importers/onnx/OpTable.h"
#include "importers/onnx/Tensors.h"

using namespace mlir;

namespace omnibal::onnx {

namespace {

template <typename OpT> LogicalResult buildUnary(NodeContext &c) {
  return c.give(c.e.unary<OpT>(c.input(0)));
}

template <typename OpT> LogicalResult buildFloatUnary(NodeContext &c) {
  if (!c.e.requireFloat(c.input(0), "the input"))
    return failure();
  return c.give(c.e.unary<OpT>(c.input(0)));
}

template <typename OpT> LogicalResult buildBinary(NodeContext &c) {
  return c.give(c.e.binary<OpT>(c.input(0), c.input(1)));
}

template <typename OpT> LogicalResult buildLogical(NodeContext &c) {
  for (Value operand : c.inputs)
    if (!elementOf(operand).isInteger(1))
      return c.e.invalid("operands must be bool tensors"), failure();
  return buildBinary<OpT>(c);
}

LogicalResult buildIsNaN(NodeContext &c) {
  if (!c.e.requireFloat(c.input(0), "the input"))
    return failure();
  RankedTensorType type = typeOf(c.input(0)).clone(c.e.builder.getI1Type());
  return c.give(IsNaNOp::create(c.e.builder, c.e.loc, type, c.input(0)));
}

LogicalResult buildNot(NodeContext &c) {
  if (!elementOf(c.input(0)).isInteger(1))
    return c.e.invalid("the operand must be a bool tensor"), failure();
  return buildUnary<NotOp>(c);
}

/// Sum, Max, Min: any number of operands.
template <typename OpT> LogicalResult buildVariadic(NodeContext &c) {
  Value result = c.input(0);
  for (Value operand : llvm::ArrayRef<Value>(c.inputs).drop_front())
    result = c.e.binary<OpT>(result, operand);
  return c.give(result);
}

LogicalResult buildMean(NodeContext &c) {
  if (!c.e.requireFloat(c.input(0), "the input") || failed(buildVariadic<AddOp>(c)))
    return failure();
  return c.give(c.e.scale(c.outputs[0], 1.0 / double(c.inputs.size())));
}

template <ComparePredicate predicate> LogicalResult buildCompare(NodeContext &c) {
  return c.give(c.e.compare(c.input(0), c.input(1), predicate));
}

/// The exponent may have another type than the base, whose type the result has.
LogicalResult buildPow(NodeContext &c) {
  Value base = c.input(0), exponent = c.input(1);
  Type element = elementOf(base);
  if (!isa<FloatType>(element) && isa<FloatType>(elementOf(exponent)))
    base = c.e.cast(base, elementOf(exponent));
  exponent = c.e.cast(exponent, elementOf(base));
  Value power = c.e.binary<PowOp>(base, exponent);
  return c.give(power ? c.e.cast(power, element) : power);
}

LogicalResult buildMod(NodeContext &c) {
  bool fmod = c.getInt("fmod", 0) != 0;
  if (!fmod && isa<FloatType>(elementOf(c.input(0))))
    return c.e.invalid("fmod must be 1 for float tensors"), failure();
  RankedTensorType type = c.e.broadcastType({c.input(0), c.input(1)});
  if (!type)
    return failure();
  if (elementOf(c.input(0)) != elementOf(c.input(1)))
    return c.e.invalid("operands of different element types"), failure();
  return c.give(ModOp::create(c.e.builder, c.e.loc, type, c.input(0), c.input(1), fmod));
}

LogicalResult buildCeil(NodeContext &c) { // -floor(-x)
  if (!c.e.requireFloat(c.input(0), "the input"))
    return failure();
  return c.give(c.e.unary<NegOp>(c.e.unary<FloorOp>(c.e.unary<NegOp>(c.input(0)))));
}

LogicalResult buildClip(NodeContext &c) {
  Value result = c.input(0);
  for (Value bound : {c.input(1), c.input(2)})
    if (bound && rankOf(bound) != 0 &&
        (!typeOf(bound).hasStaticShape() || typeOf(bound).getNumElements() != 1))
      return c.e.invalid("min and max must be scalars"), failure();
  if (c.input(1))
    result = c.e.binary<MaxOp>(result, c.input(1));
  if (c.input(2))
    result = c.e.binary<MinOp>(result, c.input(2));
  return c.give(result);
}

LogicalResult buildWhere(NodeContext &c) {
  return c.give(c.e.select(c.input(0), c.input(1), c.input(2)));
}

LogicalResult buildGelu(NodeContext &c) {
  if (!c.e.requireFloat(c.input(0), "the input"))
    return failure();
  std::string form = c.getString("approximate", "none");
  if (form != "none" && form != "tanh")
    return c.e.invalid("approximate is '" + form + "'"), failure();
  return c.give(
      GeluOp::create(c.e.builder, c.e.loc, c.input(0).getType(), c.input(0), form == "tanh"));
}

LogicalResult buildLeakyRelu(NodeContext &c) {
  if (!c.e.requireFloat(c.input(0), "the input"))
    return failure();
  Value x = c.input(0), zero = c.e.scalar(0, elementOf(x));
  return c.give(c.e.select(c.e.compare(x, zero, ComparePredicate::LT),
                           c.e.scale(x, c.getFloat("alpha", 0.01f)), x));
}

/// log(1 + e^x); beyond 20 it is x to float32's last place, and e^x must not overflow.
LogicalResult buildSoftplus(NodeContext &c) {
  if (!c.e.requireFloat(c.input(0), "the input"))
    return failure();
  Value x = c.input(0), most = c.e.scalar(20, elementOf(x)), one = c.e.scalar(1, elementOf(x));
  Value curve = c.e.unary<ExpOp>(c.e.binary<MinOp>(x, most));
  curve = c.e.unary<LogOp>(c.e.add(curve, one));
  return c.give(c.e.select(c.e.compare(x, most, ComparePredicate::GT), x, curve));
}

/// Integers are 64 bit here; conversion to a narrower type wraps as that type does.
Value castTo(NodeContext &c, Value x, int32_t dataType) {
  Type element = elementType(dataType, c.e.builder.getContext());
  if (!element)
    return c.e.unsupported("conversion to " + dataTypeName(dataType));
  bool fromInt = elementOf(x).isInteger(64);
  Value result = c.e.cast(x, element);
  auto range = narrowRange(dataType);
  if (!fromInt || !range)
    return result;
  if (auto values = c.e.known.getAll(x)) // shape arithmetic stays plain
    if (llvm::all_of(*values, [&](int64_t v) { return v >= range->first && v <= range->second; }))
      return result;
  // int32 is the type of ids and sizes: a wrap there would be an error in the model, not meant.
  if (dataType == Int32 || dataType == Uint32)
    return result;
  Value low = c.e.intScalar(range->first);
  Value span = c.e.intScalar(range->second - range->first + 1);
  Value shifted = c.e.sub(result, low);
  Value wrapped = ModOp::create(c.e.builder, c.e.loc, shifted.getType(), shifted, span, false);
  return c.e.add(wrapped, low);
}

LogicalResult buildCast(NodeContext &c) {
  const AttributeProto *to = c.attribute("to");
  if (!to)
    return c.e.invalid("has no attribute 'to'"), failure();
  return c.give(castTo(c, c.input(0), int32_t(to->i())));
}

LogicalResult buildCastLike(NodeContext &c) {
  return c.give(c.e.cast(c.input(0), elementOf(c.input(1))));
}

} // namespace

llvm::ArrayRef<OpEntry> elementwiseOps() {
  static const OpEntry table[] = {
      {"Abs", kFirst, kLast, 1, 1, buildUnary<AbsOp>},
      {"Add", kFirst, kLast, 2, 2, buildBinary<AddOp>},
      {"And", kFirst, kLast, 2, 2, buildLogical<AndOp>},
      {"Cast", kFirst, kLast, 1, 1, buildCast},
      {"CastLike", 15, kLast, 2, 2, buildCastLike},
      {"Ceil", kFirst, kLast, 1, 1, buildCeil},
      {"Clip", kFirst, kLast, 1, 3, buildClip},
      {"Cos", kFirst, kLast, 1, 1, buildFloatUnary<CosOp>},
      {"Div", kFirst, kLast, 2, 2, buildBinary<DivOp>},
      {"Equal", kFirst, kLast, 2, 2, buildCompare<ComparePredicate::EQ>},
      {"Erf", kFirst, kLast, 1, 1, buildFloatUnary<ErfOp>},
      {"Exp", kFirst, kLast, 1, 1, buildFloatUnary<ExpOp>},
      {"Floor", kFirst, kLast, 1, 1, buildFloatUnary<FloorOp>},
      {"Gelu", 20, kLast, 1, 1, buildGelu},
      {"Greater", kFirst, kLast, 2, 2, buildCompare<ComparePredicate::GT>},
      {"GreaterOrEqual", kFirst, kLast, 2, 2, buildCompare<ComparePredicate::GE>},
      {"IsNaN", kFirst, kLast, 1, 1, buildIsNaN},
      {"LeakyRelu", kFirst, kLast, 1, 1, buildLeakyRelu},
      {"Less", kFirst, kLast, 2, 2, buildCompare<ComparePredicate::LT>},
      {"LessOrEqual", kFirst, kLast, 2, 2, buildCompare<ComparePredicate::LE>},
      {"Log", kFirst, kLast, 1, 1, buildFloatUnary<LogOp>},
      {"Max", kFirst, kLast, 1, -1, buildVariadic<MaxOp>},
      {"Mean", kFirst, kLast, 1, -1, buildMean},
      {"Min", kFirst, kLast, 1, -1, buildVariadic<MinOp>},
      {"Mod", kFirst, kLast, 2, 2, buildMod},
      {"Mul", kFirst, kLast, 2, 2, buildBinary<MulOp>},
      {"Neg", kFirst, kLast, 1, 1, buildUnary<NegOp>},
      {"Not", kFirst, kLast, 1, 1, buildNot},
      {"Or", kFirst, kLast, 2, 2, buildLogical<OrOp>},
      {"Pow", kFirst, kLast, 2, 2, buildPow},
      {"Reciprocal", kFirst, kLast, 1, 1, buildFloatUnary<ReciprocalOp>},
      {"Relu", kFirst, kLast, 1, 1, buildUnary<ReluOp>},
      {"Sigmoid", kFirst, kLast, 1, 1, buildFloatUnary<SigmoidOp>},
      {"Sign", kFirst, kLast, 1, 1, buildUnary<SignOp>},
      {"Sin", kFirst, kLast, 1, 1, buildFloatUnary<SinOp>},
      {"Softplus", kFirst, kLast, 1, 1, buildSoftplus},
      {"Sqrt", kFirst, kLast, 1, 1, buildFloatUnary<SqrtOp>},
      {"Sub", kFirst, kLast, 2, 2, buildBinary<SubOp>},
      {"Sum", kFirst, kLast, 1, -1, buildVariadic<AddOp>},
      {"Tanh", kFirst, kLast, 1, 1, buildFloatUnary<TanhOp>},
      {"Where", kFirst, kLast, 3, 3, buildWhere},
      {"Xor", kFirst, kLast, 2, 2, buildLogical<XorOp>},
  };
  return table;
}

} // namespace omnibal::onnx
