// Buckets of gradients: filled in the order in which backward completes them, summed right there.
#include "passes/schedule/GradientBuckets.h"
#include <gtest/gtest.h>

namespace omnibal::schedule {
namespace {

using rt::ActionKind;

/// Layers 0, 1, 2, ... with a parameter of 4 * sizes[i] bytes each, all in one chunk a list names.
rt::Stage makeStage(const std::vector<int64_t> &sizes,
                    const std::vector<std::vector<int>> &chunks) {
  rt::Stage stage;
  for (int64_t size : sizes) {
    rt::Parameter &q = stage.parameters.emplace_back();
    q.name = "p" + std::to_string(stage.parameters.size() - 1);
    q.shape = {size};
  }
  rt::Mode &mode = stage.modes["train"];
  for (const std::vector<int> &layers : chunks) {
    rt::Chunk &chunk = mode.chunks.emplace_back();
    for (size_t i = layers.size(); i-- > 0;) // backward
      chunk.backward.push_back(
          {"layer",
           0,
           {{rt::Space::Parameter, layers[i], {}}, {rt::Space::Gradient, layers[i], {}}}});
  }
  return stage;
}

std::vector<std::vector<int32_t>> buckets(const rt::Stage &stage) {
  std::vector<std::vector<int32_t>> list;
  for (const rt::Bucket &bucket : stage.buckets)
    list.push_back(bucket.parameters);
  return list;
}

/// "B1.0" is the backward of micro-batch 1 in chunk 0, "R2" the sum of bucket 2.
std::string actions(const rt::Stage &stage, const char *mode = "train") {
  std::string text;
  for (const rt::Action &a : stage.modes.at(mode).actions) {
    const char *names[] = {"F",    "B", "I", "W",       "post", "recv", "send",
                           "sent", "S", "R", "scatter", "N",    "U",    "gather"};
    text += (text.empty() ? "" : " ") + std::string(names[static_cast<size_t>(a.kind)]) +
            (a.kind == ActionKind::Backward
                 ? std::to_string(a.microbatch) + "." + std::to_string(a.index)
             : a.kind == ActionKind::ReduceGradients ? std::to_string(a.index)
                                                     : "");
  }
  return text;
}

TEST(GradientBuckets, LastLayersComeFirst) {
  rt::Stage stage = makeStage({10, 20, 30, 40}, {{0, 1, 2, 3}});
  stage.parameters[2].trainable = false;
  stage.modes["train"].actions = {{ActionKind::Backward, 0, 0}, {ActionKind::Backward, 1, 0},
                                  {ActionKind::Send, 1, 0},     {ActionKind::PostRecv, 1, 1},
                                  {ActionKind::WaitSend, 1, 0}, {ActionKind::ReduceGradients},
                                  {ActionKind::ReduceScalars},  {ActionKind::Update}};
  placeGradientBuckets(stage, 4 * 30);
  EXPECT_EQ(buckets(stage), (std::vector<std::vector<int32_t>>{{3}, {1, 0}}));
  // Behind the messages that wait for nothing, before anything that waits.
  EXPECT_EQ(actions(stage), "B0.0 B1.0 send post R0 R1 sent N U");
}

TEST(GradientBuckets, EachChunkWhenItIsOver) {
  rt::Stage stage = makeStage({10, 10, 10, 10}, {{0, 1}, {2, 3}});
  stage.modes["train"].actions = {{ActionKind::Backward, 0, 1},  {ActionKind::Backward, 1, 1},
                                  {ActionKind::Backward, 0, 0},  {ActionKind::Backward, 1, 0},
                                  {ActionKind::ReduceGradients}, {ActionKind::ReduceScalars},
                                  {ActionKind::Update}};
  placeGradientBuckets(stage, 4 * 20);
  EXPECT_EQ(buckets(stage), (std::vector<std::vector<int32_t>>{{3, 2}, {1, 0}}));
  EXPECT_EQ(actions(stage), "B0.1 B1.1 R0 B0.0 B1.0 R1 N U");
}

TEST(GradientBuckets, SharedParametersWaitForTheirCopies) {
  rt::Stage stage = makeStage({10, 10}, {{0, 1}});
  stage.parameters[1].sharedGroup = 0;
  stage.modes["train"].actions = {{ActionKind::Backward, 0, 0},
                                  {ActionKind::ReduceShared},
                                  {ActionKind::ReduceGradients},
                                  {ActionKind::ReduceScalars},
                                  {ActionKind::Update}};
  placeGradientBuckets(stage, 1000);
  EXPECT_EQ(buckets(stage), (std::vector<std::vector<int32_t>>{{0}, {1}}));
  EXPECT_EQ(actions(stage), "B0.0 R0 S R1 N U");
}

TEST(GradientBuckets, OtherModesSumTheSameBucketsInTheirOwnOrder) {
  rt::Stage stage = makeStage({10, 10, 10, 10}, {{0, 1}, {2, 3}});
  auto list = [](std::vector<rt::Action> actions) {
    for (ActionKind kind :
         {ActionKind::ReduceGradients, ActionKind::ReduceScalars, ActionKind::Update})
      actions.push_back({kind});
    return actions;
  };
  stage.modes["train.1"] = stage.modes["train.2"] = stage.modes["train"];
  stage.modes["train"].actions = list({{ActionKind::Backward, 0, 1}, {ActionKind::Backward, 0, 0}});
  // The chunks in the other order, and all of the first chunk's backwards behind one of the second.
  stage.modes["train.1"].actions =
      list({{ActionKind::Backward, 0, 0}, {ActionKind::Backward, 0, 1}});
  stage.modes["train.2"].actions = list({{ActionKind::Backward, 0, 1},
                                         {ActionKind::Backward, 0, 0},
                                         {ActionKind::Backward, 1, 1},
                                         {ActionKind::Backward, 1, 0}});
  placeGradientBuckets(stage, 4 * 20);
  EXPECT_EQ(buckets(stage), (std::vector<std::vector<int32_t>>{{3, 2}, {1, 0}}));
  EXPECT_EQ(actions(stage), "B0.1 R0 B0.0 R1 N U");
  EXPECT_EQ(actions(stage, "train.1"), "B0.0 R1 B0.1 R0 N U");
  EXPECT_EQ(actions(stage, "train.2"), "B0.1 B0.0 B1.1 R0 B1.0 R1 N U");
}

TEST(GradientBuckets, OneReplicaSumsNothing) {
  rt::Stage stage = makeStage({10}, {{0}});
  stage.modes["train"].actions = {
      {ActionKind::Backward, 0, 0}, {ActionKind::ReduceScalars}, {ActionKind::Update}};
  placeGradientBuckets(stage, 1000);
  EXPECT_EQ(actions(stage), "B0.0 N U");
}

} // namespace
} // namespace omnibal::schedule
