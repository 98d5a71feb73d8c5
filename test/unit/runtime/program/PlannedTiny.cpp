#include "test/unit/runtime/program/PlannedTiny.h"
#include "runtime/planner/step/StepProblemJson.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

using planner::BlockBegin;
using planner::BlockEnd;
using planner::Decimal;

constexpr int64_t alignment = 64, messageBytesPerToken = tinyWidth * 4;

int64_t aligned(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

bool isShared(const Region &region) { return region.name == "workspace"; }

/// How long a unit needs a region.
std::pair<BlockBegin, BlockEnd> lifeOf(const Region &region, bool first, bool last) {
  if (region.name == "h")
    return {first ? BlockBegin::Forward : BlockBegin::Receive,
            last ? BlockEnd::Forward : BlockEnd::Send};
  if (region.name == "dh" && !(first && last))
    return {first ? BlockBegin::ReceiveGrad : BlockBegin::InputGrad,
            first ? BlockEnd::WeightGrad : BlockEnd::Send};
  if (region.name == "dlogits")
    return {BlockBegin::InputGrad, BlockEnd::WeightGrad};
  return {BlockBegin::Forward, BlockEnd::WeightGrad};
}

/// The program's own lists have a place for each micro-batch, in the memory that plans divide.
std::vector<planner::Block> placeRegions(Stage &stage, Mode &mode, bool first, bool last) {
  int64_t at = aligned(stage.persistentBytes);
  for (Region &region : mode.regions)
    if (isShared(region)) {
      region.offsets.assign(mode.microbatches, at);
      at += aligned(region.bytes);
    }
  mode.stepOffset = at;
  std::vector<planner::Block> blocks;
  for (Region &region : mode.regions) {
    if (isShared(region))
      continue;
    region.bytes = aligned(region.bytes);
    region.block = StepBlock{stage.id, {static_cast<int32_t>(blocks.size())}, {region.bytes, 0, 0}};
    const auto [begin, end] = lifeOf(region, first, last);
    blocks.push_back({{region.bytes, 0, 0}, begin, end});
    for (int64_t &offset : region.offsets) {
      offset = at;
      at += region.bytes;
    }
  }
  mode.stepBytes = at - mode.stepOffset;
  stage.arenaBytes = std::max(stage.arenaBytes, at);
  return blocks;
}

/// Beside the two halves of its backward, as plans may take either.
void addWholeBackward(const Program &whole, Stage &stage) {
  const auto regionsOf = [](const Mode &mode, const std::string &name) {
    return static_cast<int32_t>(std::find_if(mode.regions.begin(), mode.regions.end(),
                                             [&](const Region &r) { return r.name == name; }) -
                                mode.regions.begin());
  };
  const Mode &other = whole.stageList[stage.id].modes.at("train");
  Mode &mode = stage.modes.at("train");
  std::vector<LayerCall> calls = other.chunks[0].backward;
  for (LayerCall &call : calls) {
    for (Location &l : call.bindings)
      if (l.space == Space::Region)
        l.index = regionsOf(mode, other.regions[l.index].name);
    call.workspaceRegion = regionsOf(mode, other.regions[call.workspaceRegion].name);
  }
  mode.chunks[0].backward = calls;
}

planner::TimeModel timeOf(int64_t fixed, int64_t token) {
  planner::TimeModel time;
  time.fixed = Decimal{fixed, 0};
  time.token = Decimal{token, 0};
  return time;
}

planner::StepChunk chunkOf(int32_t stage, std::vector<planner::Block> blocks) {
  planner::StepVariant variant;
  variant.name = "keep";
  variant.blocks = std::move(blocks);
  variant.times = {timeOf(50, 100), timeOf(60, 200), timeOf(50, 100), timeOf(50, 100)};
  return {planner::ChunkComponent::Language, stage, {variant}};
}

std::vector<planner::StepAction> ownActions(const Mode &mode, int32_t chunk) {
  std::vector<planner::StepAction> actions;
  for (const Action &a : mode.actions)
    if (isCompute(a.kind))
      actions.push_back({static_cast<planner::ActionKind>(a.kind), a.microbatch, 0, chunk});
  return actions;
}

} // namespace

Program plannedTinyProgram(TinyOptions options) {
  options.inBFloat16 = false;
  options.split = false;
  const Program whole = tinyProgram(options);
  options.split = true;
  Program p = tinyProgram(options);
  p.trainModes[0].schedule = "per-step";
  planner::StepProblem problem;
  problem.stages = p.stages;
  problem.microbatches = p.trainModes[0].microbatches;
  problem.tilesCap = p.trainModes[0].tilesCap;
  problem.tokensCap = p.trainModes[0].tokensCap;
  problem.rowBucket = p.rowBucket;
  problem.alignment = alignment;
  problem.link = {100, 1'000'000'000};
  problem.fixed.variants.assign(p.stages, std::vector<int64_t>(p.trainModes[0].microbatches, 0));
  for (Stage &stage : p.stageList) {
    addWholeBackward(whole, stage);
    Mode &mode = stage.modes.at("train");
    for (Transfer &t : mode.transfers) { // a chunk a stage
      t.fromChunk = t.fromStage;
      t.toChunk = t.toStage;
    }
    const bool first = stage.id == 0, last = stage.id + 1 == p.stages;
    problem.chunks.push_back(chunkOf(stage.id, placeRegions(stage, mode, first, last)));
    problem.memoryBytes.push_back(mode.stepBytes);
    problem.fixed.actions.push_back(ownActions(mode, stage.id));
    if (!last)
      problem.edges.push_back(
          {stage.id, stage.id + 1, {0, 0, messageBytesPerToken}, {0, 0, messageBytesPerToken}});
  }
  p.stepProblem = planner::writeStepProblem(problem);
  return p;
}

} // namespace omnibal::rt
