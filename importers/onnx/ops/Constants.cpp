//===- Constants.cpp - Constant, ConstantOfShape, Range, Shape, Size ---------------------===//
#include "importers/onnx/OpTable.h"

using namespace mlir;

namespace omnibal::onnx {

namespace {

LogicalResult buildConstant(NodeContext &c) {
  OpBuilder &b = c.e.builder;
  auto vector = [](int64_t size, Type element) { return RankedTensorType::get({size}, element); };
  if (const AttributeProto *value = c.attribute("value")) {
    FailureOr<DenseElementsAttr> elements = c.graph.readTensor(value->t(), c.e.loc);
    return failed(elements) ? failure() : c.give(c.e.constant(*elements));
  }
  if (c.has("value_int"))
    return c.give(c.e.intScalar(c.getInt("value_int", 0)));
  if (c.has("value_float"))
    return c.give(c.e.scalar(c.getFloat("value_float", 0), b.getF32Type()));
  if (auto ints = c.getInts("value_ints"))
    return c.give(c.e.ints(*ints));
  if (const AttributeProto *floats = c.attribute("value_floats"))
    return c.give(c.e.constant(DenseElementsAttr::get(
        vector(floats->floats_size(), b.getF32Type()),
        llvm::ArrayRef<float>(floats->floats().data(), size_t(floats->floats_size())))));
  if (c.has("value_string") || c.has("value_strings") || c.has("sparse_value"))
    return c.e.unsupported("string and sparse constants"), failure();
  return c.e.invalid("has no value"), failure();
}

LogicalResult buildConstantOfShape(NodeContext &c) {
  Value value;
  if (const AttributeProto *attribute = c.attribute("value")) {
    FailureOr<DenseElementsAttr> elements = c.graph.readTensor(attribute->t(), c.e.loc);
    if (failed(elements))
      return failure();
    if (elements->getNumElements() != 1)
      return c.e.invalid("value must have one element"), failure();
    value = c.e.constant(elements->reshape(RankedTensorType::get({}, elements->getElementType())));
  } else {
    value = c.e.scalar(0, c.e.builder.getF32Type());
  }
  return c.give(c.e.expand(value, c.input(0), c.declared));
}

LogicalResult buildRange(NodeContext &c) {
  return c.give(c.e.range(c.input(0), c.input(1), c.input(2)));
}

LogicalResult buildShape(NodeContext &c) {
  int64_t rank = rankOf(c.input(0));
  int64_t start = 0, end = rank;
  if (c.opset >= 15) {
    auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
    start = clamp(c.getInt("start", 0));
    end = clamp(c.getInt("end", rank));
  }
  return c.give(c.e.shape(c.input(0), start, end));
}

LogicalResult buildSize(NodeContext &c) {
  auto type = RankedTensorType::get({}, c.e.builder.getI64Type());
  return c.give(SizeOp::create(c.e.builder, c.e.loc, type, c.input(0)));
}

} // namespace

llvm::ArrayRef<OpEntry> constantOps() {
  static const OpEntry table[] = {
      {"Constant", kFirst, kLast, 0, 0, buildConstant},
      {"ConstantOfShape", kFirst, kLast, 1, 1, buildConstantOfShape},
      {"Range", kFirst, kLast, 3, 3, buildRange},
      {"Shape", kFirst, kLast, 1, 1, buildShape},
      {"Size", kFirst, kLast, 1, 1, buildSize},
  };
  return table;
}

} // namespace omnibal::onnx
