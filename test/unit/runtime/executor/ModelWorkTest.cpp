// Counted by hand.
#include "runtime/executor/ModelWork.h"
#include "test/unit/runtime/executor/TinyRun.h"
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

const Extent N{0, 0, 1}, V5{0, 5, 0};
Extent fixed(int64_t n) { return {n, 0, 0}; }

View view(int32_t buffer, std::vector<Extent> shape) {
  return {buffer, {}, shape, std::vector<Extent>(shape.size(), fixed(1))};
}
Buffer buffer(Role role) { return {"b", role, DType::F32, {}, 0}; }

/// One function whose calls use buffers of these roles.
double workOf(std::vector<Role> roles, std::vector<KernelCall> calls,
              const PackedMicrobatch &batch) {
  Program program;
  Function &f = program.functions.emplace_back();
  for (Role role : roles)
    f.buffers.push_back(buffer(role));
  f.calls = std::move(calls);
  return ModelWork(program).of(0, batch);
}

PackedMicrobatch batchOf(std::vector<int64_t> borders, int64_t tiles = 0, int64_t labels = 0) {
  PackedMicrobatch batch;
  batch.borders = std::move(borders);
  batch.tokens = batch.borders.back();
  batch.tiles = tiles;
  batch.labelTokens = labels;
  return batch;
}

KernelCall product(int32_t a, int32_t b, int32_t c, Extent rows, int64_t k, int64_t n) {
  return {"gemm",
          {{"a", view(a, {rows, fixed(k)})},
           {"b", view(b, {fixed(k), fixed(n)})},
           {"c", view(c, {rows, fixed(n)})}},
          {},
          ""};
}

KernelCall attention(const char *kernel, Extent rows, nlohmann::json attributes) {
  KernelCall call{kernel,
                  {{"q", view(0, {rows, fixed(4), fixed(8)})},
                   {"k", view(1, {rows, fixed(2), fixed(8)})},
                   {"v", view(2, {rows, fixed(2), fixed(6)})}},
                  std::move(attributes),
                  ""};
  if (std::string(kernel).ends_with("attention_backward"))
    call.operands.push_back({"dout", view(3, {rows, fixed(4), fixed(6)})});
  return call;
}

const std::vector<Role> inputs = {Role::Input, Role::Input, Role::Input, Role::Output};

TEST(ModelWork, ProductsByTheirSizes) {
  EXPECT_EQ(workOf(inputs, {product(0, 1, 3, N, 7, 3)}, batchOf({0, 10})), 2.0 * 10 * 7 * 3);
  KernelCall many = product(0, 1, 3, N, 7, 3);
  for (auto &[name, v] : many.operands)
    v.shape.insert(v.shape.begin(), fixed(4));
  EXPECT_EQ(workOf(inputs, {many}, batchOf({0, 10})), 4 * 2.0 * 10 * 7 * 3);
}

/// y = x w, then dx and dw: each of the 10 x 2 rows meets the matrix [7, 3] of one expert in 8.
TEST(ModelWork, ProductsByGroupsCountRowsOnce) {
  auto grouped = [](int32_t a, Extent columnsOfA, int32_t c, Extent columnsOfC) -> KernelCall {
    return {"grouped_gemm",
            {{"a", view(a, {N, fixed(2), columnsOfA})},
             {"b", view(1, {fixed(8), columnsOfA, columnsOfC})},
             {"c", view(c, {N, fixed(2), columnsOfC})}},
            {},
            ""};
  };
  const double once = 2.0 * (10 * 2) * 7 * 3;
  EXPECT_EQ(workOf(inputs, {grouped(0, fixed(7), 3, fixed(3))}, batchOf({0, 10})), once);

  KernelCall dw{"grouped_gemm_backward",
                {{"a", view(0, {N, fixed(2), fixed(7)})},
                 {"b", view(2, {N, fixed(2), fixed(3)})},
                 {"c", view(4, {fixed(8), fixed(7), fixed(3)})}},
                {},
                ""};
  EXPECT_EQ(
      workOf({Role::Saved, Role::Parameter, Role::GradOutput, Role::GradInput, Role::ParameterGrad},
             {grouped(2, fixed(3), 3, fixed(7)), dw}, batchOf({0, 10})),
      2 * once);
}

TEST(ModelWork, AttentionByTheSegmentsItSees) {
  auto pairs = [](double work) { return work / (2.0 * 4 * (8 + 6)); };
  PackedMicrobatch batch = batchOf({0, 3, 10}, 2);
  EXPECT_EQ(pairs(workOf(inputs, {attention("attention", N, {{"mask", "full"}})}, batch)), 9 + 49);
  EXPECT_EQ(pairs(workOf(inputs, {attention("attention", N, {{"mask", "causal"}})}, batch)),
            6 + 28);
  EXPECT_EQ(pairs(workOf(inputs, {attention("attention", N, {{"mask", "sliding"}, {"window", 4}})},
                         batch)),
            6 + (1 + 2 + 3 + 4 * 4));
  EXPECT_EQ(pairs(workOf(inputs, {attention("attention", V5, {{"segment_rows", 5}})}, batch)),
            2 * 25);
  EXPECT_EQ(pairs(workOf({Role::Saved, Role::Saved, Role::Saved, Role::GradOutput},
                         {attention("attention_backward", N, {{"mask", "causal"}})}, batch)),
            2 * (6 + 28));
}

TEST(ModelWork, AttentionToThePicturesThatTokensSee) {
  auto pairs = [](double work) { return work / (2.0 * 4 * (8 + 6)); };
  PackedMicrobatch batch = batchOf({0, 3, 4}, 3);
  batch.tokenInputs["image_begins"] = {0, 0, 1, 2};
  batch.tokenInputs["image_ends"] = {2, 1, 2, 2}; // the last sees nothing
  KernelCall call = attention("cross_attention", N, {{"rows", 5}});
  EXPECT_EQ(pairs(workOf(inputs, {call}, batch)), 5 * (2 + 1 + 1));
  call = attention("cross_attention_backward", N, {{"rows", 5}});
  EXPECT_EQ(pairs(workOf({Role::Saved, Role::Saved, Role::Saved, Role::GradOutput}, {call}, batch)),
            2 * 5 * (2 + 1 + 1));
}

/// The state of each of 4 heads has 8 rows of 6 columns. A token reads it by its key, adds to it
/// and reads it by its query: a multiplication and an addition an element each time. In the
/// backward each of these has two gradients, and the states that are made anew do not count.
TEST(ModelWork, LinearAttentionByItsStates) {
  auto call = [](const char *kernel, std::vector<std::pair<std::string, View>> more) {
    KernelCall call{kernel,
                    {{"q", view(0, {N, fixed(4), fixed(8)})},
                     {"k", view(0, {N, fixed(4), fixed(8)})},
                     {"v", view(1, {N, fixed(4), fixed(6)})},
                     {"decay", view(2, {N, fixed(4)})},
                     {"beta", view(2, {N, fixed(4)})}},
                    {},
                    ""};
    for (auto &operand : more)
      call.operands.push_back(std::move(operand));
    return call;
  };
  double once = 0;
  for (int token = 0; token < 10; ++token)
    for (int head = 0; head < 4; ++head)
      for (int row = 0; row < 8; ++row)
        once += 6 * 3 * 2;
  KernelCall forward = call("gated_delta", {{"out", view(3, {N, fixed(4), fixed(6)})}});
  EXPECT_EQ(workOf(inputs, {forward}, batchOf({0, 3, 10})), once);
  KernelCall backward = call("gated_delta_backward", {{"dout", view(4, {N, fixed(4), fixed(6)})},
                                                      {"dq", view(5, {N, fixed(4), fixed(8)})},
                                                      {"dk", view(5, {N, fixed(4), fixed(8)})},
                                                      {"dv", view(5, {N, fixed(4), fixed(6)})},
                                                      {"ddecay", view(5, {N, fixed(4)})},
                                                      {"dbeta", view(5, {N, fixed(4)})}});
  const std::vector<Role> roles = {Role::Saved,     Role::Saved,      Role::Temporary,
                                   Role::Temporary, Role::GradOutput, Role::GradInput};
  EXPECT_EQ(workOf(roles, {forward, backward, forward}, batchOf({0, 3, 10})), 2 * once);
}

TEST(ModelWork, AttentionByTheSegmentsOfPictures) {
  PackedMicrobatch batch = batchOf({0, 100}, 4);
  batch.pictureInputs.integers = {{"image_segment_cu_seqlens", {0, 12, 16, 16, 16}},
                                  {"image_window_cu_seqlens", {0, 8, 12, 16, 16}}};
  for (auto [name, pairs] : {std::pair{"image_segment_cu_seqlens", 12 * 12 + 4 * 4},
                             {"image_window_cu_seqlens", 8 * 8 + 2 * 4 * 4},
                             {"cu_seqlens", 100 * 100}}) {
    Program program;
    Function &f = program.functions.emplace_back();
    for (Role role : inputs)
      f.buffers.push_back(buffer(role));
    f.buffers.push_back({name, Role::Batch, DType::I32, {}, 0});
    KernelCall call = attention("attention", {0, 4, 0}, {{"mask", "full"}});
    call.operands.push_back({"cu_seqlens", view(4, {{1, 1, 0}})});
    f.calls = {call};
    EXPECT_EQ(ModelWork(program).of(0, batch), 2.0 * pairs * 4 * (8 + 6)) << name;
  }
}

/// y = x w recomputed, then z = y u: dy = dz u^T, du = y^T dz, dx = dy w^T, dw = x^T dy.
TEST(ModelWork, RecomputationIsNotCounted) {
  std::vector<Role> roles = {Role::Saved,         Role::Parameter, Role::Temporary,
                             Role::GradOutput,    Role::Parameter, Role::Temporary,
                             Role::ParameterGrad, Role::GradInput};
  std::vector<KernelCall> calls = {product(0, 1, 2, N, 5, 5), product(3, 4, 5, N, 5, 5),
                                   product(2, 3, 6, N, 5, 5), product(5, 1, 7, N, 5, 5)};
  EXPECT_EQ(workOf(roles, calls, batchOf({0, 4})), 3 * 2.0 * 4 * 5 * 5);
}

TEST(ModelWork, TheLossForLabeledTokens) {
  KernelCall loss{"linear_cross_entropy",
                  {{"hidden", view(0, {N, fixed(5)})},
                   {"weight", view(1, {fixed(100), fixed(5)})},
                   {"targets", view(2, {N})},
                   {"loss", view(3, {N})}},
                  {},
                  ""};
  EXPECT_EQ(workOf(inputs, {loss}, batchOf({0, 10}, 0, 6)), 2.0 * 6 * 100 * 5);
  loss.operands.push_back({"dhidden", view(3, {N, fixed(5)})});
  loss.operands.push_back({"dweight", view(3, {fixed(100), fixed(5)})});
  EXPECT_EQ(workOf(inputs, {loss}, batchOf({0, 10}, 0, 6)), 3 * 2.0 * 6 * 100 * 5);
}

/// Of a part's words forward counts the logits, and backward, which computes them again, the rest.
TEST(ModelWork, TheLossOfWordsThatPartsShare) {
  KernelCall statistics{"word_statistics",
                        {{"hidden", view(0, {N, fixed(5)})},
                         {"weight", view(1, {fixed(100), fixed(5)})},
                         {"targets", view(2, {N})},
                         {"result", view(3, {N, fixed(3)})}},
                        {},
                        ""};
  const double product = 2.0 * 6 * 100 * 5;
  EXPECT_EQ(workOf(inputs, {statistics}, batchOf({0, 10}, 0, 6)), product);
  KernelCall gradient = statistics;
  gradient.kernel = "joined_cross_entropy_backward";
  gradient.operands[3] = {"statistics", view(2, {fixed(2), N, fixed(3)})};
  gradient.operands.push_back({"dhidden", view(4, {N, fixed(5)})});
  gradient.operands.push_back({"dweight", view(3, {fixed(100), fixed(5)})});
  const std::vector<Role> roles = {Role::Saved, Role::Parameter, Role::Batch, Role::ParameterGrad,
                                   Role::GradInput};
  for (bool recomputes : {false, true}) {
    std::vector<KernelCall> calls = {gradient};
    if (recomputes)
      calls.insert(calls.begin(), statistics);
    EXPECT_EQ(workOf(roles, calls, batchOf({0, 10}, 0, 6)), 2 * product);
  }
}

TEST(ModelWork, OfATrainingStep) {
  for (bool split : {false, true}) {
    LoadedProgram tiny = loadedTiny({1, 2, 1, false, split});
    ModelWork work(tiny.program);
    const Mode &mode = tiny.program.stageList[0].modes.at("train");
    PackedMicrobatch batch = batchOf({0, 9});
    // Logits, and two products of gradients.
    const std::vector<FunctionCalls> calls = callsOfMicrobatches(mode);
    ASSERT_EQ(calls.size(), 2u);
    for (const FunctionCalls &each : calls)
      EXPECT_EQ(work.of(each, batch), 3 * 2.0 * 9 * tinyVocabulary * tinyWidth);
  }
}

} // namespace
} // namespace omnibal::rt
