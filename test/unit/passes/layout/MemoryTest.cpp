//===- MemoryTest.cpp - Predicted memory against the arenas of programs --------------------===//
//
// Real models are planned, laid out and exported: rule 6 of docs/planner.md plus what is reserved
// has to be within 2 % of each stage's arena, or within 4 kB.
// OMNIBAL_MEMORY_MODEL=FILE.onnx in the environment adds a model of one's own.
//
//===----------------------------------------------------------------------------------------===//
#include "importers/onnx/OnnxImporter.h"
#include "mlir/Pass/PassManager.h"
#include "passes/driver/CompileRecord.h"
#include "passes/driver/Pipelines.h"
#include "runtime/program/Workspace.h"
#include <cstdlib>
#include <gtest/gtest.h>
#include <iostream>

using namespace mlir;
using namespace omnibal;

namespace {

constexpr int64_t smallDifference = 4 << 10;
constexpr double largestShare = 0.02;

struct Case {
  int64_t tiles, tokens, stages;
  std::string schedule = "1f1b", remat = "none", method = "layers";
  int64_t microbatches = 4;
  /// Of the largest arena without recomputation, besides workspaces; 0: no limit.
  double limitShare = 0;
  bool bfloat16 = false; ///< on target cuda
};

class Memory {
public:
  Memory(const std::string &file, const std::vector<std::string> &freeze) {
    DialectRegistry registry;
    registry.insert<OmnibalDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    auto imported = importOnnx(file, {}, context);
    EXPECT_TRUE(succeeded(imported));
    module = std::move(*imported);
    PassManager passes(&context);
    FindLayersOptions layers;
    layers.tokens = 1024;
    layers.freeze = ArrayRef<std::string>(freeze);
    buildFindLayersPipeline(passes, layers, layers);
    EXPECT_TRUE(succeeded(passes.run(*module)));
  }

  /// Worst share of the tolerance; prints a line a stage.
  void check(const std::string &name, const Case &c) {
    std::vector<int64_t> predicted, real, reserved;
    int64_t limit = 0;
    if (c.limitShare > 0) {
      Case free = c;
      free.remat = "none";
      free.limitShare = 0;
      plan(free, 0, predicted, real, reserved);
      limit = static_cast<int64_t>(c.limitShare * *std::max_element(real.begin(), real.end())) +
              largestWorkspace;
    }
    plan(c, limit, predicted, real, reserved);
    for (size_t r = 0; r < real.size(); ++r) {
      int64_t difference = std::abs(predicted[r] - real[r]);
      double share = static_cast<double>(difference) / static_cast<double>(real[r]);
      std::cout << name << " " << c.stages << " stages " << c.schedule << " " << c.remat << " "
                << c.method << ", stage " << r << ": predicted " << predicted[r] << " (reserved "
                << reserved[r] << "), arena " << real[r] << ", " << 100 * share << " %\n";
      EXPECT_TRUE(share <= largestShare || difference <= smallDifference);
      if (limit)
        EXPECT_LE(predicted[r], limit);
    }
  }

private:
  void plan(const Case &c, int64_t limit, std::vector<int64_t> &predicted,
            std::vector<int64_t> &real, std::vector<int64_t> &reserved) {
    OwningOpRef<ModuleOp> copy(module->clone());
    CompileOptions options;
    options.target = c.bfloat16 ? "cuda" : "host";
    options.method = c.method;
    options.remat = c.remat;
    options.schedule = c.schedule;
    options.microbatches = c.microbatches;
    options.tiles = c.tiles;
    options.tokens = c.tokens;
    options.stages = c.stages;
    options.memoryLimitBytes = limit;
    auto record = std::make_shared<CompileRecord>();
    PassManager passes(&context);
    buildFittedProgramPipeline(passes, options, record);
    ASSERT_TRUE(succeeded(passes.run(*copy)));
    predicted.clear();
    real.clear();
    reserved = record->plan.reservedBytes;
    largestWorkspace = 0;
    const rt::Program &program = record->laidOut.program->program;
    for (const rt::Stage &stage : program.stageList) {
      largestWorkspace = std::max(largestWorkspace, rt::totalOf(rt::workspaceOf(program, stage)));
      predicted.push_back(record->plan.peakBytesAtCaps[real.size()] + reserved[real.size()]);
      real.push_back(stage.arenaBytes);
    }
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  int64_t largestWorkspace = 0; ///< of a stage of the last plan, beside its arena
};

std::string data(const std::string &file) { return std::string(OMNIBAL_TEST_DATA "/") + file; }

TEST(Memory, OfCutsAndSchedules) {
  Memory model(data("tiny-internvl/model.onnx"), {});
  for (int64_t stages : {1, 2, 3, 4})
    for (const char *schedule : {"1f1b", "gpipe"})
      model.check("tiny-internvl", {24, 512, stages, schedule});
  model.check("tiny-internvl", {24, 512, 2, "1f1b", "none", "greedy", 12});
  model.check("tiny-internvl", {1, 512, 3, "1f1b", "none", "parameters", 1});
}

TEST(Memory, OfSeveralChunksAndHalves) {
  Memory model(data("tiny-internvl/model.onnx"), {});
  for (int64_t stages : {2, 3, 4})
    for (const char *schedule : {"interleaved:2", "zb-h1"})
      for (int64_t microbatches : {4, 12})
        model.check("tiny-internvl", {24, 512, stages, schedule, "none", "layers", microbatches});
}

TEST(Memory, InBFloat16) {
  Memory internvl(data("tiny-internvl/model.onnx"), {});
  internvl.check("bf16", {24, 512, 1, "1f1b", "none", "layers", 4, 0, true});
  internvl.check("bf16", {24, 512, 2, "zb-h1", "none", "layers", 12, 0, true});
  internvl.check("bf16", {24, 512, 3, "interleaved:2", "full", "layers", 4, 0, true});
  internvl.check("bf16", {24, 512, 2, "1f1b", "auto", "search", 4, 0.8, true});
  Memory llava(data("tiny-llava/model.onnx"), {"vision"});
  llava.check("bf16, frozen vision", {24, 512, 2, "gpipe", "none", "layers", 4, 0, true});
}

TEST(Memory, OfOptionsAndLimits) {
  Memory model(data("tiny-internvl/model.onnx"), {});
  for (const char *remat : {"full", "selective-1", "selective-2", "selective-3"})
    for (int64_t stages : {1, 3})
      model.check("tiny-internvl", {24, 512, stages, "1f1b", remat});
  for (double share : {0.9, 0.8, 0.7})
    model.check("tiny-internvl", {24, 512, 2, "1f1b", "auto", "search", 4, share});
}

TEST(Memory, OfFrozenParts) {
  Memory vision(data("tiny-internvl/model.onnx"), {"vision"});
  for (int64_t stages : {1, 2, 4})
    vision.check("frozen vision", {24, 512, stages});
  Memory both(data("tiny-llava/model.onnx"), {"vision", "language"});
  for (int64_t stages : {1, 2, 3})
    both.check("frozen vision and language", {24, 512, stages});
}

TEST(Memory, OfTiedParameters) {
  Memory internvl(data("internvl-tied-layernorm/model-opset20.onnx"), {});
  Memory llava(data("llava-tied/model-opset22.onnx"), {});
  for (int64_t stages : {1, 2, 3}) {
    internvl.check("tied internvl", {24, 512, stages});
    llava.check("tied llava", {24, 512, stages, "gpipe"});
  }
}

TEST(Memory, OfAnotherModel) {
  const char *file = std::getenv("OMNIBAL_MEMORY_MODEL");
  Memory model(file ? file : data("tiny-llava/model.onnx"), {});
  for (int64_t stages : {1, 2, 4})
    for (const char *remat : {"none", "selective-2", "full"})
      model.check("other", {9, 1024, stages, "1f1b", remat, "greedy"});
  model.check("other", {9, 1024, 4, "1f1b", "auto", "search", 8, 0.6});
}

} // namespace
