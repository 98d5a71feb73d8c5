//===- Epilogue.cpp - The end of a step: reductions, clipping, update ---------------===//
#include "runtime/comm/StepSums.h"
#include "runtime/executor/ActionRun.h"
#include "runtime/program/RankGrid.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace omnibal::rt {
namespace {

/// What the ranks add up at the end of a step: of their micro-batches, and what they ask and tell.
enum StepCount {
  Labels,
  Losses,
  Samples,
  Tokens,
  Padded,
  Tiles,
  Flops,
  BatchCounts,
  Stops = BatchCounts,
  Saves,
  Records,
  Saving,
  SaveFailed,
  Damaged,
  AllCounts
};

} // namespace

std::vector<int> Executor::ranksOfStages(const std::function<bool(const Stage &)> &which) const {
  std::vector<int32_t> stages;
  for (int stage = 0; stage < loaded.program.stages; ++stage)
    if (which(loaded.program.stageOf(stage, thePart)))
      stages.push_back(stage);
  return RankGrid(loaded.program).sharersOf(theReplica, stages, thePart);
}

std::vector<int> Executor::ranksOfShared(int32_t group) const {
  return ranksOfStages([&](const Stage &stage) {
    return std::any_of(stage.parameters.begin(), stage.parameters.end(),
                       [&](const Parameter &q) { return q.trainable && q.sharedGroup == group; });
  });
}

std::vector<int> Executor::ranksOfReplicas() const {
  return RankGrid(loaded.program).replicasOf(theStage, thePart);
}

std::vector<int> Executor::ranksOfHolders() const {
  return RankGrid(loaded.program).holdersOf(theStage);
}

Result<Transport::Handle> Executor::startSum(std::span<const FloatRun> runs,
                                             std::span<const int> ranks,
                                             std::optional<Event> after) {
  OMNIBAL_ASSIGN_OR_RETURN(Transport::Handle handle,
                           device.transport->startSum(runs, ranks, after));
  if (tracing)
    impl->sumClock = device.transport->clockOf(handle);
  return handle;
}

Status Executor::reduceShared(int32_t group) {
  const std::vector<int> ranks = ranksOfShared(group);
  std::vector<FloatRun> runs;
  for (const Parameter &q : stageInfo().parameters)
    if (q.trainable && q.sharedGroup == group)
      runs.push_back({at(q.gradOffset), q.elements()});
  OMNIBAL_ASSIGN_OR_RETURN(Transport::Handle handle, startSum(runs, ranks, std::nullopt));
  return device.transport->wait(handle);
}

/// What follows sees the sums of all buckets.
Status Executor::waitForSums() {
  for (Transport::Handle handle : impl->sums)
    OMNIBAL_RETURN_IF_ERROR(device.transport->wait(handle));
  impl->sums.clear();
  return Status::ok();
}

/// What depends on all of the step's micro-batches, which are counted before the first one runs.
/// Losses and gradients are sums over the step's label tokens, or its pairs, until it ends. For the
/// mean of the micro-batches' balancing losses to be what is left after the division, it counts so
/// many times each.
Status Executor::weighLosses(MicrobatchSource &source, const StepOptions &options,
                             StepUnderWay &step) {
  const double coefficient = loaded.program.info.routerLossCoefficient;
  const std::string mode = trainModeName(options.mode);
  const int32_t replicas = loaded.program.dataRanks(mode);
  const bool bySamples = options.bySamples && replicas > 1;
  impl->replicaWeight = 1;
  if (coefficient == 0 && !bySamples)
    return Status::ok();
  if (options.goesOn || !step.counts.empty())
    return {Code::Internal, "losses are weighed in a step of several runs"};
  enum { Losses, Routed, Samples, Counts };
  std::vector<double> counts(Counts);
  for (int32_t m = 0; m < loaded.program.trainModes[options.mode].microbatches; ++m) {
    OMNIBAL_ASSIGN_OR_RETURN(const PackedMicrobatch *batch, source.get(m));
    counts[Losses] += static_cast<double>(batch->losses());
    counts[Routed] += batch->tokens > 0;
    counts[Samples] += static_cast<double>(batch->samples());
  }
  const double own = counts[Samples];
  if (theReplica % loaded.program.degreeOf(mode) != 0) // the first of a context group counts
    counts.assign(Counts, 0);
  if (loaded.program.dataParallel > 1)
    OMNIBAL_RETURN_IF_ERROR(communicator.allReduce(std::span<double>(counts), ranksOfReplicas()));
  if (bySamples && own > 0)
    impl->replicaWeight = counts[Samples] / (replicas * own);
  step.routedMicrobatches = counts[Routed];
  const double divisor = options.lossDivisor.value_or(counts[Losses]);
  impl->routerLossWeight = static_cast<float>(
      counts[Routed] > 0 ? coefficient * divisor / counts[Routed] / impl->replicaWeight : 0);
  return Status::ok();
}

/// Adds what is counted of the micro-batches of a run.
Status Executor::countRun(MicrobatchSource &source, const StepOptions &options,
                          StepUnderWay &step) {
  std::vector<double> &counts = step.counts;
  counts.resize(BatchCounts);
  const PreparedMode &prepared = impl->modes.at(trainModeName(options.mode));
  for (int32_t m = 0; m < prepared.mode->microbatches; ++m) {
    OMNIBAL_ASSIGN_OR_RETURN(const PackedMicrobatch *batch, source.get(m));
    if (prepared.part == 0 || !prepared.meeting.empty()) // else the others do the same
      counts[Flops] += prepared.work->of(prepared.calls[m], *batch);
    if (theStage != 0 || prepared.part != 0)
      continue;
    counts[Labels] += static_cast<double>(batch->labelTokens);
    counts[Losses] += static_cast<double>(batch->losses());
    counts[Samples] += static_cast<double>(batch->samples());
    counts[Tokens] += static_cast<double>(batch->tokens);
    counts[Padded] += static_cast<double>(prepared.rows(batch->tokens) - batch->tokens);
    counts[Tiles] += static_cast<double>(batch->tiles);
  }
  step.damaged |= source.isDamaged();
  return Status::ok();
}

/// What is counted is known to the host; loss and norm are still being computed, and stay where
/// they are.
Status Executor::reduceScalars(MicrobatchSource &source, const StepOptions &options,
                               StepUnderWay &step) {
  OMNIBAL_RETURN_IF_ERROR(countRun(source, options, step));
  std::vector<double> counts = step.counts;
  counts.resize(AllCounts);
  counts[Stops] = options.stop;
  counts[Saves] = options.save;
  counts[Records] = options.record;
  counts[Saving] = options.saving;
  counts[SaveFailed] = options.saveFailed;
  counts[Damaged] = step.damaged;
  std::vector<int> everyone = communicator.everyone();
  OMNIBAL_RETURN_IF_ERROR(communicator.allReduce(std::span<double>(counts), everyone));
  StepResult &result = step.result;
  result.stop = counts[Stops] > 0;
  result.save = counts[Saves] > 0;
  result.record = counts[Records] > 0;
  result.saving = counts[Saving] > 0;
  result.saveFailed = counts[SaveFailed] > 0;
  result.dropped = counts[Damaged] > 0;
  result.labelTokens = std::llround(counts[Labels]);
  result.losses = std::llround(counts[Losses]);
  result.samples = std::llround(counts[Samples]);
  result.tokens = std::llround(counts[Tokens]);
  result.paddedTokens = std::llround(counts[Padded]);
  result.tiles = std::llround(counts[Tiles]);
  result.flops = counts[Flops];
  step.divisor = counts[Losses] > 0 ? options.lossDivisor.value_or(counts[Losses]) : 0;
  std::vector<int> places;
  for (const RankGrid grid(loaded.program); const int rank : everyone)
    places.push_back(grid.numberOf(grid.placeOf(rank)));
  SumsOptions sums{everyone,     communicator.rank(), places,
                   step.divisor, options.clip,        !result.dropped};
  const std::vector<int> sharers = ranksOfReplicas();
  std::vector<int> owners;
  const std::vector<FloatRun> counted = countedGradients(owners);
  sums.counts = readsWeights(); // the sums of gradients are the same on all by now
  if (loaded.program.zero > 0) {
    sums.sharers = sharers;
    sums.owners = owners;
  }
  OMNIBAL_ASSIGN_OR_RETURN(
      step.sums, device.backend->finishSums(
                     sums.counts || loaded.program.zero > 0 ? counted : std::vector<FloatRun>(),
                     *device.transport, sums));
  return Status::ok();
}

std::vector<double> Executor::normsOfStages(std::span<const float> slots, double divisor) const {
  std::vector<double> norms(loaded.program.stages);
  const RankGrid grid(loaded.program);
  for (int i = 0; i < communicator.size(); ++i)
    norms[grid.placeAt(i).stage] += decodeSums(&slots[int64_t{i} * slotFloats]).squaredNorm;
  for (double &norm : norms)
    norm = std::sqrt(norm) / divisor;
  return norms;
}

/// All ranks find the same.
Status Executor::readSums(StepUnderWay &step) {
  Backend &backend = *device.backend;
  OMNIBAL_RETURN_IF_ERROR(backend.reach(step.sums.ready));
  StepResult &result = step.result;
  if (result.dropped)
    return Status::ok();
  const int ranks = communicator.size();
  std::vector<float> slots(int64_t{ranks} * slotFloats);
  std::memcpy(slots.data(), step.sums.data, slots.size() * sizeof(float));
  const std::string start = stepForPeople(step.step) + ": the ";
  // A bad loss makes bad gradients everywhere: it is the better name for the cause.
  const RankGrid grid(loaded.program);
  for (bool ofLoss : {true, false})
    for (int i = 0; i < ranks; ++i) {
      const int rank = grid.rankOf(grid.placeAt(i));
      StepSums sums = decodeSums(&slots[int64_t{i} * slotFloats]);
      if (!std::isfinite(ofLoss ? sums.loss + sums.routerLoss : sums.squaredNorm)) {
        result.undefined = start + (ofLoss ? "loss" : "gradient norm") + " of rank " +
                           std::to_string(rank) + " (" + grid.placeText(rank) +
                           ") is not a finite number; nothing was updated. Lower --lr, raise "
                           "--warmup-steps, or check the data and the weights";
        return Status::ok();
      }
    }
  StepSums total = totalOf(slots.data(), ranks);
  if (!std::isfinite(total.loss + total.routerLoss) || !std::isfinite(total.squaredNorm))
    result.undefined = start + "sum of loss or squared gradients over the ranks is not a finite "
                               "number; nothing was updated. Lower --lr";
  if (step.routedMicrobatches > 0)
    result.routerLoss = total.routerLoss / step.routedMicrobatches;
  if (result.losses > 0) {
    const double losses = static_cast<double>(result.losses);
    result.tokenLoss = total.loss / losses;
    if (loaded.program.info.learnsFromPairs())
      result.rewards = {total.chosenReward / losses, total.rejectedReward / losses,
                        total.preferred / losses};
    result.loss = result.tokenLoss + loaded.program.info.routerLossCoefficient * result.routerLoss;
    result.gradientNorm = std::sqrt(total.squaredNorm) / step.divisor;
    result.normOfStage = normsOfStages(slots, step.divisor);
  }
  return Status::ok();
}

/// When everything was. The pipeline ends with the last rank's last action, which need not be this
/// one's. Clocks of machines differ, but all ranks leave a reduction at the same time: each tells
/// how long before that it was done.
Status Executor::measure(StepUnderWay &step) {
  Backend &backend = *device.backend;
  backend.release(step.sums);
  StepResult &result = step.result;
  auto total = [&](const std::vector<std::pair<Event, Event>> &spans) {
    double sum = 0;
    for (auto [begin, end] : spans)
      sum += seconds(backend.timeOf(end) - backend.timeOf(begin));
    return sum;
  };
  const Clock::time_point begin = backend.timeOf(step.begin), end = backend.timeOf(step.end);
  const double busy = total(step.busy);
  const Communicator::Traffic before = std::exchange(impl->lastTraffic, communicator.traffic());
  std::vector<double> sums = {busy, busy + total(step.tail),
                              static_cast<double>(impl->lastTraffic.messages - before.messages),
                              static_cast<double>(impl->lastTraffic.bytes - before.bytes)};
  const size_t ofStages = sums.size();
  sums.resize(ofStages + loaded.program.stages);
  sums[ofStages + theStage] = sums[1];
  std::vector<int> everyone = communicator.everyone();
  OMNIBAL_RETURN_IF_ERROR(communicator.allReduce(std::span<double>(sums), everyone));
  const Clock::time_point now = Clock::now();
  OMNIBAL_ASSIGN_OR_RETURN(
      const std::vector<double> ago,
      communicator.gatherAll(seconds(now - backend.timeOf(step.pipelineEnd)), everyone));

  const double ranks = communicator.size();
  result.stepSeconds = seconds(end - impl->lastEnd.value_or(begin));
  result.pipelineSeconds =
      seconds(now - begin) - std::max(0.0, *std::min_element(ago.begin(), ago.end()));
  result.epilogueSeconds = std::max(0.0, seconds(end - begin) - result.pipelineSeconds);
  auto unused = [](double used, double time, double byRanks) {
    return time > 0 ? std::clamp(1.0 - used / (time * byRanks), 0.0, 1.0) : 0;
  };
  result.bubble = unused(sums[0], result.pipelineSeconds, ranks);
  result.idle = unused(sums[1], result.stepSeconds, ranks);
  for (int stage = 0; stage < loaded.program.stages; ++stage)
    result.idleOfStage.push_back(
        unused(sums[ofStages + stage], result.stepSeconds, ranks / loaded.program.stages));
  result.messages = sums[2] / ranks;
  result.messageBytes = sums[3] / ranks;
  impl->lastEnd = end;
  backend.forgetEventsBefore(step.end);
  return Status::ok();
}

Status Executor::update(const StepOptions &options, const StepUnderWay &step) {
  impl->updated = false;
  if (options.beforeUpdate) {
    StepUnderWay seen = step;
    OMNIBAL_RETURN_IF_ERROR(readSums(seen));
    if (seen.result.dropped)
      return device.backend->fillZero(gradients());
    // Where sums are no numbers nothing is updated, which finishStep() tells as of any such step.
    if (seen.result.undefined.empty())
      OMNIBAL_RETURN_IF_ERROR(options.beforeUpdate(step.divisor));
  }
  // Without a label every gradient is zero, and weights would still decay: there is no update. Nor
  // is there one from data that nobody has.
  if (step.divisor <= 0 || step.result.dropped)
    return device.backend->fillZero(gradients());
  UpdateOptions rule = options.update;
  rule.kind = loaded.program.optimizer;
  rule.step = ++updates;
  rule.scaleOfStep = true;   // 1 / divisor and clipping, wherever they were computed
  rule.zeroGradients = true; // the next step's sums start here
  OMNIBAL_RETURN_IF_ERROR(device.backend->update(updated(), rule));
  OMNIBAL_RETURN_IF_ERROR(device.backend->average(averaged(), options.averageDecay));
  impl->updated = true;
  return loaded.program.zero > 0 ? device.backend->fillZero(foreignGradients()) : Status::ok();
}

} // namespace omnibal::rt
