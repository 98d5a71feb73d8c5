//===- Tensors.cpp - ONNX tensors and types as attributes --------------------------------===//
#include "importers/onnx/Tensors.h"
#include "importers/onnx/Diagnostics.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/MathExtras.h"
#include <cstring>
#include <limits>

using namespace mlir;

namespace omnibal::onnx {

std::string dataTypeName(int32_t dataType) {
  static const char *names[] = {"undefined",  "float",   "uint8",  "int8",   "uint16",
                                "int16",      "int32",   "int64",  "string", "bool",
                                "float16",    "double",  "uint32", "uint64", "complex64",
                                "complex128", "bfloat16"};
  if (dataType >= 0 && dataType < int32_t(std::size(names)))
    return names[dataType];
  return "type " + std::to_string(dataType);
}

bool isFloat(int32_t dataType) {
  return dataType == Float || dataType == Double || dataType == Float16 || dataType == BFloat16;
}

bool isInteger(int32_t dataType) {
  switch (dataType) {
  case Uint8:
  case Int8:
  case Uint16:
  case Int16:
  case Int32:
  case Int64:
  case Uint32:
  case Uint64:
    return true;
  default:
    return false;
  }
}

Type elementType(int32_t dataType, MLIRContext *context) {
  if (dataType == Double)
    return Float64Type::get(context);
  if (isFloat(dataType))
    return Float32Type::get(context);
  if (dataType == Bool)
    return IntegerType::get(context, 1);
  if (isInteger(dataType))
    return IntegerType::get(context, 64);
  return {};
}

int64_t storedBytes(int32_t dataType) {
  switch (dataType) {
  case Uint8:
  case Int8:
  case Bool:
    return 1;
  case Uint16:
  case Int16:
  case Float16:
  case BFloat16:
    return 2;
  case Float:
  case Int32:
  case Uint32:
    return 4;
  case Double:
  case Int64:
  case Uint64:
    return 8;
  default:
    return 0;
  }
}

std::optional<std::pair<int64_t, int64_t>> narrowRange(int32_t dataType) {
  switch (dataType) {
  case Uint8:
    return std::pair<int64_t, int64_t>(0, 255);
  case Int8:
    return std::pair<int64_t, int64_t>(-128, 127);
  case Uint16:
    return std::pair<int64_t, int64_t>(0, 65535);
  case Int16:
    return std::pair<int64_t, int64_t>(-32768, 32767);
  case Uint32:
    return std::pair<int64_t, int64_t>(0, 4294967295);
  case Int32:
    return std::pair<int64_t, int64_t>(-2147483648LL, 2147483647);
  default:
    return std::nullopt;
  }
}

std::string sizeError(llvm::ArrayRef<int64_t> shape) {
  constexpr int64_t mostElements = int64_t{1} << 62;
  int64_t elements = 1;
  for (int64_t dim : shape) {
    if (ShapedType::isDynamic(dim))
      continue;
    if (dim < 0)
      return "the dimension " + std::to_string(dim);
    if (dim > std::numeric_limits<int32_t>::max())
      return "the dimension " + std::to_string(dim) + ", which is more than 2^31 - 1";
    if (dim > 0 && elements > mostElements / dim)
      return "more than 2^62 elements";
    elements *= std::max<int64_t>(dim, 1);
  }
  return "";
}

FailureOr<RankedTensorType> tensorType(const TensorProto &tensor, Location where) {
  int32_t dataType = tensor.data_type();
  if (dataType <= 0 || dataType > 32)
    return invalidModel(where) << "tensor '" << tensor.name() << "' has the unknown element "
                               << dataTypeName(dataType);
  Type element = elementType(dataType, where.getContext());
  if (!element)
    return notSupported(where) << "tensor '" << tensor.name() << "' has elements of "
                               << dataTypeName(dataType);
  int64_t bytes = storedBytes(dataType);
  for (int64_t dim : tensor.dims()) {
    if (dim < 0)
      return invalidModel(where) << "tensor '" << tensor.name() << "' has the dimension " << dim;
    if (llvm::MulOverflow(bytes, dim, bytes))
      return invalidModel(where) << "tensor '" << tensor.name() << "' has more than 2^63 bytes";
  }
  llvm::ArrayRef<int64_t> shape(tensor.dims().data(), size_t(tensor.dims_size()));
  if (std::string wrong = sizeError(shape); !wrong.empty())
    return invalidModel(where) << "tensor '" << tensor.name() << "' has " << wrong;
  return RankedTensorType::get(shape, element);
}

int64_t rawBytes(const TensorProto &tensor) {
  int64_t bytes = storedBytes(tensor.data_type());
  for (int64_t dim : tensor.dims())
    bytes *= dim;
  return bytes;
}

namespace {

float halfToFloat(uint16_t bits, const llvm::fltSemantics &semantics) {
  llvm::APFloat value(semantics, llvm::APInt(16, bits));
  bool inexact = false;
  value.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &inexact);
  return value.convertToFloat();
}

/// Elements stored as `Stored`, little-endian and unaligned.
template <typename Stored> class RawElements {
public:
  explicit RawElements(const char *data) : data(data) {}
  Stored operator[](int64_t i) const {
    Stored element;
    std::memcpy(&element, data + i * int64_t(sizeof(Stored)), sizeof(Stored));
    return element;
  }

private:
  const char *data;
};

template <typename Out, typename In, typename Convert>
DenseElementsAttr convert(RankedTensorType type, int64_t count, const In &in, Convert how) {
  // A vector<bool> would have no contiguous storage.
  std::unique_ptr<Out[]> out(new Out[std::max<int64_t>(count, 1)]);
  for (int64_t i = 0; i < count; ++i)
    out[i] = how(in[i]);
  return DenseElementsAttr::get(type, llvm::ArrayRef<Out>(out.get(), count));
}

template <typename Out>
constexpr auto plain = [](auto element) { return static_cast<Out>(element); };

DenseElementsAttr fromRaw(int32_t dataType, RankedTensorType type, int64_t count,
                          const char *data) {
  auto half = [](const llvm::fltSemantics &semantics) {
    return [&semantics](uint16_t bits) { return halfToFloat(bits, semantics); };
  };
  switch (dataType) {
  case Float:
    return convert<float>(type, count, RawElements<float>(data), plain<float>);
  case Double:
    return convert<double>(type, count, RawElements<double>(data), plain<double>);
  case Float16:
    return convert<float>(type, count, RawElements<uint16_t>(data),
                          half(llvm::APFloat::IEEEhalf()));
  case BFloat16:
    return convert<float>(type, count, RawElements<uint16_t>(data), half(llvm::APFloat::BFloat()));
  case Bool:
    return convert<bool>(type, count, RawElements<uint8_t>(data), [](uint8_t b) { return b != 0; });
  case Uint8:
    return convert<int64_t>(type, count, RawElements<uint8_t>(data), plain<int64_t>);
  case Int8:
    return convert<int64_t>(type, count, RawElements<int8_t>(data), plain<int64_t>);
  case Uint16:
    return convert<int64_t>(type, count, RawElements<uint16_t>(data), plain<int64_t>);
  case Int16:
    return convert<int64_t>(type, count, RawElements<int16_t>(data), plain<int64_t>);
  case Uint32:
    return convert<int64_t>(type, count, RawElements<uint32_t>(data), plain<int64_t>);
  case Int32:
    return convert<int64_t>(type, count, RawElements<int32_t>(data), plain<int64_t>);
  default:
    return convert<int64_t>(type, count, RawElements<int64_t>(data), plain<int64_t>);
  }
}

/// The typed field that holds elements of this type when raw_data is absent.
int64_t typedCount(const TensorProto &tensor) {
  switch (tensor.data_type()) {
  case Float:
    return tensor.float_data_size();
  case Double:
    return tensor.double_data_size();
  case Int64:
    return tensor.int64_data_size();
  case Uint32:
  case Uint64:
    return tensor.uint64_data_size();
  default:
    return tensor.int32_data_size();
  }
}

DenseElementsAttr fromTyped(const TensorProto &tensor, RankedTensorType type, int64_t count) {
  switch (tensor.data_type()) {
  case Float:
    return convert<float>(type, count, tensor.float_data(), plain<float>);
  case Double:
    return convert<double>(type, count, tensor.double_data(), plain<double>);
  case Int64:
    return convert<int64_t>(type, count, tensor.int64_data(), plain<int64_t>);
  case Uint32:
  case Uint64:
    return convert<int64_t>(type, count, tensor.uint64_data(), plain<int64_t>);
  case Bool:
    return convert<bool>(type, count, tensor.int32_data(), [](int32_t b) { return b != 0; });
  case Float16:
  case BFloat16: {
    const llvm::fltSemantics &semantics =
        tensor.data_type() == Float16 ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat();
    return convert<float>(type, count, tensor.int32_data(),
                          [&](int32_t bits) { return halfToFloat(uint16_t(bits), semantics); });
  }
  default:
    return convert<int64_t>(type, count, tensor.int32_data(), plain<int64_t>);
  }
}

} // namespace

FailureOr<DenseElementsAttr> tensorValue(const TensorProto &tensor, llvm::ArrayRef<char> external,
                                         Location where) {
  FailureOr<RankedTensorType> type = tensorType(tensor, where);
  if (failed(type))
    return failure();
  int64_t count = type->getNumElements();
  bool raw = tensor.data_location() == TensorProto::EXTERNAL || tensor.has_raw_data();
  if (raw) {
    llvm::ArrayRef<char> bytes = external;
    if (tensor.data_location() != TensorProto::EXTERNAL)
      bytes = {tensor.raw_data().data(), tensor.raw_data().size()};
    if (int64_t(bytes.size()) != rawBytes(tensor))
      return invalidModel(where) << "tensor '" << tensor.name() << "' of type " << *type
                                 << " needs " << rawBytes(tensor) << " bytes of "
                                 << dataTypeName(tensor.data_type()) << " but has " << bytes.size();
    return fromRaw(tensor.data_type(), *type, count, bytes.data());
  }
  if (typedCount(tensor) != count)
    return invalidModel(where) << "tensor '" << tensor.name() << "' of type " << *type << " needs "
                               << count << " elements of " << dataTypeName(tensor.data_type())
                               << " but has " << typedCount(tensor);
  return fromTyped(tensor, *type, count);
}

FailureOr<RankedTensorType> declaredType(const ValueInfoProto &info, Location where) {
  if (!info.has_type() || info.type().value_case() == TypeProto::VALUE_NOT_SET)
    return RankedTensorType();
  if (!info.type().has_tensor_type())
    return notSupported(where) << "'" << info.name()
                               << "' is a sequence, map or optional value; only tensors are";
  const TypeProto::Tensor &declared = info.type().tensor_type();
  Type element = elementType(declared.elem_type(), where.getContext());
  if (!element)
    return notSupported(where) << "'" << info.name() << "' has elements of "
                               << dataTypeName(declared.elem_type());
  if (!declared.has_shape())
    return RankedTensorType();
  llvm::SmallVector<int64_t> shape;
  for (const TensorShapeProto::Dimension &dim : declared.shape().dim()) {
    if (dim.has_dim_value() && dim.dim_value() < 0)
      return invalidModel(where) << "'" << info.name() << "' has the dimension " << dim.dim_value();
    shape.push_back(dim.has_dim_value() ? dim.dim_value() : ShapedType::kDynamic);
  }
  if (std::string wrong = sizeError(shape); !wrong.empty())
    return invalidModel(where) << "'" << info.name() << "' has " << wrong;
  return RankedTensorType::get(shape, element);
}

} // namespace omnibal::onnx
