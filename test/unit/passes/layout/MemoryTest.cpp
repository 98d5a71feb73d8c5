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
#include "runtime/batching/io/Npy.h"
#include "runtime/program/Workspace.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
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
  int64_t replicas = 1, zero = 0;
  int64_t parts = 1; ///< with layouts that divide all that can be divided
};

struct Memories {
  std::vector<layout::StageMemory> predicted;
  rt::Program program;
};

/// What fine-tuning leaves as it is, and what is kept besides.
struct Tuning {
  std::vector<std::string> freeze = {};
  std::string lora = ""; ///< which weights have adapters
  bool dora = false;
  std::string quantized = ""; ///< how those below adapters are stored
  bool ema = false;
  std::string optimizer = "adamw";
};

class Memory {
public:
  Memory(const std::string &file, const Tuning &tuning) {
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
    layers.freeze = ArrayRef<std::string>(tuning.freeze);
    layers.lora = tuning.lora;
    layers.dora = tuning.dora;
    layers.quantizeFrozen = tuning.quantized;
    layers.ema = tuning.ema;
    layers.optimizer = tuning.optimizer;
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
      if (stage.part + 1 < c.parts) { // the last one is planned
        EXPECT_LE(stage.arenaBytes, predicted.arenaBytes) << where << ", part " << stage.part;
        continue;
      }
      EXPECT_EQ(predicted.arenaBytes, stage.arenaBytes) << where;
      std::vector<rt::WorkspaceUse> beside = rt::workspaceOf(found.program, stage);
      EXPECT_EQ(rt::totalOf(predicted.beside), rt::totalOf(beside))
          << where << ": predicted " << rt::describe(predicted.beside) << ", is "
          << rt::describe(beside);
      if (c.parts > 1 && c.precision != std::string("host"))
        EXPECT_NE(rt::describe(beside).find("moves among parts"), std::string::npos) << where;
      if (limit)
        EXPECT_LE(stage.arenaBytes + rt::totalOf(beside), limit) << where;
      ++stagesCompared;
    }
  }
  /// Of several training modes the largest counts, with the constants of all of them. Caps and
  /// micro-batches are those of `folder`.
  void checkModes(const std::string &folder, const Case &c, int64_t limit) {
    OwningOpRef<ModuleOp> copy(module->clone());
    CompileOptions options;
    setOptions(options, c, limit);
    options.trainModes = true;
    options.batches = folder;
    auto record = std::make_shared<CompileRecord>();
    PassManager passes(&context);
    buildFittedProgramPipeline(passes, options, record);
    ASSERT_TRUE(succeeded(passes.run(*copy))) << folder;
    const rt::Program &program = record->laidOut.program->program;
    ASSERT_EQ(record->plans.modes.size(), program.trainModes.size());
    for (const rt::Stage &stage : program.stageList) {
      int64_t arena = 0, beside = 0;
      for (const plan::StagePlan &mode : record->plans.modes) {
        arena = std::max(arena, mode.memory[stage.id].arenaBytes);
        beside = std::max(beside, rt::totalOf(mode.memory[stage.id].beside));
      }
      EXPECT_EQ(arena, stage.arenaBytes) << folder << ", stage " << stage.id;
      const int64_t taken = rt::totalOf(rt::workspaceOf(program, stage));
      EXPECT_EQ(beside, taken) << folder << ", stage " << stage.id;
      if (options.memoryLimitBytes > 0)
        EXPECT_LE(stage.arenaBytes + taken, options.memoryLimitBytes) << folder;
      ++stagesCompared;
    }
  }
  int stagesCompared = 0;

private:
  static void setOptions(CompileOptions &options, const Case &c, int64_t limit) {
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
    options.zero = c.zero;
    options.parts = c.parts;
    options.layoutPrice = c.parts > 1 ? 1 : -1;
    options.memoryLimitBytes = limit;
  }

  Memories plan(const Case &c, int64_t limit) {
    OwningOpRef<ModuleOp> copy(module->clone());
    CompileOptions options;
    setOptions(options, c, limit);
    auto record = std::make_shared<CompileRecord>();
    PassManager passes(&context);
    buildFittedProgramPipeline(passes, options, record);
    EXPECT_TRUE(succeeded(passes.run(*copy)));
    return {record->plans.modes.front().memory, std::move(record->laidOut.program->program)};
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

/// Two length groups, "short" of eight micro-batches and "long" of two, a sample in each.
std::string writeModes(int64_t stages, int64_t replicas) {
  const std::string folder =
      testing::TempDir() + "modes-" + std::to_string(stages) + "x" + std::to_string(replicas);
  std::filesystem::create_directories(folder);
  constexpr int64_t microbatches[] = {8, 2}, tiles[] = {4, 12}, tokens[] = {128, 512};
  std::string groups;
  std::vector<int64_t> samples, offsets = {0};
  std::vector<int32_t> rows, lengths;
  for (int32_t mode = 0; mode < 2; ++mode) {
    groups += std::string(mode ? "," : "") + R"({"name": ")" + (mode ? "long" : "short") +
              R"(", "tiles_cap": )" + std::to_string(tiles[mode]) + R"(, "tokens_cap": )" +
              std::to_string(tokens[mode]) + R"(, "degree": 1, "ranks": )" +
              std::to_string(replicas) + R"(, "microbatches": )" +
              std::to_string(microbatches[mode]) +
              R"(, "steps": 1, "cost": {"tile_ns": 1, "token_ns": 1, "square_ns": 0, )"
              R"("microbatch_ns": 0, "step_ns": 0}})";
    for (int64_t row = 0; row < microbatches[mode]; ++row) {
      rows.insert(rows.end(), {mode, mode});
      for (int64_t rank = 0; rank < replicas; ++rank) {
        samples.push_back(static_cast<int64_t>(samples.size()));
        offsets.push_back(offsets.back() + 1);
        lengths.insert(lengths.end(), {1, 100});
      }
    }
  }
  auto write = [&](const std::string &name, const std::string &text) {
    std::ofstream(folder + "/" + name) << text;
  };
  const std::string count = std::to_string(samples.size());
  write("groups.json", R"({"schema": "omnibal.length-groups/1", "replicas": )" +
                           std::to_string(replicas) + R"(, "stages": )" + std::to_string(stages) +
                           R"(, "tokens_per_step": 1024, "groups": [)" + groups + "]}");
  write("batches.json",
        R"({"method": "plan", "seed": 0, "epoch": 0, "length_groups": 2, "samples": )" + count +
            "}");
  auto save = [&](auto file, const auto &values) {
    ASSERT_TRUE(static_cast<bool>(file));
    EXPECT_TRUE(static_cast<bool>(file->append(values)));
    EXPECT_TRUE(static_cast<bool>(file->commit()));
  };
  auto sizeOf = [](const auto &list) { return static_cast<int64_t>(list.size()); };
  save(rt::NpyWriter::int64(folder + "/samples.npy", sizeOf(samples)), samples);
  save(rt::NpyWriter::int64(folder + "/groups.npy", sizeOf(offsets)), offsets);
  save(rt::NpyWriter::int32(folder + "/rows.npy", sizeOf(rows) / 2, 2), rows);
  save(rt::NpyWriter::int32(folder + "/lengths.npy", sizeOf(lengths) / 2, 2), lengths);
  return folder;
}

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
  Memory llava(data("tiny-llava/model.onnx"), {{"vision"}});
  llava.check("bf16, frozen vision", {24, 512, 2, "gpipe", "none", "layers", 4, 0, "bfloat16"});
}

TEST(Memory, OfParts) {
  Memory model(data("tiny-internvl/model.onnx"), {});
  for (const char *precision : {"host", "cuda", "bfloat16"})
    for (int64_t parts : {2, 3, 4}) {
      model.check("parts", {24, 500, 1, "1f1b", "none", "layers", 4, 0, precision, 1, 0, parts});
      model.check("parts with ZeRO-1",
                  {24, 500, 2, "1f1b", "none", "layers", 4, 0, precision, 2, 1, parts});
    }
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

TEST(Memory, OfQuantizedWeights) {
  for (const char *kind : {"int8", "nf4"}) {
    Memory model(data("tiny-internvl/model.onnx"), {.lora = "language", .quantized = kind});
    model.check(kind, {24, 512, 1});
    model.check(kind, {24, 512, 2, "zb-h1", "none", "layers", 6});
    model.check(kind, {24, 512, 3, "auto", "auto", "search", 6, 0.9});
    model.check(kind, {24, 512, 2, "1f1b", "full", "layers", 4, 0, "host", 2, 1});
    EXPECT_EQ(model.stagesCompared, 8);
  }
}

TEST(Memory, OfMagnitudes) {
  for (const char *kind : {"", "nf4"}) {
    Memory model(data("tiny-internvl/model.onnx"),
                 {.lora = "language", .dora = true, .quantized = kind});
    model.check("magnitudes", {24, 512, 1});
    model.check("magnitudes", {24, 512, 2, "zb-h1", "none", "layers", 6});
    model.check("magnitudes", {24, 512, 3, "auto", "auto", "search", 6, 0.9});
    model.check("magnitudes", {24, 512, 2, "1f1b", "full", "layers", 4, 0, "host", 2, 1});
    if (*kind)
      continue;
    for (const char *precision : {"cuda", "bfloat16"})
      model.check("magnitudes", {24, 512, 2, "1f1b", "none", "layers", 4, 0, precision});
  }
}

TEST(Memory, OfTrainingModes) {
  Memory model(data("tiny-internvl/model.onnx"), {});
  auto check = [&](int64_t stages, int64_t replicas, const char *schedule, int64_t limit = 0,
                   const char *precision = "host") {
    model.checkModes(writeModes(stages, replicas),
                     {12, 512, stages, schedule, "auto", "search", 4, 0, precision, replicas},
                     limit);
  };
  for (const char *schedule : {"1f1b", "zb-h1", "auto"})
    check(2, 1, schedule);
  check(1, 2, "gpipe");
  check(3, 2, "1f1b");
  for (int64_t limit : {0, 120'000'000})
    check(2, 1, "1f1b", limit, "bfloat16");
  for (int64_t limit : {9'000'000, 8'000'000, 7'000'000})
    check(2, 1, "1f1b", limit);
  EXPECT_EQ(model.stagesCompared, 20);
}

/// Shares go by buckets, and these by the order in which gradients are complete.
TEST(Memory, OfSharesOfReplicas) {
  auto shares = [](int64_t stages, const char *schedule, int64_t replicas,
                   const char *precision = "host", double limitShare = 0) {
    const bool limited = limitShare > 0;
    return Case{24,
                512,
                stages,
                schedule,
                limited ? "auto" : "none",
                limited ? "search" : "layers",
                6,
                limitShare,
                precision,
                replicas,
                1};
  };
  Memory internvl(data("tiny-internvl/model.onnx"), {});
  for (int64_t replicas : {2, 3, 7})
    for (const char *precision : {"host", "bfloat16"}) {
      internvl.check("shares", shares(1, "1f1b", replicas, precision));
      internvl.check("shares", shares(3, "zb-h1", replicas, precision));
      internvl.check("shares", shares(2, "interleaved:2", replicas, precision));
    }
  internvl.check("shares", shares(2, "1f1b", 2, "host", 0.8));
  internvl.check("shares", shares(2, "auto", 2, "bfloat16", 0.8));
  Memory frozen(data("tiny-llava/model.onnx"), {{"vision"}});
  frozen.check("shares, frozen", shares(2, "gpipe", 2));
  Memory tied(data("llava-tied/model-opset22.onnx"), {});
  for (int64_t stages : {1, 2, 3})
    tied.check("shares, tied", shares(stages, "1f1b", 2, stages == 2 ? "bfloat16" : "host"));
}

/// Whole, and in shares of the replicas.
TEST(Memory, OfAveragesAndCodes) {
  auto shares = [](int64_t stages, const char *precision, int64_t replicas) {
    return Case{24, 512, stages, "1f1b", "none", "layers", 6, 0, precision, replicas, 1};
  };
  Memory averages(data("tiny-internvl/model.onnx"), {.freeze = {"vision"}, .ema = true});
  for (const char *precision : {"host", "cuda", "bfloat16"}) {
    averages.check("averages", {24, 512, 2, "1f1b", "none", "layers", 4, 0, precision});
    averages.check("shares of averages", shares(2, precision, 3));
  }
  Memory coded(data("tiny-internvl/model.onnx"), {.optimizer = "adamw8bit"});
  Memory both(data("llava-tied/model-opset22.onnx"), {.ema = true, .optimizer = "adamw8bit"});
  for (int64_t stages : {1, 3}) {
    coded.check("codes", {24, 512, stages});
    both.check("codes and averages", {24, 512, stages});
    for (int64_t replicas : {2, 3}) {
      coded.check("shares of codes", shares(stages, "host", replicas));
      both.check("shares of both", shares(stages, "host", replicas));
    }
  }
}

/// Matrices have variances of rows and columns; both models have a convolution and vectors too.
TEST(Memory, OfVariancesOfRowsAndColumns) {
  Memory factored(data("tiny-internvl/model.onnx"), {.optimizer = "adafactor"});
  Memory both(data("llava-tied/model-opset22.onnx"),
              {.freeze = {"vision"}, .ema = true, .optimizer = "adafactor"});
  for (int64_t stages : {1, 3}) {
    factored.check("variances", {24, 512, stages});
    both.check("variances and averages", {24, 512, stages});
  }
  factored.check("variances", {24, 512, 2, "1f1b", "auto", "search", 4, 0.8});
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
  Memory vision(data("tiny-internvl/model.onnx"), {{"vision"}});
  for (int64_t stages : {1, 2, 4})
    vision.check("frozen vision", {24, 512, stages});
  Memory both(data("tiny-llava/model.onnx"), {.freeze = {"vision", "language"}});
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
