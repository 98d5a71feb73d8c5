#include "runtime/support/QuantizedMatrix.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace omnibal::rt {
namespace {

constexpr float largestCode = 127;

/// Between two levels that are neighbors; a number on it has the lower one.
constexpr float middleAbove(int level) { return (nf4Levels[level] + nf4Levels[level + 1]) / 2; }

/// The bits of |value|: of finite numbers the larger has the larger bits.
uint32_t sizeOf(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffff; }
constexpr uint32_t sizeOfInfinity = 0x7f800000;

uint32_t largestSize(std::span<const float> values) {
  uint32_t largest = 0;
  for (float value : values)
    largest = std::max(largest, sizeOf(value));
  return largest;
}
float largestOf(std::span<const float> values) { return std::bit_cast<float>(largestSize(values)); }

/// To the nearest whole number, half to even, of numbers far below 2^22.
float rounded(float value) {
  constexpr float wholeNumbers = 0x1.8p23F; // where no float32 has a fraction
  return (value + wholeNumbers) - wholeNumbers;
}

void setScale(int32_t *words, int64_t number, float scale) {
  std::memcpy(words + number, &scale, sizeof scale);
}
float scaleAt(const int32_t *words, int64_t number) {
  float scale = 0;
  std::memcpy(&scale, words + number, sizeof scale);
  return scale;
}

/// A row, whose scale is returned. Where all of it is so near 0 that the scale is 0, it is zeros.
float quantizeRow(std::span<const float> values, int8_t *codes) {
  const float scale = largestOf(values) / largestCode;
  if (scale == 0) {
    std::fill_n(codes, values.size(), int8_t{0});
    return scale;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const float code = rounded(values[i] / scale);
    codes[i] = static_cast<int8_t>(static_cast<int32_t>(code > largestCode    ? largestCode
                                                        : code < -largestCode ? -largestCode
                                                                              : code));
  }
  return scale;
}

/// A block, whose scale is returned; its codes lie two in a byte, the first in the upper half.
float quantizeBlock(std::span<const float> values, uint8_t *codes) {
  constexpr size_t most = QuantizedShape::block;
  const float scale = largestOf(values);
  float shares[most] = {};
  uint32_t numbers[most] = {};
  for (size_t i = 0; i < values.size() && scale != 0; ++i)
    shares[i] = values[i] / scale;
  for (int level = 0; level < 15; ++level)
    for (size_t i = 0; i < most; ++i)
      numbers[i] += shares[i] > middleAbove(level);
  for (size_t i = values.size(); i < most; ++i)
    numbers[i] = 0; // the half of a byte behind the last code
  for (size_t i = 0; i < values.size(); i += 2)
    codes[i / 2] = static_cast<uint8_t>(numbers[i] << 4 | numbers[i + 1]);
  return scale;
}

void dequantizeRow(const int8_t *codes, float scale, int64_t count, float *out) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = static_cast<float>(codes[i]) * scale;
}

/// Elements [first, first + count) of a block.
void dequantizeBlock(const uint8_t *codes, float scale, int64_t first, int64_t count, float *out) {
  float values[16];
  for (int i = 0; i < 16; ++i)
    values[i] = nf4Levels[i] * scale;
  int64_t i = 0;
  if (first % 2 != 0 && count > 0)
    out[i++] = values[codes[first / 2] & 15];
  const uint8_t *from = codes + (first + i) / 2;
  for (; i + 1 < count; i += 2, ++from) {
    out[i] = values[*from >> 4];
    out[i + 1] = values[*from & 15];
  }
  if (i < count)
    out[i] = values[*from >> 4];
}

} // namespace

int64_t quantize(const QuantizedShape &shape, int64_t first, std::span<const float> values,
                 int32_t *words) {
  if (largestSize(values) >= sizeOfInfinity)
    return std::ranges::find_if(values, [](float value) { return !std::isfinite(value); }) -
           values.begin();
  const auto step = static_cast<size_t>(shape.step());
  auto *codes = reinterpret_cast<uint8_t *>(words + shape.scales());
  if (first + static_cast<int64_t>(values.size()) == shape.elements()) // what fills the last word
    std::fill(codes + shape.codeBytes(), codes + 4 * (shape.words() - shape.scales()), uint8_t{0});
  for (size_t at = 0; at < values.size(); at += step) {
    const auto part = values.subspan(at, std::min(step, values.size() - at));
    const int64_t element = first + static_cast<int64_t>(at);
    const float scale = shape.kind == Quantization::Int8
                            ? quantizeRow(part, reinterpret_cast<int8_t *>(codes) + element)
                            : quantizeBlock(part, codes + element / 2);
    setScale(words, element / shape.step(), scale);
  }
  return -1;
}

void dequantize(const QuantizedShape &shape, const int32_t *words, const MatrixWindow &window,
                float *out, int64_t stride) {
  const auto *codes = reinterpret_cast<const uint8_t *>(words + shape.scales());
  for (int64_t r = 0; r < window.rows; ++r, out += stride) {
    const int64_t row = window.row + r;
    int64_t element = row * shape.cols + window.col;
    if (shape.kind == Quantization::Int8) {
      dequantizeRow(reinterpret_cast<const int8_t *>(codes) + element, scaleAt(words, row),
                    window.cols, out);
      continue;
    }
    for (int64_t done = 0; done < window.cols;) {
      constexpr int64_t block = QuantizedShape::block;
      const int64_t number = element / block, inside = element % block;
      const int64_t count = std::min(block - inside, window.cols - done);
      dequantizeBlock(codes + number * (block / 2), scaleAt(words, number), inside, count,
                      out + done);
      element += count;
      done += count;
    }
  }
}

} // namespace omnibal::rt
