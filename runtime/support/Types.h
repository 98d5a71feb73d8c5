//===- Types.h - Element types and sizes shared by the whole runtime -------------------------===//
#ifndef RUNTIME_SUPPORT_TYPES_H
#define RUNTIME_SUPPORT_TYPES_H

#include <cstdint>

namespace omnibal::rt {

/// BF16: the upper half of a float32 (BFloat16.h).
enum class DType { F32, I32, I64, Bool, F64, BF16 };

constexpr int64_t byteSize(DType type) {
  switch (type) {
  case DType::F32:
  case DType::I32:
    return 4;
  case DType::I64:
  case DType::F64:
    return 8;
  case DType::BF16:
    return 2;
  case DType::Bool:
    return 1;
  }
  return 0;
}

constexpr const char *nameOf(DType type) {
  switch (type) {
  case DType::F32:
    return "f32";
  case DType::I32:
    return "i32";
  case DType::I64:
    return "i64";
  case DType::Bool:
    return "bool";
  case DType::F64:
    return "f64";
  case DType::BF16:
    return "bf16";
  }
  return "?";
}

/// A size that is affine in the two symbols of a micro-batch: V (image tiles) and N (tokens).
struct Extent {
  int64_t constant = 0, perTile = 0, perToken = 0;
  int64_t evaluate(int64_t tiles, int64_t tokens) const {
    return constant + perTile * tiles + perToken * tokens;
  }
  bool isStatic() const { return perTile == 0 && perToken == 0; }
  bool operator==(const Extent &) const = default;
};

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_TYPES_H
