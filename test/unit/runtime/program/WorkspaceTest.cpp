#include "runtime/program/Workspace.h"
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

/// Figures by hand.
TEST(Workspace, IsWhatTheBackendWillTake) {
  Program program;
  program.trainModes[0].tilesCap = 2;
  program.trainModes[0].tokensCap = 100;
  program.rowBucket = 64;
  Stage stage;
  Mode &mode = stage.modes["train"];
  mode.microbatches = 3;
  BatchValue ids, pixels;
  ids.dtype = DType::I32;
  ids.shape = {Extent{0, 0, 1}}; // 128 rows: 512 bytes
  pixels.dtype = DType::F32;
  pixels.shape = {Extent{0, 1, 0}, Extent{12, 0, 0}}; // 96 bytes
  mode.batchValues = {ids, pixels};
  EXPECT_EQ(batchBytesOfStep(program, stage), 3 * (768 + 256));
  EXPECT_TRUE(workspaceOf(program, stage).empty()); // target host
  program.target = "cuda";
  auto uses = workspaceOf(program, stage);
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].bytes, 2 * 3072 + 4096);

  Parameter trained, frozen;
  trained.shape = {16385}; // two blocks, or three where one begins within it
  trained.trainable = true;
  frozen.shape = {1000000};
  frozen.trainable = false;
  stage.parameters = {trained, frozen};
  program.functions.resize(2);
  KernelCall sum, product;
  sum.kernel = "reduce";
  product.kernel = "gemm";
  program.functions[1].calls = {sum, product};
  uses = workspaceOf(program, stage);
  EXPECT_EQ(describe(uses), "10.24 kB of batch values, 1.05 MB of column sums, 4640 B of "
                            "optimizer's lists, 33.55 MB of products");
  EXPECT_EQ(totalOf(uses), 10240 + (1 << 20) + 4 * (64 + 3 * 24 + 1024) + (32 << 20));

  // However much data a step has, so much is on its way.
  mode.microbatches = 1000000;
  EXPECT_EQ(workspaceOf(program, stage)[0].bytes, 256 << 20);
}

/// Of four parts that have 5 of 20 numbers each, or 2, 3, 3 and 3 of 11: by hand.
TEST(Workspace, HoldsMovesOnTheirWay) {
  Function function;
  auto bytesOf = [&](const char *kernel, int64_t src, int64_t dst) {
    function.buffers.resize(2);
    function.buffers[0].dtype = function.buffers[1].dtype = DType::BF16;
    KernelCall call;
    call.kernel = kernel;
    View from, to;
    from.buffer = 0;
    from.shape = {Extent{0, 0, 0, 0, src}};
    to.buffer = 1;
    to.shape = {Extent{dst}};
    call.operands = {{"src", from}, {"dst", to}};
    function.calls = {call};
    WorkspaceFacts facts;
    facts.addMoves(function, SymbolValues::most(0, 4, 4), 4); // n = 1
    return facts.moveBytes;
  };
  EXPECT_EQ(bytesOf("all_reduce", 11, 11), 2 * (3 * 4 + 3)); // four summands of 3, and their sum
  EXPECT_EQ(bytesOf("all_gather", 5, 20), 2 * (3 * 5 + 15)); // to three others, and from them
  EXPECT_EQ(bytesOf("reduce_scatter", 20, 5), 2 * (15 + 3 * 5));
  EXPECT_EQ(bytesOf("all_to_all", 20, 20), 2 * (20 + 20)); // at most
  EXPECT_EQ(bytesOf("take_part", 20, 5), 0);
}

} // namespace
} // namespace omnibal::rt
