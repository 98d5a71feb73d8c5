// A rank's feeder reads its replica's samples only, and reads them before they are needed.
#include "runtime/data/DataLoader.h"
#include "runtime/executor/ExecutorInternal.h"
#include "runtime/support/Safetensors.h"
#include "test/unit/runtime/data/TestTar.h"
#include "test/unit/runtime/program/TinyProgram.h"
#include <future>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <thread>

namespace omnibal::rt {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr int64_t samples = 24, replicas = 2, microbatches = 2;

class DataLoaderTest : public testing::Test {
protected:
  /// Sample i has i + 1 tokens; those of `broken` cannot be read.
  void open(const std::function<bool(int64_t)> &broken) {
    std::vector<std::pair<std::string, std::string>> members;
    for (int64_t i = 0; i < samples; ++i) {
      json sample = {{"input_ids", std::vector<int>(i % 5 + 1, 1)},
                     {"labels", std::vector<int>(i % 5 + 1, 1)}};
      members.push_back({"k" + std::to_string(i) + ".json", broken(i) ? "{" : sample.dump()});
    }
    test::writeFile(folder / "d.tar", test::makeTar(members));
    dataset = *Dataset::open({folder / "d.tar"});
  }
  /// Two samples a group, one after the other: group g holds 2 g and 2 g + 1.
  std::unique_ptr<DataLoader> feeder(int32_t replica, Compose compose = nullptr,
                                     std::optional<int64_t> stepsAhead = std::nullopt) {
    Batches batches;
    batches.offsets.push_back(0);
    for (int64_t i = 0; i < samples; ++i) {
      batches.samples.push_back(i);
      if (i % 2 == 1)
        batches.offsets.push_back(i + 1);
    }
    DataLoaderOptions options;
    options.shapes = {{microbatches, program.caps()}};
    options.replica = replica;
    options.pixels = false;
    options.stepsAhead = stepsAhead;
    options.lastStep = samples / 2 / replicas / microbatches + (compose ? 1 : 0);
    return std::make_unique<DataLoader>(
        dataset, *Preprocess::parse("{}", ""), program,
        StepSource::create(std::move(batches), {microbatches, replicas}, std::move(compose)),
        options);
  }
  static bool isOf(int64_t sample, int64_t replica) { return sample / 2 % replicas == replica; }

  test::TemporaryFolder folder;
  std::shared_ptr<const Dataset> dataset;
  Program program = tinyProgram({1, microbatches, replicas, false});
};

TEST_F(DataLoaderTest, OnlyTheReplicasOwnSamplesAreRead) {
  for (int32_t replica : {0, 1}) {
    open([&](int64_t i) { return !isOf(i, replica); });
    auto mine = feeder(replica);
    int64_t read = 0;
    for (int step = 0; step < 3; ++step) {
      for (int32_t m = 0; m < microbatches; ++m) {
        auto batch = mine->get(m);
        ASSERT_TRUE(batch) << batch.status().message();
        int64_t group = (step * microbatches + m) * replicas + replica;
        EXPECT_EQ((*batch)->tokens, 2 * group % 5 + 1 + (2 * group + 1) % 5 + 1);
        read += 2;
      }
      mine->nextStep();
    }
    EXPECT_EQ(mine->counters().samples, read);
    EXPECT_EQ(read, samples / replicas);
  }
}

TEST_F(DataLoaderTest, TheNextStepsAreReadWhileOneRuns) {
  open([](int64_t) { return false; });
  auto mine = feeder(0);
  // Nothing is taken at all, and yet the samples of the steps ahead get read.
  auto begin = std::chrono::steady_clock::now();
  while (mine->counters().samples < samples / replicas &&
         std::chrono::steady_clock::now() - begin < 60s)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(mine->counters().samples, samples / replicas);
}

TEST_F(DataLoaderTest, AsManyStepsAreReadAheadAsWanted) {
  constexpr int64_t ofStep = 2 * microbatches;
  for (int64_t ahead : {0, 1, 2}) {
    open([](int64_t) { return false; });
    auto mine = feeder(0, nullptr, ahead);
    for (int64_t step = 0; step < 3; ++step) {
      const int64_t wanted = std::min<int64_t>(3, step + 1 + ahead) * ofStep;
      const auto begin = std::chrono::steady_clock::now();
      while (mine->counters().samples < wanted && std::chrono::steady_clock::now() - begin < 60s)
        std::this_thread::sleep_for(1ms);
      std::this_thread::sleep_for(20ms); // nor more than these
      EXPECT_EQ(mine->counters().samples, wanted) << ahead << " ahead of step " << step;
      for (int32_t m = 0; m < microbatches; ++m)
        ASSERT_TRUE(mine->get(m));
      mine->nextStep();
    }
  }
}

TEST_F(DataLoaderTest, AStepDoesNotWaitForTheNextEpochsComposition) {
  open([](int64_t) { return false; });
  std::promise<void> gate;
  auto opened = gate.get_future().share();
  auto mine = feeder(1, [&, opened](int64_t) -> Result<EpochGroups> {
    opened.wait();
    Batches batches;
    batches.samples = {5, 7};
    batches.offsets = {0, 1, 2};
    return EpochGroups(batches);
  });
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(mine->position().epoch, 0);
    for (int32_t m = 0; m < microbatches; ++m)
      ASSERT_TRUE(mine->get(m));
    mine->nextStep();
  }
  EXPECT_EQ(mine->position().epoch, 1);
  EXPECT_EQ(mine->position().firstStep, 3);
  gate.set_value();
  auto batch = mine->get(0);
  ASSERT_TRUE(batch) << batch.status().message();
  EXPECT_EQ((*batch)->tokens, 7 % 5 + 1);
  batch = mine->get(1); // the filled end of the epoch
  ASSERT_TRUE(batch);
  EXPECT_EQ((*batch)->tokens, 0);
}

/// Steps of two modes: two short micro-batches, or one that may be longer.
TEST_F(DataLoaderTest, StepsHaveTheMicrobatchesAndCapsOfTheirMode) {
  open([](int64_t) { return false; });
  program = {};
  program.info.vocabulary = tinyVocabulary;
  program.trainModes = {{"short", 0, 6, 1, 2, "1f1b"}, {"long", 0, 12, 1, 1, "1f1b"}};
  EpochGroups epoch;
  epoch.batches.samples = {0, 1, 3, 2, 4, 8, 0, 9};
  epoch.batches.offsets = {0, 2, 3, 6, 7, 8};
  epoch.modes = {0, 1, 0};
  epoch.firstRows = {0, 2, 3, 4};
  auto load = [&](EpochGroups groups) {
    DataLoaderOptions options;
    options.shapes = trainShapes(program);
    options.pixels = false;
    options.lastStep = 5;
    return std::make_unique<DataLoader>(dataset, *Preprocess::parse("{}", ""), program,
                                        StepSource::create(std::move(groups), {1, 1}), options);
  };
  auto feeder = load(epoch);
  const std::vector<size_t> modes = {0, 1, 0, 0, 1}; // the list begins again
  const std::vector<std::vector<int64_t>> tokens = {{3, 4}, {12}, {1, 0}, {3, 4}, {12}};
  for (size_t step = 0; step < modes.size(); ++step) {
    ASSERT_TRUE(feeder->mode());
    EXPECT_EQ(*feeder->mode(), modes[step]) << step;
    for (size_t m = 0; m < tokens[step].size(); ++m) {
      auto batch = feeder->get(static_cast<int32_t>(m));
      ASSERT_TRUE(batch) << batch.status().message();
      EXPECT_EQ((*batch)->tokens, tokens[step][m]) << step << ", " << m;
    }
    feeder->nextStep();
  }
  // What the long mode holds is too much for the short one.
  epoch.modes = {0, 0, 0};
  feeder = load(epoch);
  ASSERT_TRUE(feeder->get(1));
  feeder->nextStep();
  auto refused = feeder->get(0);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.status().message().find("12 tokens"), std::string::npos)
      << refused.status().message();
  EXPECT_NE(refused.status().message().find("6"), std::string::npos);
}

/// What a model of dynamic resolution read in PyTorch, sample by sample, against what a rank is fed
/// when the samples stand side by side.
class PictureFeed : public testing::Test {
protected:
  PictureFeed() {
    program.trainModes[0].tilesCap = 1000;
    program.trainModes[0].tokensCap = 1000;
    program.info.imageTokenId = 4;
    program.info.tokensPerTile = 1;
    program.info.tileShape = {4, 96};
    program.info.vocabulary = 128;
    program.info.grid = PictureGrid{4, 2, 2, 16, 0};
    dataset = *Dataset::open({folder + "data-000000.tar"}, program.info.grid);
    DataLoaderOptions options;
    options.shapes = {{1, program.caps()}};
    options.lastStep = 1;
    Batches batches;
    batches.samples = {3, 0, 2, 1};
    batches.offsets = {0, 4};
    feeder = std::make_unique<DataLoader>(dataset,
                                          *Preprocess::read(folder + "preprocessor_config.json"),
                                          program, StepSource::create(batches, {1, 1}), options);
  }

  template <typename T> std::vector<T> read(int64_t sample, const std::string &name, DType type) {
    const StoredTensor *tensor = (*file)->find(dataset->key(sample) + "." + name);
    std::vector<T> values(tensor ? size_t(tensor->elements) : 0);
    EXPECT_TRUE(tensor && convertTensor(*tensor, type, values.data())) << name;
    return values;
  }
  /// Of the group's samples, one after the other; each one's numbers count on.
  std::vector<int32_t> joined(const std::string &name, bool counts) {
    std::vector<int32_t> all;
    int32_t first = 0;
    for (int64_t sample : {3, 0, 2, 1}) {
      int32_t next = first;
      for (int32_t value : read<int32_t>(sample, name, DType::I32)) {
        all.push_back(counts ? first + value : value);
        next = std::max(next, first + value + 1);
      }
      first = next;
    }
    return all;
  }
  /// The number of the piece that each patch lies in.
  static std::vector<int32_t> pieceOfEach(const std::vector<int32_t> &borders) {
    std::vector<int32_t> ids;
    for (size_t i = 1; i < borders.size(); ++i)
      ids.insert(ids.end(), size_t(borders[i] - borders[i - 1]), static_cast<int32_t>(i) - 1);
    return ids;
  }

  const std::string folder = OMNIBAL_TEST_DATA "/tiny-qwen2_5_vl/";
  Result<std::shared_ptr<const SafetensorsFile>> file =
      SafetensorsFile::open(folder + "forward.safetensors");
  Program program = tinyProgram({1, 1, 1, false});
  std::shared_ptr<const Dataset> dataset;
  std::unique_ptr<DataLoader> feeder;
};

TEST_F(PictureFeed, EqualsPyTorchsInputs) {
  auto batch = feeder->get(0);
  ASSERT_TRUE(batch) << batch.status().message();
  const auto &values = (*batch)->pictureInputs.integers;
  EXPECT_EQ((*batch)->inputIds, joined("input_ids", false));
  EXPECT_EQ(values.at("image_position_ids"), joined("image_position_ids", false));
  for (const char *name : {"image_window_index", "image_window_inverse"})
    EXPECT_EQ(values.at(name), joined(name, true)) << name;
  EXPECT_EQ(pieceOfEach(values.at("image_segment_cu_seqlens")), joined("image_segment_ids", true));
  EXPECT_EQ(pieceOfEach(values.at("image_window_cu_seqlens")), joined("image_window_ids", true));
  std::vector<int32_t> axes;
  for (size_t axis = 0; axis < 3; ++axis)
    for (int64_t sample : {3, 0, 2, 1}) {
      auto one = read<int32_t>(sample, "position_ids", DType::I32);
      size_t tokens = one.size() / 3;
      axes.insert(axes.end(), one.begin() + axis * tokens, one.begin() + (axis + 1) * tokens);
    }
  EXPECT_EQ(values.at("position_ids"), axes);
  std::vector<float> pixels;
  for (int64_t sample : {3, 0, 2, 1}) {
    auto one = read<float>(sample, "pixel_values", DType::F32);
    pixels.insert(pixels.end(), one.begin(), one.end());
  }
  EXPECT_EQ((*batch)->pixels, pixels);
}

TEST_F(PictureFeed, EveryValueHasTheProgramsSize) {
  auto batch = feeder->get(0);
  ASSERT_TRUE(batch) << batch.status().message();
  const int64_t rows = (*batch)->tokens + 5;
  for (const char *name :
       {"position_ids", "image_position_ids", "image_segment_cu_seqlens", "image_window_cu_seqlens",
        "image_window_index", "image_window_inverse"}) {
    auto type = pictureInput(name, *program.info.grid);
    ASSERT_TRUE(type);
    BatchValue value{name, type->dtype, type->shape, 0, 0};
    auto data = batchData(value, **batch, rows);
    ASSERT_TRUE(data) << data.status().message();
    const bool axes = std::string(name) == "position_ids"; // each with the row bucket's tokens
    EXPECT_EQ(data->lines, axes ? 3 : 1);
    EXPECT_EQ(data->bytes, axes ? 4 * (*batch)->tokens
                                : 4 * int64_t((*batch)->pictureInputs.integers.at(name).size()));
    EXPECT_EQ(data->padding, axes ? 5 : 0) << name;
  }
  BatchValue pixels{"pixel_values", DType::F32, {{0, 4, 0}, {96, 0, 0}}, 0, 0};
  EXPECT_TRUE(batchData(pixels, **batch, rows));
  BatchValue weights{"image_interp_weights", DType::F32, {{0, 4, 0}, {4, 0, 0}}, 0, 0};
  EXPECT_FALSE(batchData(weights, **batch, rows)); // the grid has no table of positions
}

} // namespace
} // namespace omnibal::rt
