// Matrices in 8 and 4 bits a number: counted by hand, and against a naive implementation.
#include "runtime/support/QuantizedMatrix.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

using namespace omnibal::rt;

namespace {

using Numbers = std::vector<float>;
using Words = std::vector<int32_t>;

Words quantized(const QuantizedShape &shape, const Numbers &values) {
  Words words(static_cast<size_t>(shape.words()), -1);
  EXPECT_EQ(quantize(shape, 0, values, words.data()), -1);
  return words;
}

Numbers expanded(const QuantizedShape &shape, const Words &words) {
  Numbers values(static_cast<size_t>(shape.elements()));
  dequantize(shape, words.data(), {0, 0, shape.rows, shape.cols}, values.data(), shape.cols);
  return values;
}

float scaleOf(const Words &words, size_t number) {
  float scale = 0;
  std::memcpy(&scale, &words[number], sizeof scale);
  return scale;
}

uint8_t byteAt(const QuantizedShape &shape, const Words &words, int64_t number) {
  return reinterpret_cast<const uint8_t *>(words.data() + shape.scales())[number];
}

Numbers randomNumbers(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.7F);
  Numbers values(count);
  for (float &value : values)
    value = normal(random);
  return values;
}

/// The levels as the definition has them: quantiles of the normal distribution, found by bisection.
std::vector<double> levelsOfNF4() {
  auto quantile = [](double probability) {
    double low = -10, high = 10;
    for (int i = 0; i < 200; ++i) {
      const double middle = (low + high) / 2;
      (0.5 * std::erfc(-middle / std::sqrt(2.0)) < probability ? low : high) = middle;
    }
    return (low + high) / 2;
  };
  constexpr double offset = 0.9677083;
  std::vector<double> levels{0};
  for (int i = 0; i < 8; ++i)
    levels.push_back(quantile(offset + (0.5 - offset) * i / 8));
  for (int i = 0; i < 7; ++i)
    levels.push_back(-quantile(offset + (0.5 - offset) * i / 7));
  const double largest = quantile(offset);
  for (double &level : levels)
    level /= largest;
  std::sort(levels.begin(), levels.end());
  return levels;
}

/// By the definition, one number at a time.
Numbers naive(const QuantizedShape &shape, const Numbers &values) {
  Numbers result(values.size());
  const std::vector<double> levels = levelsOfNF4();
  const int64_t group = shape.kind == Quantization::Int8 ? shape.cols : 64;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto first = i / static_cast<size_t>(group) * static_cast<size_t>(group);
    float largest = 0;
    for (size_t j = first; j < std::min(first + static_cast<size_t>(group), values.size()); ++j)
      largest = std::max(largest, std::abs(values[j]));
    if (shape.kind == Quantization::Int8) {
      const float scale = largest / 127.0F;
      result[i] = scale == 0 ? 0 : std::nearbyint(values[i] / scale) * scale;
      continue;
    }
    double best = 0;
    for (double level : levels)
      if (std::abs(double{values[i]} - level * largest) <
          std::abs(double{values[i]} - best * largest))
        best = level;
    result[i] = static_cast<float>(best * largest);
  }
  return result;
}

TEST(QuantizedMatrix, SizesByHand) {
  const QuantizedShape bytes{Quantization::Int8, 3, 5}, halves{Quantization::NF4, 3, 5},
      two{Quantization::NF4, 5, 13};
  EXPECT_EQ(bytes.words(), 3 + 4);     // 15 codes in 16 bytes
  EXPECT_EQ(halves.words(), 1 + 2);    // 8 bytes
  EXPECT_EQ(two.scales(), 2);          // 65 numbers
  EXPECT_EQ(two.bytes(), 4 * (2 + 9)); // 33 bytes in 36
  EXPECT_EQ((QuantizedShape{Quantization::Int8, 0, 5}.words()), 0);
  EXPECT_EQ((QuantizedShape{Quantization::NF4, 4096, 4096}.bytes()), 4096 * 4096 / 2 * 9 / 8);
}

TEST(QuantizedMatrix, Int8ByHand) {
  const QuantizedShape shape{Quantization::Int8, 3, 3};
  // Scales 1, 0 and 2; 2.5 and -2.5 round to even codes, 3.5 too.
  const Numbers values{127, 2.5F, -2.5F, 0, 0, 0, -254, 7, 1.1F};
  const Words words = quantized(shape, values);
  EXPECT_EQ(scaleOf(words, 0), 1);
  EXPECT_EQ(scaleOf(words, 1), 0);
  EXPECT_EQ(scaleOf(words, 2), 2);
  const int8_t codes[] = {127, 2, -2, 0, 0, 0, -127, 4, 1};
  for (int i = 0; i < 9; ++i)
    EXPECT_EQ(static_cast<int8_t>(byteAt(shape, words, i)), codes[i]) << i;
  for (int i = 9; i < 12; ++i)
    EXPECT_EQ(byteAt(shape, words, i), 0) << "what fills the last word";
  EXPECT_EQ(expanded(shape, words), (Numbers{127, 2, -2, 0, 0, 0, -254, 8, 2}));
}

TEST(QuantizedMatrix, NF4ByHand) {
  // A block of 64 with the largest number 2, and one of a single number.
  Numbers values(65, 0.0F);
  values[0] = 2;
  values[1] = -2;
  values[2] = 0.158F;  // 0.079 of it: the level above 0
  values[3] = 0.0795F; // 0.03975, just below the middle 0.03979
  values[63] = -1.4F;
  values[64] = -0.25F;
  const QuantizedShape shape{Quantization::NF4, 5, 13};
  const Words words = quantized(shape, values);
  EXPECT_EQ(scaleOf(words, 0), 2);
  EXPECT_EQ(scaleOf(words, 1), 0.25F);
  EXPECT_EQ(byteAt(shape, words, 0), 0xf0);
  EXPECT_EQ(byteAt(shape, words, 1), 0x87);
  EXPECT_EQ(byteAt(shape, words, 2), 0x77);
  EXPECT_EQ(byteAt(shape, words, 31), 0x71);
  EXPECT_EQ(byteAt(shape, words, 32), 0x00); // the code of -1, and nothing
  const Numbers back = expanded(shape, words);
  EXPECT_EQ(back[0], 2);
  EXPECT_EQ(back[1], -2);
  EXPECT_FLOAT_EQ(back[2], 0.15916059851F);
  EXPECT_EQ(back[3], 0);
  EXPECT_FLOAT_EQ(back[63], -1.3923856F);
  EXPECT_EQ(back[64], -0.25F);
}

TEST(QuantizedMatrix, IsWhatTheDefinitionSays) {
  unsigned seed = 0;
  for (Quantization kind : {Quantization::Int8, Quantization::NF4})
    for (auto [rows, cols] : {std::pair{1, 1},
                              {1, 63},
                              {1, 64},
                              {1, 65},
                              {3, 1},
                              {7, 9},
                              {5, 64},
                              {64, 116},
                              {129, 67}}) {
      const QuantizedShape shape{kind, rows, cols};
      Numbers values = randomNumbers(static_cast<size_t>(shape.elements()), ++seed);
      if (rows > 3)
        std::fill_n(values.begin() + cols, 2 * cols, 0.0F);
      const Numbers got = expanded(shape, quantized(shape, values)), want = naive(shape, values);
      // The levels as published have been rounded on the way; the largest numbers are about 2.
      const double tolerance = kind == Quantization::NF4 ? 1e-6 : 0;
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(got[i], want[i], tolerance)
            << nameOf(kind) << " " << rows << " x " << cols << ", element " << i;
    }
}

TEST(QuantizedMatrix, PiecesAndWindowsAreThoseOfTheWhole) {
  std::mt19937 random(3);
  for (Quantization kind : {Quantization::Int8, Quantization::NF4}) {
    const QuantizedShape shape{kind, 11, 45};
    const Numbers values = randomNumbers(static_cast<size_t>(shape.elements()), 9);
    const Words whole = quantized(shape, values);
    Words pieces(whole.size(), -1);
    for (int64_t first = 0; first < shape.elements(); first += 2 * shape.step()) {
      const auto count = std::min(2 * shape.step(), shape.elements() - first);
      EXPECT_EQ(quantize(shape, first, std::span(values).subspan(first, count), pieces.data()), -1);
    }
    EXPECT_EQ(whole, pieces);
    const Numbers all = expanded(shape, whole);
    for (int i = 0; i < 200; ++i) {
      MatrixWindow window;
      window.row = random() % 11, window.col = random() % 45;
      window.rows = random() % (12 - window.row), window.cols = random() % (46 - window.col);
      Numbers part(static_cast<size_t>(window.rows * (window.cols + 3)), -7.0F);
      dequantize(shape, whole.data(), window, part.data(), window.cols + 3);
      for (int64_t r = 0; r < window.rows; ++r)
        for (int64_t c = 0; c < window.cols + 3; ++c)
          ASSERT_EQ(part[r * (window.cols + 3) + c],
                    c < window.cols ? all[(window.row + r) * 45 + window.col + c] : -7.0F);
    }
  }
}

TEST(QuantizedMatrix, FindsNumbersThatAreNotFinite) {
  for (Quantization kind : {Quantization::Int8, Quantization::NF4})
    for (float bad : {NAN, INFINITY, -INFINITY}) {
      const QuantizedShape shape{kind, 2, 5};
      Numbers values(10, 1.0F);
      values[7] = bad;
      Words words(static_cast<size_t>(shape.words()));
      EXPECT_EQ(quantize(shape, 0, values, words.data()), 7);
    }
}

TEST(QuantizedMatrix, NumbersThatAreTooSmallForAScaleAreZero) {
  const float least = std::numeric_limits<float>::denorm_min();
  const QuantizedShape shape{Quantization::Int8, 1, 2};
  EXPECT_EQ(expanded(shape, quantized(shape, {least, -least})), (Numbers{0, 0}));
}

TEST(QuantizedMatrix, KindsHaveNames) {
  EXPECT_EQ(quantizationNamed("int8"), Quantization::Int8);
  EXPECT_EQ(quantizationNamed("nf4"), Quantization::NF4);
  EXPECT_FALSE(quantizationNamed("none"));
  EXPECT_FALSE(quantizationNamed("fp4"));
}

} // namespace
