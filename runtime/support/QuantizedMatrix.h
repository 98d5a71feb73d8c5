//===- QuantizedMatrix.h - Matrices of frozen weights in 8 or 4 bits a number -----------------===//
//
// A matrix [rows, cols] becomes words of 4 bytes: its scales, which are float32, and then its codes
// in row-major order, filled up with zeros to a whole word. docs/program.md describes both kinds.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_SUPPORT_QUANTIZEDMATRIX_H
#define RUNTIME_SUPPORT_QUANTIZEDMATRIX_H

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace omnibal::rt {

enum class Quantization {
  None, ///< the numbers as they are
  Int8, ///< a scale for each row; a code is a whole number in [-127, 127]
  NF4   ///< a scale for each 64 numbers in row-major order; a code is one of 16 levels
};

constexpr const char *nameOf(Quantization kind) {
  return kind == Quantization::Int8 ? "int8" : kind == Quantization::NF4 ? "nf4" : "none";
}
/// None is no kind that has a name.
constexpr std::optional<Quantization> quantizationNamed(std::string_view name) {
  for (Quantization kind : {Quantization::Int8, Quantization::NF4})
    if (name == nameOf(kind))
      return kind;
  return std::nullopt;
}

/// The levels of NF4 (QLoRA, arXiv 2305.14314, appendix E): quantiles of the normal distribution,
/// scaled to [-1, 1], among them 0.
inline constexpr float nf4Levels[16] = {-1.0F,
                                        -0.6961928009986877F,
                                        -0.5250730514526367F,
                                        -0.39491748809814453F,
                                        -0.28444138169288635F,
                                        -0.18477343022823334F,
                                        -0.09105003625154495F,
                                        0.0F,
                                        0.07958029955625534F,
                                        0.16093020141124725F,
                                        0.24611230194568634F,
                                        0.33791524171829224F,
                                        0.44070982933044434F,
                                        0.5626170039176941F,
                                        0.7229568362236023F,
                                        1.0F};

struct QuantizedShape {
  /// Numbers that share a scale in NF4; the last block of a matrix may be shorter.
  static constexpr int64_t block = 64;

  Quantization kind = Quantization::None;
  int64_t rows = 0, cols = 0;

  constexpr int64_t elements() const { return rows * cols; }
  constexpr int64_t scales() const {
    return kind == Quantization::Int8 ? rows : (elements() + block - 1) / block;
  }
  constexpr int64_t codeBytes() const {
    return kind == Quantization::Int8 ? elements() : (elements() + 1) / 2;
  }
  constexpr int64_t words() const { return scales() + (codeBytes() + 3) / 4; }
  constexpr int64_t bytes() const { return words() * 4; }
  /// Elements that are quantized together: pieces of a matrix begin at multiples of it.
  constexpr int64_t step() const { return kind == Quantization::Int8 ? cols : block; }

  friend bool operator==(const QuantizedShape &, const QuantizedShape &) = default;
};

/// Quantizes elements [first, first + values.size()) into `words`, which are those of the whole
/// matrix; `first` is a multiple of step(), and so is the number of values but at the end. Returns
/// the place in `values` of a number that is not finite, or -1.
int64_t quantize(const QuantizedShape &shape, int64_t first, std::span<const float> values,
                 int32_t *words);

/// A window of a matrix: `rows` from `row` on, `cols` from `col` on.
struct MatrixWindow {
  int64_t row = 0, col = 0, rows = 0, cols = 0;
};
/// Writes what the codes stand for, in float32; rows of `out` are `stride` apart.
void dequantize(const QuantizedShape &shape, const int32_t *words, const MatrixWindow &window,
                float *out, int64_t stride);

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_QUANTIZEDMATRIX_H
