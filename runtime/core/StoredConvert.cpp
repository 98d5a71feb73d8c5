//===- StoredConvert.cpp - Element conversion of safetensors data ------------------------===//
#include "runtime/core/BFloat16.h"
#include "runtime/core/Safetensors.h"
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace omnibal::rt {
namespace {

float halfToFloat(uint16_t h) {
  uint32_t sign = uint32_t(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent)
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  float small = std::ldexp(static_cast<float>(fraction), -24); // subnormal or zero, exact
  return sign ? -small : small;
}

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
    return use(
        [](const std::byte *d, int64_t i) { return halfToFloat(load<uint16_t>(d + 2 * i)); });
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

} // namespace omnibal::rt
