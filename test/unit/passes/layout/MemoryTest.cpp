//===- MemoryTest.cpp - Predicted memory against the arenas of programs --------------------===//
//
// Real models are planned, laid out and exported: what is predicted of each stage has to be its
// program's arena, and what its backend takes beside it, to the byte.
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

using namespace mlir;
using namespace omnibal;

namespace {

struct Case {
  int64_t tiles, tokens, stages;
  std::string schedule = "1f1b", remat = "none", method = "layers";
  int64_t microbatches = 4;
  double limitShare = 0;          ///< of the largest arena without recomputation; 0: no limit
  const char *precision = "host"; ///< or "cuda", "bfloat16" (on target cuda)
  int64_t replicas = 1;
};

struct Memories {
  std::vector<layout::StageMemory> predicted;
  rt::Program program;
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

  void check(const std::string &name, const Case &c) {
    int64_t limit = 0;
    if (c.limitShare > 0) {
      Case free = c;
      free.remat = "none";
      free.limitShare = 0;
      rt::Program program = plan(free, 0).program;
      for (const rt::Stage &stage : program.stageList) {
        int64_t beside = rt::totalOf(rt::workspaceOf(program, stage));
        auto arena = static_cast<int64_t>(c.limitShare * static_cast<double>(stage.arenaBytes));
        limit = std::max(limit, arena + beside);
      }
    }
    Memories found = plan(c, limit);
    ASSERT_EQ(found.predicted.size(), static_cast<size_t>(c.stages)) << name;
    for (const rt::Stage &stage : found.program.stageList) {
      const layout::StageMemory &predicted = found.predicted[stage.id];
      std::string where = name + ", " + std::to_string(c.stages) + " stages, " + c.schedule + ", " +
                          c.remat + ", " + c.method + ", " + c.precision + ", stage " +
                          std::to_string(stage.id);
      EXPECT_EQ(predicted.arenaBytes, stage.arenaBytes) << where;
      std::vector<rt::WorkspaceUse> beside = rt::workspaceOf(found.program, stage);
      EXPECT_EQ(rt::totalOf(predicted.beside), rt::totalOf(beside))
          << where << ": predicted " << rt::describe(predicted.beside) << ", is "
          << rt::describe(beside);
      if (limit)
        EXPECT_LE(stage.arenaBytes + rt::totalOf(beside), limit) << where;
      ++stagesCompared;
    }
  }
  int stagesCompared = 0;

private:
  Memories plan(const Case &c, int64_t limit) {
    OwningOpRef<ModuleOp> copy(module->clone());
    CompileOptions options;
    std::string precision = c.precision;
    options.target = precision == "host" ? "host" : "cuda";
    options.compute = precision == "bfloat16" ? "bfloat16" : "float32";
    options.method = c.method;
    options.remat = c.remat;
    options.schedule = c.schedule;
    options.microbatches = c.microbatches;
    options.tiles = c.tiles;
    options.tokens = c.tokens;
    options.stages = c.stages;
    options.dataParallel = c.replicas;
    options.memoryLimitBytes = limit;
    auto record = std::make_shared<CompileRecord>();
    PassManager passes(&context);
    buildFittedProgramPipeline(passes, options, record);
    EXPECT_TRUE(succeeded(passes.run(*copy)));
    return {record->plan.memory, std::move(record->laidOut.program->program)};
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

TEST(Memory, OfDevices) {
  Memory internvl(data("tiny-internvl/model.onnx"), {});
  for (const char *precision : {"cuda", "bfloat16"}) {
    internvl.check("device", {24, 512, 1, "1f1b", "none", "layers", 4, 0, precision});
    internvl.check("device", {24, 500, 2, "zb-h1", "none", "layers", 12, 0, precision});
    internvl.check("device", {24, 512, 3, "interleaved:2", "full", "layers", 4, 0, precision});
    internvl.check("device", {24, 512, 2, "1f1b", "auto", "search", 4, 0.8, precision});
  }
  Memory llava(data("tiny-llava/model.onnx"), {"vision"});
  llava.check("bf16, frozen vision", {24, 512, 2, "gpipe", "none", "layers", 4, 0, "bfloat16"});
}

TEST(Memory, OfReplicasAndSearchedSchedules) {
  for (const char *name : {"tiny-internvl", "tiny-qwen2_5_vl", "tiny-llava"}) {
    Memory model(data(name + std::string("/model.onnx")), {});
    model.check(name, {24, 512, 2, "1f1b", "none", "layers", 4, 0, "host", 2});
    model.check(name, {24, 512, 2, "auto", "none", "search", 6});
    model.check(name, {24, 512, 3, "auto", "auto", "search", 6, 0.9});
    model.check(name, {24, 512, 2, "zb-h1", "selective-1", "greedy", 6, 0, "bfloat16", 2});
    EXPECT_EQ(model.stagesCompared, 9);
  }
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
