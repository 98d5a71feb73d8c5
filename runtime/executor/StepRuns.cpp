#include "runtime/executor/StepRuns.h"
#include "runtime/planner/step/StepProblemJson.h"
#include "runtime/program/Names.h"
#include "runtime/program/Sizes.h"
#include "runtime/program/Verifier.h"
#include <algorithm>
#include <cstdlib>

namespace omnibal::rt {
namespace {

using planner::Block;
using planner::BlockBegin;
using planner::BlockEnd;

constexpr double secondsOfNs = 1e-9;

Status misfits(const std::string &what) {
  return {Code::DataLoss,
          "step-problem.json is not of this program: " + what + "; compile the program again"};
}

/// That the plan runs for a unit of a chunk.
int64_t variantOf(const planner::StepPlan &plan, int32_t chunk, Unit unit) {
  return plan.variants[chunk][unit.microbatch][unit.part];
}

/// The host's transports perform messages as they come.
TransportOrder transportOrder(const Program &program) {
  return program.target == "host" ? TransportOrder::Any : TransportOrder::OneQueue;
}

/// Whether an action of the block's own unit finds it alive.
bool isAliveIn(const Block &block, ActionKind kind) {
  const bool early = block.begin == BlockBegin::Receive || block.begin == BlockBegin::Forward;
  if (kind == ActionKind::Forward)
    return early;
  if (kind == ActionKind::WeightGrad)
    return block.end == BlockEnd::WeightGrad;
  if (kind == ActionKind::Backward && block.isOfSplitOnly())
    return false;
  return !early || block.end == BlockEnd::InputGrad || block.end == BlockEnd::WeightGrad;
}

bool sameSize(const planner::SizeModel &size, const Extent &bytes) {
  return size.constant == bytes.constant && size.tile == bytes.perTile &&
         size.token == bytes.perToken;
}

/// What leaves a chunk is there until its last reader, on this stage or another, has begun.
bool canBeSent(const Block &block) {
  return block.end == BlockEnd::Send || block.begin == BlockBegin::Forward ||
         block.begin == BlockBegin::Receive;
}

} // namespace

Result<std::shared_ptr<StepPlans>> openStepPlans(const Program &program, int64_t takers) {
  OMNIBAL_ASSIGN_OR_RETURN(planner::StepProblem problem,
                           planner::parseStepProblem(program.stepProblem, "step-problem.json"));
  std::vector<Message> messages = messagesOf(problem);
  StepPlansOptions options;
  options.takers = takers;
  options.order = transportOrder(program);
  return std::make_shared<StepPlans>(std::move(problem), std::move(messages), std::move(options));
}

StepRuns::StepRuns(const Program &program, const Stage &stage, int replica,
                   std::shared_ptr<StepPlans> stepPlans)
    : program(program), stage(stage), mode(stage.modes.at("train")), replica(replica),
      plans(std::move(stepPlans)), problem(plans->problem()), messages(plans->messages()),
      sendWaits(mode), verifies(std::getenv("OMNIBAL_VERIFY_STEPS") != nullptr) {}

Result<std::unique_ptr<StepRuns>> StepRuns::open(const Program &program, const Stage &stage,
                                                 int replica, std::shared_ptr<StepPlans> plans) {
  if (!stage.modes.count("train"))
    return invalid("the program has no mode \"train\"");
  if (!plans) {
    OMNIBAL_ASSIGN_OR_RETURN(plans, openStepPlans(program, 1));
  }
  std::unique_ptr<StepRuns> runs(new StepRuns(program, stage, replica, std::move(plans)));
  OMNIBAL_RETURN_IF_ERROR(runs->check());
  OMNIBAL_RETURN_IF_ERROR(runs->checkBlocks());
  OMNIBAL_RETURN_IF_ERROR(runs->findTransfers());
  OMNIBAL_RETURN_IF_ERROR(runs->findDivided());
  return runs;
}

Status StepRuns::check() const {
  const TrainMode &train = program.trainModes[0];
  if (problem.stages != program.stages || problem.microbatches != train.microbatches ||
      problem.tilesCap != train.tilesCap || problem.tokensCap != train.tokensCap ||
      problem.rowBucket != program.rowBucket)
    return misfits("it is for other stages, micro-batches, caps or row buckets");
  if (problem.memoryBytes.empty() || problem.memoryOf(stage.id) > mode.stepBytes)
    return misfits("it has more memory for stage " + std::to_string(stage.id) +
                   " than the stage's arena");
  for (const Chunk &own : mode.chunks) // what follows looks chunks up by their ids
    if (own.id < 0 || own.id >= static_cast<int64_t>(problem.chunks.size()))
      return misfits("it lacks chunk " + std::to_string(own.id));
  for (size_t c = 0; c < problem.chunks.size(); ++c) {
    const auto variants =
        std::count_if(mode.chunks.begin(), mode.chunks.end(),
                      [&](const Chunk &own) { return own.id == static_cast<int32_t>(c); });
    const planner::StepChunk &chunk = problem.chunks[c];
    if ((variants > 0) != (chunk.stage == stage.id) ||
        (variants > 0 && static_cast<size_t>(variants) != chunk.variants.size()))
      return misfits("chunk " + std::to_string(c) + " is on another stage or has other variants");
  }
  return Status::ok();
}

/// Every binding of every action lies in a block that plans keep alive then (rule p9, once for all
/// plans: these keep blocks that are alive together apart).
Status StepRuns::checkBlocks() const {
  std::map<std::pair<int32_t, size_t>, size_t> counts; // by chunk and variant
  for (const Region &region : mode.regions) {
    if (!region.block)
      continue;
    const StepBlock &own = *region.block;
    for (size_t v = 0; v < own.numbers.size(); ++v) {
      if (own.numbers[v] < 0)
        continue;
      const std::vector<Block> &blocks = problem.chunks[own.chunk].variants[v].blocks;
      if (own.numbers[v] >= static_cast<int32_t>(blocks.size()) ||
          !sameSize(blocks[own.numbers[v]].bytes, own.bytes))
        return misfits("region \"" + region.name + "\" has no block of its size");
      ++counts[{own.chunk, v}];
    }
  }
  for (const Chunk &chunk : mode.chunks) {
    if (counts[{chunk.id, chunk.variant}] !=
        problem.chunks[chunk.id].variants[chunk.variant].blocks.size())
      return misfits("chunk " + std::to_string(chunk.id) + " has blocks without regions");
    for (ActionKind kind : computeKinds)
      for (const LayerCall &call : chunk.calls(kind))
        for (const Location &l : call.bindings)
          if (l.space == Space::Region && !isThere(l.index, chunk, kind))
            return misfits("layer \"" + call.layer + "\" uses region \"" +
                           mode.regions[l.index].name + "\" in " + nameOf(kind) +
                           ", when its block is gone");
  }
  for (const Transfer &t : mode.transfers) {
    const bool sends = t.fromStage == stage.id;
    const BlockBegin begin = t.gradient ? BlockBegin::ReceiveGrad : BlockBegin::Receive;
    const int32_t region = sends ? t.sendRegion : t.recvRegion;
    if (!mode.regions[region].block || !holdsInAllVariants(region, [&](const Block &block) {
          return sends ? canBeSent(block) : block.begin == begin;
        }))
      return misfits("the block of transfer " + std::to_string(t.id) + " is not there when it is " +
                     (sends ? "sent" : "received"));
  }
  return Status::ok();
}

/// Whether plans keep the region while an action of the chunk runs: its own one, or what another
/// chunk made, in whichever variant.
bool StepRuns::isThere(int32_t region, const Chunk &chunk, ActionKind kind) const {
  const std::optional<StepBlock> &own = mode.regions[region].block;
  if (!own)
    return true;
  if (own->chunk != chunk.id)
    return holdsInAllVariants(region, canBeSent);
  const int32_t number = own->numbers[chunk.variant]; // rule p14: there is one
  return isAliveIn(problem.chunks[chunk.id].variants[chunk.variant].blocks[number], kind);
}

bool StepRuns::holdsInAllVariants(int32_t region,
                                  const std::function<bool(const Block &)> &holds) const {
  const StepBlock &own = *mode.regions[region].block;
  for (size_t v = 0; v < own.numbers.size(); ++v)
    if (own.numbers[v] < 0 || !holds(problem.chunks[own.chunk].variants[v].blocks[own.numbers[v]]))
      return false;
  return true;
}

Status StepRuns::findTransfers() {
  chunkOf.resize(problem.chunks.size());
  for (size_t c = 0; c < mode.chunks.size(); ++c)
    chunkOf[mode.chunks[c].id].push_back(static_cast<int32_t>(c));
  for (size_t r = 0; r < mode.regions.size(); ++r)
    if (const std::optional<StepBlock> &block = mode.regions[r].block)
      for (size_t v = 0; v < block->numbers.size(); ++v)
        if (block->numbers[v] >= 0)
          regionOf[{block->chunk, static_cast<int32_t>(v), block->numbers[v]}] =
              static_cast<int32_t>(r);
  for (const Message &message : messages) {
    auto found = std::find_if(mode.transfers.begin(), mode.transfers.end(), [&](const auto &t) {
      return t.gradient == message.gradient && t.fromChunk == message.fromChunk &&
             t.toChunk == message.toChunk;
    });
    const bool isOurs = message.fromStage == stage.id || message.toStage == stage.id;
    if (isOurs != (found != mode.transfers.end()))
      return misfits("the message from chunk " + std::to_string(message.fromChunk) + " to " +
                     std::to_string(message.toChunk) + " is missing in one of them");
    transferOf.push_back(isOurs ? static_cast<int32_t>(found - mode.transfers.begin()) : -1);
  }
  if (std::count_if(transferOf.begin(), transferOf.end(), [](int32_t t) { return t >= 0; }) !=
      static_cast<int64_t>(mode.transfers.size()))
    return misfits("it lacks a message of the program");
  return Status::ok();
}

/// Finds what runs for each sub-micro-batch. Everything between a divided and an undivided side
/// must have its tiles one after the other.
Status StepRuns::findDivided() {
  auto isDivided = [&](int32_t chunk) {
    return problem.chunks[chunk].component == planner::ChunkComponent::Vision;
  };
  for (const Chunk &chunk : mode.chunks)
    divided.chunks.push_back(isDivided(chunk.id));
  for (const Region &region : mode.regions) {
    divided.regions.push_back(region.block && isDivided(region.block->chunk));
    divided.joined.push_back(region.block && !isDivided(region.block->chunk));
  }
  for (const Transfer &t : mode.transfers)
    divided.transfers.push_back(isDivided(t.fromChunk) || isDivided(t.toChunk));
  return problem.mostParts > 1 ? checkDivided() : Status::ok();
}

Status StepRuns::checkDivided() const {
  auto scattered = [](const std::string &what) {
    return misfits(what + " cannot be divided by tiles, but it has sub-micro-batches");
  };
  for (const BatchValue &value : mode.batchValues)
    if (divided.regions[value.region] &&
        (value.name != "pixel_values" || bytesOfTile(value.dtype, value.shape) == 0))
      return scattered("batch value \"" + value.name + "\"");
  for (size_t t = 0; t < mode.transfers.size(); ++t)
    for (const Piece &piece : mode.transfers[t].pieces)
      if (divided.transfers[t] && bytesOfTile(piece.dtype, piece.shape) == 0)
        return scattered("transfer " + std::to_string(mode.transfers[t].id));
  for (size_t c = 0; c < mode.chunks.size(); ++c)
    for (ActionKind kind : computeKinds)
      for (const LayerCall &call : mode.chunks[c].calls(kind))
        OMNIBAL_RETURN_IF_ERROR(checkDivided(divided.chunks[c], call));
  return Status::ok();
}

/// Where a layer copies from a divided chunk to an undivided one or back.
Status StepRuns::checkDivided(bool inDividedChunk, const LayerCall &call) const {
  auto isOfOtherSide = [&](const Location &l) {
    return l.space == Space::Region &&
           (inDividedChunk ? divided.joined[l.index] : divided.regions[l.index]);
  };
  if (std::none_of(call.bindings.begin(), call.bindings.end(), isOfOtherSide))
    return Status::ok();
  const Function &function = program.functions[call.function];
  for (size_t i = 0; i < call.bindings.size(); ++i)
    if (call.bindings[i].space != Space::Region ||
        bytesOfTile(function.buffers[i].dtype, function.buffers[i].shape) == 0)
      return misfits("layer \"" + call.layer +
                     "\" cannot be divided by tiles, but it has sub-micro-batches");
  return Status::ok();
}

/// The stage's part of the plan with its messages, in the program's numbers.
std::vector<Action> StepRuns::ownActions(const PlannedStep &planned, const StepRun &run,
                                         std::span<const RunLoad> sizes) const {
  std::vector<Action> actions = planned.lists[stage.id];
  for (Action &a : actions)
    a.index = isCompute(a.kind) ? chunkOf[a.index][variantOf(planned.plan, a.index, a.unit())]
                                : transferOf[a.index];
  return withEpilogue(stage, mode, sendWaits.delayed(actions, run.plan, sizes));
}

void StepRuns::placeBlocks(const planner::StepPlan &plan, std::span<const RunLoad> sizes,
                           StepRun &run) const {
  run.plan = {.actions = {},
              .offsets = ownPlan(mode).offsets,
              .ofStep = true,
              .mostParts = static_cast<int32_t>(problem.mostParts),
              .borders = plan.borders,
              .divided = problem.mostParts > 1 ? &divided : nullptr};
  run.offsets.resize(mode.regions.size());
  for (size_t r = 0; r < mode.regions.size(); ++r) {
    if (!mode.regions[r].block)
      continue;
    const bool isDivided = run.plan.isDividedRegion(static_cast<int32_t>(r));
    run.offsets[r].assign(mode.microbatches * (isDivided ? problem.mostParts : 1),
                          mode.stepOffset); // micro-batches without units have no blocks
    run.plan.offsets[r] = run.offsets[r].data();
  }
  for (const planner::BlockPlace &place : plan.places[stage.id]) {
    const Unit unit{place.microbatch, place.part};
    const auto variant = static_cast<int32_t>(variantOf(plan, place.chunk, unit));
    const int32_t region = regionOf.at({place.chunk, variant, place.block});
    const int64_t begin = mode.stepOffset + place.offset;
    const bool isDivided = run.plan.isDividedRegion(region);
    run.offsets[region][isDivided ? place.microbatch * problem.mostParts + place.part
                                  : place.microbatch] = begin;
    const RunLoad &whole = sizes[place.microbatch];
    const RunLoad size = run.plan.sizeOf(region, run.plan.tilesOf(unit, whole.tiles), whole);
    run.facts.arenaUsed = std::max(
        run.facts.arenaUsed, place.offset + mode.regions[region].bytesAt(size.tiles, size.tokens));
  }
}

Result<planner::StepLoads> loadsOf(int64_t step, int32_t microbatches, MicrobatchSource &source) {
  std::vector<MicrobatchWeight> weights;
  for (int32_t m = 0; m < microbatches; ++m) {
    OMNIBAL_ASSIGN_OR_RETURN(const PackedMicrobatch *batch, source.get(m));
    weights.push_back(weightOf(*batch));
  }
  return loadsOf(step, weights);
}

planner::StepLoads loadsOf(int64_t step, std::span<const MicrobatchWeight> weights) {
  planner::StepLoads loads;
  loads.step = step;
  for (const MicrobatchWeight &weight : weights)
    loads.microbatches.push_back(
        {{weight.tiles, weight.tokens, weight.squaredTokens, 0}, std::nullopt});
  return loads;
}

Result<std::unique_ptr<StepRun>> StepRuns::of(int64_t step, MicrobatchSource &source) {
  OMNIBAL_ASSIGN_OR_RETURN(planner::StepLoads loads, loadsOf(step, mode.microbatches, source));
  OMNIBAL_ASSIGN_OR_RETURN(TakenStep taken, plans->take(replica, loads));
  const PlannedStep &planned = *taken.step;
  if (std::vector<MicrobatchWeight> next = source.next(); !next.empty())
    OMNIBAL_RETURN_IF_ERROR(plans->expect(replica, loadsOf(step + 1, next)));
  std::vector<RunLoad> sizes;
  for (const planner::MicrobatchLoad &each : loads.microbatches)
    sizes.push_back(RunLoad::of(each.load.tiles, program.roundedTokens(each.load.tokens),
                                stage.part, program.modelParallel));
  auto run = std::make_unique<StepRun>();
  run->planned = taken.step;
  run->facts.hasLists = planned.plan.method == planner::StepMethod::Lists;
  run->facts.planSeconds = planned.planMs * 1e-3;
  run->facts.waitSeconds = taken.waitMs * 1e-3;
  run->facts.predictedSeconds = static_cast<double>(planned.plan.stepNs) * secondsOfNs;
  run->facts.boundSeconds = static_cast<double>(planned.plan.boundNs) * secondsOfNs;
  run->facts.staticSeconds = static_cast<double>(planned.plan.staticNs) * secondsOfNs;
  run->facts.recomputed = planned.recomputed;
  if (run->facts.hasLists) {
    placeBlocks(planned.plan, sizes, *run);
    run->actions = ownActions(planned, *run, sizes);
    run->plan.actions = run->actions;
    for (const std::vector<int64_t> &borders : planned.plan.borders)
      run->facts.divided += borders.size() > 2;
  } else {
    run->plan = ownPlan(mode);
    run->facts.arenaUsed = mode.stepBytes;
  }
  run->completions = findCompletions(stage, mode, run->plan.actions);
  if (verifies)
    OMNIBAL_RETURN_IF_ERROR(verify(planned, *run, loads, sizes));
  return run;
}

Status StepRuns::verify(const PlannedStep &planned, const StepRun &run,
                        const planner::StepLoads &loads, std::span<const RunLoad> sizes) const {
  if (!run.facts.hasLists)
    return Status::ok(); // the program's own were verified with it
  OMNIBAL_RETURN_IF_ERROR(checkStep(problem, loads, planned, messages, transportOrder(program)));
  return verifyMemoryOf(program, stage, "train", run.plan, sizes)
      .context("the plan of step " + std::to_string(loads.step));
}

} // namespace omnibal::rt
