// One broken program for each rule; the unbroken ones pass in every layout.
#include "runtime/program/Verifier.h"
#include "test/unit/runtime/program/TinyProgram.h"
#include <algorithm>
#include <functional>
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

TEST(Verifier, AcceptsEveryLayout) {
  for (int stages : {1, 2})
    for (int microbatches : {1, 2, 5})
      for (int replicas : {1, 2})
        for (bool tied : {false, true})
          for (bool split : {false, true})
            for (bool inBFloat16 : {false, true}) {
              Status status = verifyProgram(
                  tinyProgram({stages, microbatches, replicas, tied, split, 1, inBFloat16}));
              EXPECT_TRUE(status) << stages << " " << microbatches << " " << tied << " " << split
                                  << " " << inBFloat16 << ": " << status.message();
            }
}

struct Broken {
  const char *rule, *message;
  std::function<void(Program &)> change;
  bool split = false, zero = false;
};

Mode &train(Program &p, int stage) { return p.stageList[stage].modes.at("train"); }
Region &region(Mode &mode, const std::string &name) {
  return *std::find_if(mode.regions.begin(), mode.regions.end(),
                       [&](const Region &r) { return r.name == name; });
}
size_t find(const Mode &mode, ActionKind kind, int32_t microbatch) {
  for (size_t i = 0; i < mode.actions.size(); ++i)
    if (mode.actions[i].kind == kind && mode.actions[i].microbatch == microbatch)
      return i;
  return mode.actions.size();
}
void erase(Mode &mode, ActionKind kind, int32_t microbatch) {
  mode.actions.erase(mode.actions.begin() + find(mode, kind, microbatch));
}
void move(Mode &mode, ActionKind kind, int32_t microbatch, size_t to) {
  Action a = mode.actions[find(mode, kind, microbatch)];
  erase(mode, kind, microbatch);
  mode.actions.insert(mode.actions.begin() + to, a);
}

class BrokenPrograms : public testing::TestWithParam<Broken> {};

TEST_P(BrokenPrograms, AreRefused) {
  Program p = tinyProgram({.stages = 2,
                           .microbatches = 2,
                           .dataParallel = 2,
                           .tied = true,
                           .split = GetParam().split,
                           .zero = GetParam().zero});
  GetParam().change(p);
  Status status = verifyProgram(p);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.message().substr(0, status.message().find(':')), GetParam().rule)
      << status.message();
  EXPECT_NE(status.message().find(GetParam().message), std::string::npos) << status.message();
}

/// Makes the program one of dynamic resolution; nothing of it reads pictures.
PictureGrid &addGrid(Program &p) {
  p.trainModes[0].tilesCap = 8;
  p.info.tokensPerTile = 1;
  p.info.tileShape = {4, 96};
  return p.info.grid.emplace(PictureGrid{4, 2, 2, 16, 0});
}
BatchValue &addValue(Program &p, const std::string &name, std::vector<Extent> shape) {
  return train(p, 0).batchValues.emplace_back(BatchValue{name, DType::I32, shape, 0, 0});
}

TEST(Verifier, AcceptsSharesOfReplicas) {
  for (int stages : {1, 2})
    for (int replicas : {2, 3, 5})
      for (bool tied : {false, true})
        for (bool inBFloat16 : {false, true}) {
          const Status status = verifyProgram(tinyProgram({.stages = stages,
                                                           .dataParallel = replicas,
                                                           .tied = tied,
                                                           .inBFloat16 = inBFloat16,
                                                           .zero = true}));
          EXPECT_TRUE(status) << stages << " " << replicas << ": " << status.message();
        }
}

TEST(Verifier, AcceptsPicturesOfTheirOwnSizes) {
  Program p = tinyProgram({});
  addGrid(p);
  EXPECT_TRUE(verifyProgram(p)) << verifyProgram(p).message();
}

/// Makes steps of mode train planned one by one: every region but the workspace is a block, and the
/// program's own lists have a place of their own for each of its micro-batches.
Mode &planSteps(Program &p) {
  p.stepProblem = "{}";
  auto aligned = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
  for (Stage &stage : p.stageList) {
    Mode &mode = stage.modes.at("train");
    int64_t at = aligned(stage.persistentBytes);
    auto isWorkspace = [](const Region &r) { return r.name == "workspace"; };
    for (Region &r : mode.regions)
      if (isWorkspace(r)) {
        r.offsets.assign(mode.microbatches, at);
        at += aligned(r.bytes);
      }
    mode.stepOffset = at;
    int32_t number = 0;
    for (Region &r : mode.regions) {
      if (isWorkspace(r))
        continue;
      r.bytes = aligned(r.bytes);
      r.block = StepBlock{mode.chunks[0].id, {number++}, {r.bytes, 0, 0}};
      for (int64_t &offset : r.offsets) {
        offset = at;
        at += r.bytes;
      }
    }
    mode.stepBytes = at - mode.stepOffset;
    stage.arenaBytes = std::max(stage.arenaBytes, at);
  }
  return p.stageList.back().modes.at("train");
}
Region &firstBlock(Mode &mode) {
  return *std::find_if(mode.regions.begin(), mode.regions.end(),
                       [](const Region &r) { return r.block.has_value(); });
}

/// Another variant of the mode's first chunk, which runs the same and has the same blocks.
Chunk &addVariant(Mode &mode) {
  Chunk chunk = mode.chunks[0];
  chunk.variant = 1;
  for (Region &r : mode.regions)
    if (r.block && r.block->chunk == chunk.id)
      r.block->numbers.push_back(r.block->numbers[0]);
  return mode.chunks.emplace_back(std::move(chunk));
}

TEST(Verifier, AcceptsPlannedSteps) {
  for (bool split : {false, true}) {
    Program p = tinyProgram({.stages = 2, .microbatches = 2, .split = split});
    Mode &mode = planSteps(p);
    EXPECT_TRUE(verifyProgram(p)) << verifyProgram(p).message();
    addVariant(mode);
    EXPECT_TRUE(verifyProgram(p)) << verifyProgram(p).message();
    for (Action &a : mode.actions)
      if (isCompute(a.kind) && a.microbatch == 1)
        a.index = static_cast<int32_t>(mode.chunks.size()) - 1;
    EXPECT_TRUE(verifyProgram(p)) << verifyProgram(p).message();
  }
}

const Broken cases[] = {
    {"p14", "there is no step problem",
     [](Program &p) {
       planSteps(p);
       p.stepProblem.clear();
     }},
    {"p14", "does not lie between", [](Program &p) { planSteps(p).stepOffset = 0; }},
    {"p14", "does not lie between", [](Program &p) { planSteps(p).stepBytes += 1 << 20; }},
    {"p14", "begins at no multiple of 64",
     [](Program &p) {
       Mode &mode = planSteps(p);
       mode.stepOffset += 8;
       mode.stepBytes -= 8;
     }},
    {"p14", "belongs to no chunk of the stage",
     [](Program &p) { firstBlock(planSteps(p)).block->chunk = 77; }},
    {"p14", "numbers are not one a variant",
     [](Program &p) { firstBlock(planSteps(p)).block->numbers.push_back(0); }},
    {"p14", "numbers are not one a variant",
     [](Program &p) { firstBlock(planSteps(p)).block->numbers = {-1}; }},
    {"p14", "its variants are not numbered in turn",
     [](Program &p) { addVariant(planSteps(p)).variant = 2; }},
    {"p14", "it has variants, but steps are not planned",
     [](Program &p) { addVariant(p.stageList.back().modes.at("train")); }},
    {"p14", "which its variant has no block for",
     [](Program &p) {
       Mode &mode = planSteps(p);
       addVariant(mode);
       for (const Location &l : mode.chunks[0].forward[0].bindings)
         if (l.space == Space::Region)
           mode.regions[l.index].block->numbers[1] = -1;
     }},
    {"p6", "it runs in more than one variant",
     [](Program &p) {
       Mode &mode = planSteps(p);
       addVariant(mode);
       const auto second = static_cast<int32_t>(mode.chunks.size()) - 1;
       mode.actions.insert(mode.actions.begin(), {ActionKind::Forward, 0, second});
     }},
    {"p14", "no multiples of 64",
     [](Program &p) { firstBlock(planSteps(p)).block->bytes.perToken = 8; }},
    {"p14", "another size at the caps",
     [](Program &p) { firstBlock(planSteps(p)).block->bytes.constant += 64; }},
    {"p14", "another region has its block",
     [](Program &p) { firstBlock(planSteps(p)).block->numbers = {1}; }},
    {"p14", "it must lie in one place outside",
     [](Program &p) {
       Mode &mode = planSteps(p);
       region(mode, "workspace").offsets.assign(mode.microbatches, mode.stepOffset);
     }},
    {"p14", "which belongs to another chunk",
     [](Program &p) {
       Mode &mode = planSteps(p);
       mode.chunks.emplace_back().id = 5;
       for (const Location &l : mode.chunks[0].forward[0].bindings)
         if (l.space == Space::Region)
           mode.regions[l.index].block->chunk = 5;
     }},
    // What shrinks with the micro-batch has to hold its values with every load.
    {"p4", "do not fit the region",
     [](Program &p) {
       Mode &mode = planSteps(p);
       for (Region &r : mode.regions)
         if (r.block) {
           int64_t tokens = p.roundedTokens(p.caps().tokens), whole = (r.bytes / tokens + 64) / 64 * 64;
           r.block->bytes = {0, 0, whole};
           p.stageList.back().arenaBytes += mode.microbatches * (whole * tokens - r.bytes);
           r.bytes = whole * tokens;
         }
       for (Location &l : mode.chunks[0].forward[0].bindings)
         if (l.space == Space::Region)
           l.offset.constant += 64;
     }},
    {"p1", "stages is 3", [](Program &p) { p.stages = 3; }},
    {"p1", "tokens_cap", [](Program &p) { p.trainModes[0].tokensCap = -1; }},
    {"p1", "stage 1 has id 0", [](Program &p) { p.stageList[1].id = 0; }},
    {"p2", "buffer 9 does not exist",
     [](Program &p) { p.functions[0].calls[0].operands[0].second.buffer = 9; }},
    {"p2", "the view leaves its buffer",
     [](Program &p) { p.functions[0].calls[0].operands[2].second.offset = {1, 0, 0}; }},
    {"p2", "the view leaves its buffer",
     [](Program &p) { p.functions[0].calls[0].operands[2].second.shape[0] = {0, 0, 2}; }},
    {"p2", "dimension 0 is negative",
     [](Program &p) { p.functions[0].calls[0].operands[1].second.shape[0] = {-1, 0, 1}; }},
    {"p2", "occurs twice", [](Program &p) { p.functions[0].calls[0].operands[1].first = "table"; }},
    {"p2", "does not lie in the workspace", [](Program &p) { p.functions[3].workspaceBytes -= 1; }},
    {"p2", "a size is out of range",
     [](Program &p) { p.functions[3].buffers[6].shape[0] = {INT64_MAX, 0, 0}; }},
    // At the caps, where the products of these numbers no longer have 64 bits.
    {"p2", "a size is out of range",
     [](Program &p) {
       p.trainModes[0].tilesCap = INT32_MAX;
       p.functions[3].buffers[6].shape[0] = {0, int64_t{1} << 40, 0};
     }},
    {"p2", "a size is out of range",
     [](Program &p) {
       p.trainModes[0].tilesCap = INT32_MAX;
       p.functions[0].calls[0].operands[2].second.strides[0] = {1, int64_t{1} << 40, 0};
     }},
    {"p1", "tokens_per_tile is out of range",
     [](Program &p) { p.info.tokensPerTile = int64_t{1} << 40; }},
    {"p1", "tile_shape is out of range", [](Program &p) { p.info.tileShape = {3, INT64_MAX}; }},
    {"p1", "tile_shape is out of range",
     [](Program &p) {
       p.trainModes[0].tilesCap = INT32_MAX;
       p.info.tileShape = {int64_t{1} << 30};
     }},
    {"p4", "the values of its micro-batches are out of range",
     [](Program &p) {
       p.trainModes[0].microbatches = 1'000'000;
       for (Stage &stage : p.stageList) {
         stage.arenaBytes = int64_t{1} << 50;
         for (auto &[name, mode] : stage.modes) {
           mode.microbatches = p.trainModes[0].microbatches;
           for (Region &r : mode.regions) {
             r.offsets.assign(p.trainModes[0].microbatches, r.offsets[0]);
             r.bytes = int64_t{1} << 40;
           }
           for (BatchValue &v : mode.batchValues)
             v.shape = {{int64_t{1} << 37, 0, 0}};
         }
       }
     }},
    {"p3", "does not lie in the persistent part",
     [](Program &p) { p.stageList[0].parameters[0].moment2Offset += 4096; }},
    {"p3", "overlap",
     [](Program &p) {
       p.stageList[0].parameters[0].gradOffset = p.stageList[0].parameters[0].dataOffset + 4;
     }},
    {"p3", "optimizer lion has no second moment of it",
     [](Program &p) { p.optimizer = OptimizerKind::Lion; }},
    {"p3", "only where the manifest says ema",
     [](Program &p) { p.stageList[0].parameters[0].averageOffset = 0; }},
    {"p3", "(average): it does not lie in the persistent part",
     [](Program &p) { p.averages = true; }},
    {"p3", "optimizer adamw8bit: it updates whole parameters only",
     [](Program &p) {
       p.optimizer = OptimizerKind::AdamW8bit;
       p.stageList[0].parameters[0].held.emplace();
     }},
    {"p3", "only a trainable parameter in bf16 has float32 values",
     [](Program &p) { p.stageList[0].parameters[0].masterOffset = 0; }},
    {"p3", "(float32 values): it does not lie in the persistent part",
     [](Program &p) { p.stageList[0].parameters[0].dtype = DType::BF16; }},
    {"p3", "its dtype must be f32 or bf16",
     [](Program &p) { p.stageList[0].parameters[0].dtype = DType::I32; }},
    {"p3", "quantized: only a whole matrix that is frozen is",
     [](Program &p) { p.stageList[0].parameters[0].quantization = Quantization::Int8; }},
    {"p4", "the type differs", [](Program &p) { p.functions[0].buffers[0].dtype = DType::BF16; }},
    {"p4", "0 stages give the result \"router_loss\", but its coefficient in the manifest is 0.5",
     [](Program &p) { p.info.routerLossCoefficient = 0.5; }},
    {"p4", "0 stages give the result \"chosen_reward\", but preference_beta in the manifest is",
     [](Program &p) { p.info.preferenceBeta = 0.5; }},
    {"p5", "differently",
     [](Program &p) { train(p, 1).transfers[0].pieces[0].dtype = DType::BF16; }},
    {"p3", "exactly one copy must be counted",
     [](Program &p) { p.stageList[1].parameters[0].counted = true; }},
    {"p3", "its copies differ", [](Program &p) { p.stageList[1].parameters[0].shape = {6, 11}; }},
    {"p3", "its copies differ",
     [](Program &p) {
       p.optimizer = OptimizerKind::Muon;
       p.stageList[1].parameters[0].orthogonalized = true;
       p.stageList[1].parameters[0].moment2Offset = -1;
     }},
    {"p3", "only muon does that",
     [](Program &p) { p.stageList[0].parameters[0].orthogonalized = true; }},
    {"p3", "without a shared group",
     [](Program &p) {
       for (Stage &s : p.stageList)
         s.parameters[0].sharedGroup = -1;
     }},
    {"p3", "a bucket holds parameter 7",
     [](Program &p) { p.stageList[0].buckets[0].parameters = {7}; }},
    {"p4", "function 12 does not exist",
     [](Program &p) { train(p, 0).chunks[0].forward[0].function = 12; }},
    {"p4", "has 3 formals, but 2 are bound",
     [](Program &p) { train(p, 0).chunks[0].forward[0].bindings.pop_back(); }},
    {"p4", "do not fit the region",
     [](Program &p) { train(p, 0).chunks[0].forward[0].bindings[2].offset = {8, 0, 0}; }},
    {"p4", "is bound to a region",
     [](Program &p) { train(p, 0).chunks[0].forward[0].bindings[0] = {Space::Region, 0, {}}; }},
    {"p4", "region 77 does not exist",
     [](Program &p) { train(p, 0).chunks[0].forward[0].bindings[2].index = 77; }},
    {"p4", "does not fit its region",
     [](Program &p) { region(train(p, 1), "workspace").bytes -= 4; }},
    // One byte less than planned is refused, not overrun.
    {"p4", "arena's end", [](Program &p) { p.stageList[0].arenaBytes -= 64; }},
    {"p4", "one offset a micro-batch",
     [](Program &p) { train(p, 0).regions[0].offsets.pop_back(); }},
    {"p4", "different modes", [](Program &p) { train(p, 1).microbatches = 1; }},
    {"p4", "lacks a mode", [](Program &p) { p.stageList[1].modes.erase("evaluate"); }},
    {"p4", "0 stages give the result", [](Program &p) { train(p, 1).results.clear(); }},
    {"p4", "must be f32 [N]", [](Program &p) { train(p, 1).results[0].shape = {{1, 0, 0}}; }},
    {"p5", "only one of its stages knows it", [](Program &p) { train(p, 1).transfers[1].id = 5; }},
    {"p5", "differently",
     [](Program &p) { train(p, 1).transfers[0].pieces[0].shape = {{0, 0, 1}, {3, 0, 0}}; }},
    {"p5", "does not fit its region",
     [](Program &p) { train(p, 0).transfers[0].pieces[0].sendOffset = {1 << 20, 0, 0}; }},
    {"p6", "backward is missing", [](Program &p) { erase(train(p, 0), ActionKind::Backward, 1); }},
    {"p6", "backward is missing", [](Program &p) { erase(train(p, 0), ActionKind::WeightGrad, 1); },
     true},
    {"p6", "do not go together",
     [](Program &p) {
       move(train(p, 1), ActionKind::WeightGrad, 0, find(train(p, 1), ActionKind::InputGrad, 0));
     },
     true},
    {"p6", "the chunk has no list for this kind of backward",
     [](Program &p) {
       Mode &mode = train(p, 0);
       erase(mode, ActionKind::WeightGrad, 1);
       mode.actions[find(mode, ActionKind::InputGrad, 1)].kind = ActionKind::Backward;
     },
     true},
    {"p6", "the chunk has no list for this kind of backward",
     [](Program &p) {
       Mode &mode = train(p, 0);
       mode.actions[find(mode, ActionKind::Backward, 1)].kind = ActionKind::InputGrad;
       mode.actions.insert(mode.actions.begin() + find(mode, ActionKind::InputGrad, 1) + 1,
                           {ActionKind::WeightGrad, 1, 0});
     }},
    // The second micro-batch's first half writes where the first one's second half still reads.
    {"p9", "was last written by region \"dlogits\" of micro-batch 1",
     [](Program &p) {
       auto &offsets = region(train(p, 1), "dlogits").offsets;
       offsets[1] = offsets[0];
     },
     true},
    {"p6", "forward is missing", [](Program &p) { erase(train(p, 0), ActionKind::Forward, 1); }},
    {"p6", "occurs twice",
     [](Program &p) {
       train(p, 0).actions[find(train(p, 0), ActionKind::Forward, 1)].microbatch = 0;
     }},
    {"p6", "backward comes before forward",
     [](Program &p) { move(train(p, 1), ActionKind::Forward, 1, 9); }},
    {"p6", "the index is out of range",
     [](Program &p) { train(p, 0).actions[find(train(p, 0), ActionKind::Forward, 1)].index = 3; }},
    {"p6", "its reduce_shared is missing",
     [](Program &p) { erase(train(p, 0), ActionKind::ReduceShared, 0); }},
    {"p6", "its reduce_gradients comes too early",
     [](Program &p) { move(train(p, 0), ActionKind::ReduceGradients, 0, 6); }},
    {"p6", "a step ends with", [](Program &p) { erase(train(p, 0), ActionKind::Update, 0); }},
    {"p6", "only replicas that divide the optimizer's state gather parameters",
     [](Program &p) {
       train(p, 0).actions.push_back({ActionKind::GatherParameters, 0, 0});
     }},
    {"p6", "scatter_gradients does not go with zero 0",
     [](Program &p) {
       train(p, 0).actions[find(train(p, 0), ActionKind::ReduceGradients, 0)].kind =
           ActionKind::ScatterGradients;
     }},
    {"p1", "zero is 2, but 1 is expected", [](Program &p) { p.zero = 2; }, false, true},
    {"p1", "model_parallel is 0; it must lie in [1, 65536]",
     [](Program &p) { p.modelParallel = 0; }},
    {"p1", "model_parallel is 65537; it must lie in [1, 65536]",
     [](Program &p) { p.modelParallel = 65537; }},
    {"p1", "stages x data_parallel x model_parallel are 2^31 ranks or more",
     [](Program &p) {
       p.dataParallel = 65536;
       p.modelParallel = 16384;
     }},
    {"p1", "stages is 4, but stages.json has 2",
     [](Program &p) { // one for all parts of a stage
       p.stages = 4;
       p.modelParallel = 2;
     }},
    {"p1", "zero is 1, but 1 is expected, with several data-parallel ranks",
     [](Program &p) { // parts are no replicas
       p.dataParallel = 1;
       p.modelParallel = 2;
     },
     false, true},
    {"p3", "exactly one copy must be counted",
     [](Program &p) {
       p.modelParallel = 2;
       for (Stage &stage : p.stageList)
         for (Parameter &q : stage.parameters)
           q.counted = true;
     }},
    {"p18", "one share for each of 2 replicas",
     [](Program &p) { // of replicas, not of all that hold the stage
       p.modelParallel = 2;
       p.stageList[0].buckets[0].share->bounds = {0, 0, 0, 0, 66};
     },
     false, true},
    {"p6", "its scatter_gradients is missing",
     [](Program &p) { erase(train(p, 0), ActionKind::ScatterGradients, 0); }, false, true},
    {"p6", "bucket 0: its gather_parameters is missing behind the update",
     [](Program &p) { move(train(p, 0), ActionKind::GatherParameters, 0, 6); }, false, true},
    {"p6", "reduce_gradients does not go with zero 1",
     [](Program &p) {
       const Action sum{ActionKind::ReduceGradients, 0, 0};
       auto &list = train(p, 0).actions;
       list.insert(list.begin() + find(train(p, 0), ActionKind::ScatterGradients, 0), sum);
     },
     false, true},
    {"p18", "it has no shares, but the manifest says zero",
     [](Program &p) { p.stageList[0].buckets[0].share.reset(); }, false, true},
    {"p18", "it has shares, but the manifest does not say zero",
     [](Program &p) { p.stageList[0].buckets[0].share = BucketShare{}; }},
    {"p18", "must ascend from 0 to its 66 elements, one share for each of 2 replicas",
     [](Program &p) { p.stageList[0].buckets[0].share->bounds = {0, 66}; }, false, true},
    {"p18", "must ascend from 0 to its 66 elements",
     [](Program &p) { p.stageList[0].buckets[0].share->bounds = {0, 0, 65}; }, false, true},
    {"p18", "a share begins at element 33, no multiple of 16384",
     [](Program &p) { p.stageList[0].buckets[0].share->bounds = {0, 33, 66}; }, false, true},
    {"p18", "its moments are those of its bucket's shares",
     [](Program &p) { p.stageList[0].parameters[0].moment1Offset = 0; }, false, true},
    {"p18", "it is in no bucket, so no replica has its moments",
     [](Program &p) {
       Bucket &bucket = p.stageList[0].buckets[0];
       bucket.parameters.clear();
       bucket.share->bounds = {0, 0, 0};
     },
     false, true},
    {"p3", "bucket 0 (moment 2) overlap",
     [](Program &p) {
       BucketShare &share = *p.stageList[0].buckets[0].share;
       share.moment2Offset = share.moment1Offset;
     },
     false, true},
    {"p7", "its send is missing", [](Program &p) { erase(train(p, 0), ActionKind::Send, 1); }},
    {"p7", "its post_recv is missing",
     [](Program &p) { erase(train(p, 1), ActionKind::PostRecv, 1); }},
    {"p7", "nothing waits for it", [](Program &p) { erase(train(p, 1), ActionKind::WaitSend, 0); }},
    {"p7", "the wait comes before its post",
     [](Program &p) { move(train(p, 0), ActionKind::WaitSend, 0, 0); }},
    {"p7", "the transfer goes the other way",
     [](Program &p) { train(p, 0).actions[find(train(p, 0), ActionKind::Send, 1)].index = 1; }},
    // Either stage waits for the other's message before it sends its own.
    {"p8", "the stages wait for each other",
     [](Program &p) {
       move(train(p, 0), ActionKind::WaitRecv, 0, 0);
       move(train(p, 0), ActionKind::PostRecv, 0, 0);
       train(p, 0).chunks[0].backward.clear();
     }},
    {"p8", "the stages wait for each other",
     [](Program &p) { // which each part of them does with its like
       p.modelParallel = 3;
       move(train(p, 0), ActionKind::WaitRecv, 0, 0);
       move(train(p, 0), ActionKind::PostRecv, 0, 0);
       train(p, 0).chunks[0].backward.clear();
     }},
    // The gradient is to come before the activation goes.
    {"p11", "wait for each other: stage 0 at transfer 1 of micro-batch 0",
     [](Program &p) { move(train(p, 0), ActionKind::PostRecv, 0, 0); }},
    {"p11", "starts receiving the messages of stage 0 in another order",
     [](Program &p) { move(train(p, 1), ActionKind::PostRecv, 1, 0); }},
    {"p9", "was last written by region \"input_ids\" of micro-batch 1",
     [](Program &p) {
       auto &offsets = region(train(p, 0), "input_ids").offsets;
       offsets[0] = offsets[1];
     }},
    {"p9", "overlaps",
     [](Program &p) { region(train(p, 1), "dh").offsets = region(train(p, 1), "kept").offsets; }},
    {"p9", "was last written by nobody",
     [](Program &p) {
       auto &calls = train(p, 1).chunks[0].forward;
       calls.clear();
     }},
    {"p9", "is bound to no batch value", [](Program &p) { train(p, 0).batchValues.clear(); }},
    {"p12", "patch must lie in [1, 4096]", [](Program &p) { addGrid(p).patch = 0; }},
    {"p12", "merge must lie in", [](Program &p) { addGrid(p).merge = -2; }},
    {"p12", "grid_side is out of range", [](Program &p) { addGrid(p).gridSide = -1; }},
    {"p12", "smaller than a unit of 8", [](Program &p) { addGrid(p).window = 7; }},
    {"p12", "more than 2^31 patches",
     [](Program &p) {
       addGrid(p);
       p.trainModes[0].tilesCap = INT32_MAX / 2;
     }},
    {"p12", "tokens_per_tile is 4",
     [](Program &p) {
       addGrid(p);
       p.info.tokensPerTile = 4;
     }},
    {"p12", "tile_shape must be [4, 96]",
     [](Program &p) {
       addGrid(p);
       p.info.tileShape = {4, 48};
     }},
    {"p12", "info.pictures is missing",
     [](Program &p) { addValue(p, "image_segment_cu_seqlens", {{1, 1, 0}}); }},
    {"p12", "no window or no grid_side",
     [](Program &p) {
       addGrid(p).window = 0;
       addValue(p, "image_window_index", {{0, 1, 0}});
     }},
    {"p12", "its type or shape is not that",
     [](Program &p) {
       addGrid(p);
       addValue(p, "image_position_ids", {{0, 1, 0}, {2, 0, 0}});
     }},
    {"p12", "value \"image_interp_indices\": its type or shape is not that",
     [](Program &p) {
       PictureGrid &grid = addGrid(p);
       grid.gridSide = 7;
       grid.interpolation = Interpolation::Bicubic;
       addValue(p, "image_interp_indices", {{0, 4, 0}, {4, 0, 0}});
     }},
    {"p12", "its type or shape is not that",
     [](Program &p) {
       addGrid(p);
       addValue(p, "image_window_inverse", {{0, 1, 0}}).dtype = DType::I64;
     }},
    {"p13", "its type or shape is not that",
     [](Program &p) { addValue(p, "image_begins", {{0, 1, 0}}); }},
    {"p13", "it needs an image_token_id",
     [](Program &p) {
       addValue(p, "image_seen", {{0, 0, 1}});
       p.info.tokensPerTile = 4;
     }},
    {"p10", "while a message is under way",
     [](Program &p) {
       // The gradient of micro-batch 1 is being received where micro-batch 0's arrived.
       Mode &mode = train(p, 0);
       move(mode, ActionKind::PostRecv, 1, find(mode, ActionKind::Backward, 0));
       auto &offsets = region(mode, "dh").offsets;
       offsets[1] = offsets[0];
     }},
};

INSTANTIATE_TEST_SUITE_P(Rules, BrokenPrograms, testing::ValuesIn(cases), [](const auto &info) {
  return std::string(info.param.rule) + "_" + std::to_string(info.index);
});

} // namespace
} // namespace omnibal::rt
