//===- StoredConvert.cpp - Element conversion of safetensors data ------------------------===//
#include "runtime/support/BFloat16.h"
#include "runtime/support/Float16.h"
#include "runtime/support/Safetensors.h"
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace omnibal::rt {
namespace {

template <typename T> T load(const std::byte *at) {
  T value;
  std::memcpy(&value, at, sizeof value); // the data need not be aligned
  return value;
}

/// Calls `use` with a function that yields the i-th element as a C++ number.
template <typename Use> auto withElements(StoredType type, Use use) {
  auto plain = [&](auto tag) {
    using T = decltype(tag);
    return use([](const std::byte *d, int64_t i) { return load<T>(d + i * int64_t(sizeof(T))); });
  };
  switch (type) {
  case StoredType::Bool:
    return use([](const std::byte *d, int64_t i) { return d[i] != std::byte{0}; });
  case StoredType::U8:
    return plain(uint8_t{});
  case StoredType::I8:
    return plain(int8_t{});
  case StoredType::U16:
    return plain(uint16_t{});
  case StoredType::I16:
    return plain(int16_t{});
  case StoredType::F16:
    return use([](const std::byte *d, int64_t i) { return load<Float16>(d + 2 * i).toFloat(); });
  case StoredType::BF16:
    return use([](const std::byte *d, int64_t i) { return load<BFloat16>(d + 2 * i).toFloat(); });
  case StoredType::U32:
    return plain(uint32_t{});
  case StoredType::I32:
    return plain(int32_t{});
  case StoredType::F32:
    return plain(float{});
  case StoredType::U64:
    return plain(uint64_t{});
  case StoredType::I64:
    return plain(int64_t{});
  case StoredType::F64:
    break;
  }
  return plain(double{});
}

/// False if a value does not fit.
template <typename To, typename From> bool convertOne(From value, To &out) {
  if constexpr (std::is_same_v<To, BFloat16>) {
    // Not to float32 first: a float64 would round twice.
    out = BFloat16::fromDouble(static_cast<double>(value));
    return true;
  } else if constexpr (std::is_floating_point_v<To>) {
    out = static_cast<To>(value);
    return true;
  } else if constexpr (std::is_floating_point_v<From>) {
    return false;
  } else if constexpr (std::is_same_v<To, bool>) {
    out = value != From{0};
    return value == From{0} || value == From{1};
  } else if constexpr (std::is_same_v<From, bool>) {
    out = value;
    return true;
  } else {
    out = static_cast<To>(value);
    return std::in_range<To>(value);
  }
}

} // namespace

Status convertTensor(const StoredTensor &tensor, DType to, void *out, int64_t first,
                     int64_t count) {
  if (first < 0 || count < 0 || count > tensor.elements - first)
    return {Code::Internal, "tensor \"" + tensor.name + "\": elements outside of it are wanted"};
  if (storedTypeOf(to) == tensor.dtype && tensor.dtype != StoredType::Bool) {
    int64_t size = byteSize(tensor.dtype);
    if (count > 0)
      std::memcpy(out, tensor.data + first * size, static_cast<size_t>(count * size));
    return Status::ok();
  }
  auto run = [&](auto *target) {
    return withElements(tensor.dtype, [&](auto element) {
      for (int64_t i = 0; i < count; ++i)
        if (!convertOne(element(tensor.data, first + i), target[i]))
          return false;
      return true;
    });
  };
  bool fits = false;
  switch (to) {
  case DType::F32:
    fits = run(static_cast<float *>(out));
    break;
  case DType::F64:
    fits = run(static_cast<double *>(out));
    break;
  case DType::I32:
    fits = run(static_cast<int32_t *>(out));
    break;
  case DType::I64:
    fits = run(static_cast<int64_t *>(out));
    break;
  case DType::Bool:
    fits = run(static_cast<bool *>(out));
    break;
  case DType::BF16:
    fits = run(static_cast<BFloat16 *>(out));
    break;
  }
  if (!fits)
    return invalid("tensor \"" + tensor.name + "\": its " +
                   std::string(storedTypeName(tensor.dtype)) +
                   " values do not all fit the integer type that is needed");
  return Status::ok();
}

Status convertTensor(const StoredTensor &tensor, DType to, void *out) {
  return convertTensor(tensor, to, out, 0, tensor.elements);
}

namespace {

/// The stored form of a number.
template <typename To> To encode(double value) {
  if constexpr (std::is_floating_point_v<To>)
    return static_cast<To>(value);
  else
    return To::fromDouble(value);
}
template <typename To> To encode(float value) {
  if constexpr (std::is_floating_point_v<To>)
    return static_cast<To>(value);
  else
    return To::fromFloat(value);
}
template <typename To> double decoded(To stored) {
  if constexpr (std::is_floating_point_v<To>)
    return stored;
  else
    return stored.toFloat();
}

template <typename To, typename From>
int64_t encodeAll(const From *values, int64_t count, std::byte *out) {
  int64_t overflow = -1;
  for (int64_t i = 0; i < count; ++i) {
    const To stored = encode<To>(values[i]);
    std::memcpy(out + i * int64_t(sizeof(To)), &stored, sizeof(To));
    if (std::isinf(decoded(stored)) && !std::isinf(values[i]) && overflow < 0)
      overflow = i;
  }
  return overflow;
}

template <typename From>
int64_t encodeAs(StoredType to, const From *values, int64_t count, void *out) {
  auto *bytes = static_cast<std::byte *>(out);
  switch (to) {
  case StoredType::F16:
    return encodeAll<Float16>(values, count, bytes);
  case StoredType::BF16:
    return encodeAll<BFloat16>(values, count, bytes);
  case StoredType::F64:
    return encodeAll<double>(values, count, bytes);
  default:
    return encodeAll<float>(values, count, bytes);
  }
}

} // namespace

int64_t encodeFloats(StoredType to, const float *values, int64_t count, void *out) {
  return encodeAs(to, values, count, out);
}

int64_t encodeFloats(StoredType to, const double *values, int64_t count, void *out) {
  return encodeAs(to, values, count, out);
}

} // namespace omnibal::rt
