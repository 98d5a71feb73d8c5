// Where magnitudes begin: norms of rows as kernels read them, however the checkpoint has the
// weight.
#include "runtime/executor/MagnitudeStart.h"
#include "runtime/support/BFloat16.h"
#include "runtime/support/QuantizedMatrix.h"
#include "test/support/TemporaryFolder.h"
#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>
#include <random>

namespace omnibal::rt {
namespace {

constexpr int64_t out = 70, in = 1100, rank = 2;

class MagnitudeStart : public testing::Test {
protected:
  MagnitudeStart() : weight(out * in), a(rank * in), b(out * rank) {
    adapters.rank = rank;
    adapters.alpha = 3; // the scale is 1.5
    adapters.dora = true;
    adapters.linears = {{"l.weight", "l", "l.lora_A.weight", "l.lora_B.weight", false, "l.m"}};
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (std::vector<float> *values : {&weight, &a, &b})
      for (float &value : *values)
        value = normal(random);
    parameter.name = "l.weight";
    parameter.shape = {out, in};
    parameter.trainable = false;
  }

  /// The weight in the file as [in, out].
  void turn() {
    adapters.linears[0].inOut = true;
    parameter.shape = {in, out};
    stored.resize(weight.size());
    for (int64_t o = 0; o < out; ++o)
      for (int64_t i = 0; i < in; ++i)
        stored[size_t(i * out + o)] = weight[size_t(o * in + i)];
  }

  Result<std::vector<float>> fresh(bool withAdapter = false, const std::string &name = "l.m") {
    std::vector<TensorHeader> headers = {{"l.weight", StoredType::F32, parameter.shape}};
    if (withAdapter) {
      headers.push_back({"l.lora_A.weight", StoredType::F32, {rank, in}});
      headers.push_back({"l.lora_B.weight", StoredType::F32, {out, rank}});
    }
    const std::string path = folder / "model.safetensors";
    auto writer = SafetensorsWriter::create(path, headers);
    const std::vector<float> &whole = stored.empty() ? weight : stored;
    EXPECT_TRUE(writer->append(whole.data(), whole.size() * sizeof(float)));
    for (const std::vector<float> *values : {&a, &b})
      if (withAdapter)
        EXPECT_TRUE(writer->append(values->data(), values->size() * sizeof(float)));
    EXPECT_TRUE(writer->finish());
    auto files = TensorFiles::open(path);
    EXPECT_TRUE(files) << files.status().message();
    Stage stage;
    stage.parameters = {parameter};
    const AdapterStart start;
    return freshMagnitude(adapters, stage, name, FirstValues(*files, adapters, start), 0);
  }

  /// `numbers` [out, in], plus 1.5 B A with an adapter.
  void expectNorms(const Result<std::vector<float>> &found, const std::vector<float> &numbers,
                   bool withAdapter = false) {
    ASSERT_TRUE(found) << found.status().message();
    ASSERT_EQ(found->size(), size_t(out));
    for (int64_t o = 0; o < out; ++o) {
      double sum = 0;
      for (int64_t i = 0; i < in; ++i) {
        double value = numbers[size_t(o * in + i)];
        for (int64_t r = 0; r < rank && withAdapter; ++r)
          value += 1.5 * b[size_t(o * rank + r)] * a[size_t(r * in + i)];
        sum += value * value;
      }
      EXPECT_NEAR((*found)[size_t(o)], std::sqrt(sum), 1e-7 * std::sqrt(sum)) << o;
    }
  }

  Adapters adapters;
  Parameter parameter;
  std::vector<float> weight, stored, a, b;
  omnibal::test::TemporaryFolder folder;
};

TEST_F(MagnitudeStart, NormsOfRows) { expectNorms(fresh(), weight); }

TEST_F(MagnitudeStart, NormsOfColumnsWhereTheseAreOutputs) {
  turn();
  expectNorms(fresh(), weight);
  expectNorms(fresh(true), weight, true);
}

TEST_F(MagnitudeStart, AdaptersInTheFileCount) { expectNorms(fresh(true), weight, true); }

TEST_F(MagnitudeStart, RoundedAsTheWeight) {
  parameter.dtype = DType::BF16;
  std::vector<float> rounded(weight);
  for (float &value : rounded)
    value = BFloat16::fromFloat(value).toFloat();
  expectNorms(fresh(), rounded);
}

TEST_F(MagnitudeStart, WhatCodesStandFor) {
  for (Quantization kind : {Quantization::Int8, Quantization::NF4}) {
    const QuantizedShape shape{kind, out, in};
    std::vector<int32_t> words(size_t(shape.words()));
    ASSERT_EQ(quantize(shape, 0, weight, words.data()), -1);
    std::vector<float> numbers(weight.size());
    dequantize(shape, words.data(), {0, 0, out, in}, numbers.data(), in);
    parameter.quantization = kind;
    parameter.dtype = DType::I32;
    parameter.shape = {out, in};
    parameter.transposed = false;
    stored.clear();
    adapters.linears[0].inOut = false;
    expectNorms(fresh(), numbers);
    turn();
    parameter.transposed = true;
    expectNorms(fresh(), numbers);
  }
}

TEST_F(MagnitudeStart, ARowOfZerosHasNoDirection) {
  std::fill_n(weight.begin() + 5 * in, in, 0.f);
  auto found = fresh();
  ASSERT_FALSE(found);
  EXPECT_NE(found.status().message().find("parameter \"l.weight\": the norm of row 5 is 0"),
            std::string::npos)
      << found.status().message();
  expectNorms(fresh(true), weight, true);
}

TEST_F(MagnitudeStart, OtherParametersHaveNone) {
  EXPECT_TRUE(fresh(false, "l.lora_A.weight")->empty());
  adapters.dora = false;
  EXPECT_TRUE(fresh(false, "l.m")->empty());
}

} // namespace
} // namespace omnibal::rt
