// Tensors of checkpoints as quantized matrices: as they lie there, transposed, and in other types.
#include "runtime/executor/QuantizedLoad.h"
#include "runtime/executor/AdapterStart.h"
#include "runtime/support/BFloat16.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace omnibal::rt {
namespace {

std::vector<float> randomNumbers(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float &value : values)
    value = BFloat16::fromFloat(normal(random)).toFloat(); // so that bfloat16 loses nothing
  return values;
}

Parameter parameterOf(Quantization kind, std::vector<int64_t> shape, bool transposed) {
  Parameter q;
  q.name = "weight";
  q.dtype = DType::I32;
  q.shape = std::move(shape);
  q.trainable = false;
  q.transposed = transposed;
  q.quantization = kind;
  return q;
}

std::vector<int32_t> load(const StoredTensor &tensor, const Parameter &q) {
  std::vector<int32_t> words(static_cast<size_t>(q.dataBytes() / 4), -1);
  Status status = loadQuantized(tensor, q, reinterpret_cast<std::byte *>(words.data()));
  EXPECT_TRUE(status) << status.message();
  return words;
}

constexpr Quantization kinds[] = {Quantization::Int8, Quantization::NF4};

TEST(QuantizedLoad, PiecesOfLargeMatricesAreThoseOfTheWhole) {
  for (Quantization kind : kinds)
    for (auto [rows, cols] : {std::pair<int64_t, int64_t>{700, 301}, {3, 70000}, {140000, 1}}) {
      const std::vector<float> values = randomNumbers(rows * cols, 1);
      const Parameter q = parameterOf(kind, {rows, cols}, false);
      std::vector<int32_t> want(static_cast<size_t>(q.dataBytes() / 4));
      ASSERT_EQ(quantize({kind, rows, cols}, 0, values, want.data()), -1);
      EXPECT_EQ(load(viewOf("weight", q.shape, values), q), want) << rows << " x " << cols;
    }
}

TEST(QuantizedLoad, ACheckpointMayHaveInputsFirst) {
  const std::vector<float> values = randomNumbers(37 * 21, 2);
  std::vector<float> turned(values.size());
  for (int64_t i = 0; i < 37; ++i)
    for (int64_t j = 0; j < 21; ++j)
      turned[j * 37 + i] = values[i * 21 + j];
  for (Quantization kind : kinds) {
    const Parameter given = parameterOf(kind, {37, 21}, true);
    EXPECT_EQ(given.quantizedShape(), (QuantizedShape{kind, 21, 37}));
    EXPECT_EQ(load(viewOf("weight", {37, 21}, values), given),
              load(viewOf("weight", {21, 37}, turned), parameterOf(kind, {21, 37}, false)));
  }
}

TEST(QuantizedLoad, TheTypeInTheCheckpointDoesNotMatter) {
  const std::vector<float> values = randomNumbers(30 * 50, 3);
  std::vector<BFloat16> halves;
  for (float value : values)
    halves.push_back(BFloat16::fromFloat(value));
  StoredTensor stored = viewOf("weight", {30, 50}, values);
  StoredTensor half = stored;
  half.dtype = StoredType::BF16;
  half.data = reinterpret_cast<const std::byte *>(halves.data());
  half.bytes = stored.bytes / 2;
  for (Quantization kind : kinds) {
    const Parameter q = parameterOf(kind, {30, 50}, false);
    EXPECT_EQ(load(stored, q), load(half, q));
  }
}

TEST(QuantizedLoad, NamesTheTensorAndThePlaceOfANumberThatIsNotFinite) {
  for (Quantization kind : kinds)
    for (bool transposed : {false, true}) {
      std::vector<float> values = randomNumbers(300 * 400, 4);
      values[123 * 400 + 17] = NAN;
      const Parameter q = parameterOf(kind, {300, 400}, transposed);
      std::vector<int32_t> words(static_cast<size_t>(q.dataBytes() / 4));
      const Status status = loadQuantized(viewOf("tower.weight", q.shape, values), q,
                                          reinterpret_cast<std::byte *>(words.data()));
      ASSERT_FALSE(status);
      EXPECT_NE(status.message().find("tower.weight"), std::string::npos) << status.message();
      EXPECT_NE(status.message().find("row 123, column 17 is nan"), std::string::npos)
          << status.message();
    }
}

} // namespace
} // namespace omnibal::rt
