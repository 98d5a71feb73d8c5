// Adapters in PEFT's folder, and in the weights.
#include "runtime/checkpoint/AdapterFolder.h"
#include "runtime/checkpoint/MergedWeights.h"
#include "runtime/checkpoint/TensorBytes.h"
#include "test/support/TemporaryFolder.h"
#include "test/unit/runtime/checkpoint/Ranks.h"
#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace omnibal::rt;
using namespace omnibal::test;
namespace fs = std::filesystem;

namespace {

/// Layers "p" [2, 3] and "t" [3, 2], which the checkpoint has as [in, out], with adapters of
/// rank 2.
class AdapterFolder : public testing::Test {
protected:
  void SetUp() override {
    adapters.rank = 2;
    adapters.alpha = 1; // the scale is 1/2
    adapters.linears = {{"p.weight", "model.p", "p.lora_A.weight", "p.lora_B.weight", false},
                        {"t.weight", "model.t", "t.lora_A.weight", "t.lora_B.weight", true}};
    adapters.saved = {{"n.weight", "model.n"}};
    shapes = {{"p.lora_A.weight", {2, 3}},
              {"p.lora_B.weight", {2, 2}},
              {"t.lora_A.weight", {2, 3}},
              {"t.lora_B.weight", {2, 2}},
              {"n.weight", {2}}};
  }
  /// A folder of a model, in which W counts from 1.
  TensorFiles writeModel(const std::string &path) {
    fs::create_directories(path);
    const std::vector<TensorHeader> headers = {{"n.weight", StoredType::F32, {2}},
                                               {"p.weight", StoredType::F32, {2, 3}},
                                               {"t.weight", StoredType::F32, {3, 2}}};
    auto writer = SafetensorsWriter::create(path + "/model.safetensors", headers);
    const float counted[] = {1, 2, 3, 4, 5, 6};
    for (size_t elements : {2, 6, 6})
      EXPECT_TRUE(writer->append(counted, elements * sizeof(float)));
    EXPECT_TRUE(writer->finish());
    return *TensorFiles::open(path);
  }
  NamedTensor tensor(const std::string &name, float *values, bool transposed = false) {
    return {name, shapes.at(name), values, transposed};
  }
  std::vector<NamedTensor> all() {
    return {tensor("p.lora_A.weight", a), tensor("p.lora_B.weight", b),
            tensor("t.lora_A.weight", a), tensor("t.lora_B.weight", b), tensor("n.weight", n)};
  }
  std::vector<float> read(const TensorFiles &files, const std::string &name) {
    const StoredTensor *stored = files.find(name);
    if (!stored)
      return {};
    std::vector<float> values(size_t(stored->elements));
    EXPECT_TRUE(convertTensor(*stored, DType::F32, values.data()));
    return values;
  }

  Adapters adapters;
  ParameterShapes shapes;
  float a[6] = {1, 2, 3, 10, 20, 30}, b[4] = {2, 0, 4, 6}, n[2] = {7, 8};
  TemporaryFolder folder;
};

TEST_F(AdapterFolder, MergesInBothOrientations) {
  const TensorFiles source = writeModel(folder / "model");
  // B A = [[2, 4, 6], [64, 128, 192]], of which half is added.
  float transposedA[6] = {1, 10, 2, 20, 3, 30}; // as an arena may hold it
  std::vector<NamedTensor> mine = all();
  mine[0] = tensor("p.lora_A.weight", transposedA, true);
  auto merged = MergedWeights::of(adapters, source, mine);
  ASSERT_TRUE(merged) << merged.status().message();
  ASSERT_EQ(merged->tensors().size(), 3u);
  const std::vector<std::vector<float>> expected = {{1 + 1, 2 + 2, 3 + 3, 4 + 32, 5 + 64, 6 + 96},
                                                    {1 + 1, 2 + 32, 3 + 2, 4 + 64, 5 + 3, 6 + 96}};
  for (size_t i = 0; i < 2; ++i) {
    const NamedTensor &tensor = merged->tensors()[i];
    EXPECT_EQ(tensor.name, adapters.linears[i].weight);
    EXPECT_TRUE(withHostCopy(tensor, [&](const NamedTensor &here) {
      EXPECT_EQ(std::vector<float>(here.data, here.data + 6), expected[i]) << here.name;
      return Status::ok();
    }));
  }
  EXPECT_EQ(merged->tensors()[2].name, "n.weight");
  EXPECT_EQ(mergedNames(adapters), (std::vector<std::string>{"p.weight", "t.weight", "n.weight"}));
}

TEST_F(AdapterFolder, MergedRowsHaveTheirMagnitudes) {
  const TensorFiles source = writeModel(folder / "model");
  adapters.dora = true;
  float magnitudes[] = {14, 3};
  std::vector<NamedTensor> mine = all();
  for (LinearAdapter &linear : adapters.linears) {
    linear.magnitude = linear.module.substr(6) + ".lora_magnitude_vector";
    shapes[linear.magnitude] = {2};
    mine.push_back(tensor(linear.magnitude, magnitudes));
  }
  auto merged = MergedWeights::of(adapters, source, mine);
  ASSERT_TRUE(merged) << merged.status().message();
  ASSERT_EQ(merged->tensors().size(), 3u);
  // Rows of W + B A / 2 as above; of the transposed one these are columns.
  const float rows[2][2][3] = {{{2, 4, 6}, {36, 69, 102}}, {{2, 5, 8}, {34, 68, 102}}};
  for (size_t i = 0; i < 2; ++i)
    EXPECT_TRUE(withHostCopy(merged->tensors()[i], [&](const NamedTensor &here) {
      for (size_t o = 0; o < 2; ++o) {
        const float *row = rows[i][o];
        const double norm = std::hypot(row[0], row[1], row[2]);
        for (size_t k = 0; k < 3; ++k)
          EXPECT_NEAR(here.data[i == 0 ? o * 3 + k : k * 2 + o], magnitudes[o] * row[k] / norm,
                      1e-5)
              << here.name << " " << o << " " << k;
      }
      return Status::ok();
    }));
  // Without its magnitude an adapter is not merged.
  mine.pop_back();
  EXPECT_EQ(MergedWeights::of(adapters, source, mine)->tensors()[0].name, "p.weight");
  EXPECT_EQ(MergedWeights::of(adapters, source, mine)->tensors().size(), 4u);
}

TEST_F(AdapterFolder, ARankMergesWhatItHas) {
  const TensorFiles source = writeModel(folder / "model");
  const std::vector<NamedTensor> mine = {all()[2], all()[3]};
  auto merged = MergedWeights::of(adapters, source, mine);
  ASSERT_TRUE(merged);
  ASSERT_EQ(merged->tensors().size(), 1u);
  EXPECT_EQ(merged->tensors()[0].name, "t.weight");
  adapters.linears[1].inOut = false;
  auto wrong = MergedWeights::of(adapters, source, mine);
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.status().message().find("of another shape"), std::string::npos);
}

TEST_F(AdapterFolder, RanksWriteOneFolderThatIsReadAgain) {
  const TensorFiles source = writeModel(folder / "models--some--model-b/snapshots/0123abcd");
  const std::string to = folder / "out";
  fs::create_directories(to);
  std::vector<std::string> notices;
  auto results = runRanks(2, [&](int rank, const Agreement &agree) {
    std::vector<NamedTensor> mine;
    for (const NamedTensor &tensor : all())
      if ((tensor.name[0] == 'p') == (rank == 0))
        mine.push_back(tensor);
    std::vector<std::string> own;
    Status status = saveAdapterFolder({to}, adapters, shapes, source, mine, rank == 0, agree, own);
    if (rank == 0)
      notices = own;
    return status;
  });
  for (const Status &status : results)
    ASSERT_TRUE(status) << status.message();
  EXPECT_TRUE(notices.empty());
  auto saved = openAdapterFolder(to, adapters, {});
  ASSERT_TRUE(saved) << saved.status().message();
  EXPECT_EQ(saved->names().size(), 5u);
  EXPECT_EQ(read(*saved, "base_model.model.model.p.lora_A.weight"), std::vector<float>(a, a + 6));
  EXPECT_EQ(read(*saved, "base_model.model.model.t.lora_B.weight"), std::vector<float>(b, b + 4));
  EXPECT_EQ(read(*saved, "base_model.model.model.n.weight"), std::vector<float>(n, n + 2));
  const auto config = nlohmann::json::parse(readFile(to + "/adapter_config.json"));
  EXPECT_EQ(config["base_model_name_or_path"], "some/model-b");
  EXPECT_EQ(config["revision"], "0123abcd");
  EXPECT_EQ(config["target_modules"], nlohmann::json({"model.p", "model.t"}));
  EXPECT_EQ(config["modules_to_save"], nlohmann::json({"model.n"}));
  EXPECT_EQ(config["lora_alpha"], 1);
}

TEST_F(AdapterFolder, NoNumberIsLostToTheRangeOfFloat16) {
  const TensorFiles source = writeModel(folder / "model");
  const std::string to = folder / "out";
  fs::create_directories(to);
  std::vector<std::string> notices;
  n[1] = 1e6;
  ASSERT_TRUE(saveAdapterFolder({to, StoredType::F16}, adapters, shapes, source, all(), true,
                                agreeAlone, notices));
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("\"n.weight\" holds 1000000"), std::string::npos) << notices[0];
  auto saved = openAdapterFolder(to, adapters, {});
  ASSERT_TRUE(saved);
  EXPECT_EQ(read(*saved, "base_model.model.model.n.weight"), std::vector<float>(n, n + 2));
}

} // namespace
