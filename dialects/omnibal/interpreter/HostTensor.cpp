//===- HostTensor.cpp --------------------------------------------------------------------===//
#include "dialects/omnibal/interpreter/HostTensor.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <cstring>

using namespace mlir;

namespace omnibal {

HostTensor::HostTensor(Type elementType, ArrayRef<int64_t> shape)
    : shape(shape), elementType(elementType) {
  if (isFloat())
    floats.assign(elementCount(shape), 0.0);
  else
    ints.assign(elementCount(shape), 0);
}

int64_t HostTensor::size() const { return elementCount(shape); }

int64_t wrapInteger(int64_t value, Type type) {
  unsigned width = type.getIntOrFloatBitWidth();
  if (width == 1)
    return value != 0;
  if (width >= 64)
    return value;
  auto bits = static_cast<uint64_t>(value) << (64 - width);
  return type.isUnsignedInteger() ? static_cast<int64_t>(bits >> (64 - width))
                                  : static_cast<int64_t>(bits) >> (64 - width);
}

void HostTensor::set(int64_t i, double value) {
  if (isFloat()) {
    floats[i] = value;
    return;
  }
  constexpr double limit = 9223372036854775808.0; // 2^63
  int64_t integer = 0;
  if (elementType.isInteger(1))
    integer = value != 0;
  else if (value >= limit)
    integer = INT64_MAX;
  else if (value < -limit)
    integer = INT64_MIN;
  else if (!std::isnan(value))
    integer = static_cast<int64_t>(value);
  ints[i] = wrapInteger(integer, elementType);
}

int64_t elementCount(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

SmallVector<int64_t> rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

FailureOr<HostTensor> fromAttribute(ElementsAttr attribute) {
  ShapedType type = attribute.getShapedType();
  Type element = type.getElementType();
  if (!isa<FloatType, IntegerType>(element))
    return failure();
  HostTensor result(element, type.getShape());
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(attribute)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    unsigned width = element.getIntOrFloatBitWidth();
    if (!blob || width % 8 != 0 || blob->getData().size() != size_t(result.size()) * width / 8)
      return failure();
    const char *data = blob->getData().data();
    for (int64_t i = 0; i < result.size(); ++i) {
      uint64_t raw = 0; // hosts and files are little-endian
      std::memcpy(&raw, data + i * (width / 8), width / 8);
      APInt bits(width, raw);
      if (auto floating = dyn_cast<FloatType>(element))
        result.floats[i] = APFloat(floating.getFloatSemantics(), bits).convertToDouble();
      else
        result.ints[i] = wrapInteger(static_cast<int64_t>(raw), element);
    }
    return result;
  }
  auto dense = dyn_cast<DenseElementsAttr>(attribute);
  if (!dense)
    return failure();
  if (element.isF32() && !dense.isSplat()) { // the bulk of all constants
    for (auto [i, value] : llvm::enumerate(dense.getValues<float>()))
      result.floats[i] = value;
  } else if (isa<FloatType>(element)) {
    auto convert = [](APFloat value) {
      bool inexact;
      value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &inexact);
      return value.convertToDouble();
    };
    if (dense.isSplat())
      std::fill(result.floats.begin(), result.floats.end(),
                convert(dense.getSplatValue<APFloat>()));
    else
      for (auto [i, value] : llvm::enumerate(dense.getValues<APFloat>()))
        result.floats[i] = convert(value);
  } else {
    bool zeroExtend = element.isInteger(1) || element.isUnsignedInteger();
    auto convert = [&](const APInt &value) {
      return zeroExtend ? static_cast<int64_t>(value.getZExtValue()) : value.getSExtValue();
    };
    if (dense.isSplat())
      std::fill(result.ints.begin(), result.ints.end(), convert(dense.getSplatValue<APInt>()));
    else
      for (auto [i, value] : llvm::enumerate(dense.getValues<APInt>()))
        result.ints[i] = convert(value);
  }
  return result;
}

DenseElementsAttr toAttribute(const HostTensor &tensor) {
  auto type = RankedTensorType::get(tensor.shape, tensor.elementType);
  if (tensor.elementType.isF32()) {
    std::vector<float> values(tensor.floats.begin(), tensor.floats.end());
    return DenseElementsAttr::get(type, ArrayRef<float>(values));
  }
  if (auto floating = dyn_cast<FloatType>(tensor.elementType)) {
    SmallVector<APFloat> values;
    for (double value : tensor.floats) {
      APFloat converted(value);
      bool inexact;
      converted.convert(floating.getFloatSemantics(), APFloat::rmNearestTiesToEven, &inexact);
      values.push_back(converted);
    }
    return DenseElementsAttr::get(type, values);
  }
  if (tensor.elementType.isSignlessInteger(64))
    return DenseElementsAttr::get(type, ArrayRef<int64_t>(tensor.ints));
  unsigned width = tensor.elementType.getIntOrFloatBitWidth();
  SmallVector<APInt> values;
  for (int64_t value : tensor.ints)
    values.push_back(APInt(64, static_cast<uint64_t>(value)).trunc(width));
  return DenseElementsAttr::get(type, values);
}

} // namespace omnibal
