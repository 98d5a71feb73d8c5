//===- Epilogue.cpp - The end of a step: reductions, clipping, update (ARCHITECTURE D3) --===//
#include "runtime/executor/Executor.h"
#include "runtime/executor/ExecutorInternal.h"
#include <algorithm>
#include <cmath>

namespace omnibal::rt {
namespace {

/// As in PyTorch's clip_grad_norm_: keeps the factor finite where the norm is 0.
constexpr double clipEpsilon = 1e-6;

} // namespace

std::vector<int> Executor::ranksOfStages(const std::function<bool(const Stage &)> &which) const {
  std::vector<int> ranks;
  for (const Stage &stage : loaded.program.stageList)
    if (which(stage))
      ranks.push_back(theReplica * loaded.program.stages + stage.id);
  return ranks;
}

std::vector<FloatRun> Executor::gradients(bool countedOnly) {
  std::vector<FloatRun> runs;
  for (const Parameter &q : stageInfo().parameters)
    if (q.trainable && (q.counted || !countedOnly))
      runs.push_back({at(q.gradOffset), q.elements()});
  return runs;
}

std::vector<AdamWTensor> Executor::updated() {
  std::vector<AdamWTensor> tensors;
  for (const Parameter &q : stageInfo().parameters)
    if (q.trainable)
      tensors.push_back(
          {at(q.weightOffset()), at(q.gradOffset), at(q.moment1Offset), at(q.moment2Offset),
           q.elements(), q.decay,
           q.masterOffset < 0 ? nullptr : reinterpret_cast<BFloat16 *>(at(q.dataOffset))});
  return tensors;
}

Status Executor::refreshCopies() { return device.backend->copyParameters(updated()); }

Status Executor::reduceShared(int32_t group) {
  auto member = [&](const Parameter &q) { return q.trainable && q.sharedGroup == group; };
  std::vector<int> ranks = ranksOfStages([&](const Stage &stage) {
    return std::any_of(stage.parameters.begin(), stage.parameters.end(), member);
  });
  for (const Parameter &q : stageInfo().parameters)
    if (member(q))
      OMNIBAL_RETURN_IF_ERROR(
          device.transport->allReduce(std::span<float>(at(q.gradOffset), q.elements()), ranks));
  return Status::ok();
}

Status Executor::reduceBucket(int32_t number) {
  if (loaded.program.dataParallel == 1)
    return Status::ok();
  std::vector<int> ranks;
  for (int d = 0; d < loaded.program.dataParallel; ++d)
    ranks.push_back(d * loaded.program.stages + theStage);
  // Neighbours in the arena go together: fewer messages.
  std::vector<std::pair<int64_t, int64_t>> runs;
  for (int32_t i : stageInfo().buckets[number].parameters) {
    const Parameter &q = stageInfo().parameters[i];
    if (!runs.empty() && runs.back().first + runs.back().second * 4 == q.gradOffset)
      runs.back().second += q.elements();
    else
      runs.push_back({q.gradOffset, q.elements()});
  }
  for (auto [offset, count] : runs)
    OMNIBAL_RETURN_IF_ERROR(
        device.transport->allReduce(std::span<float>(at(offset), count), ranks));
  return Status::ok();
}

Status Executor::reduceScalars(const StepOptions &options, StepResult &result) {
  // Loss, label count, squared norm, tokens, padding, tiles and busy time; then one flag a rank
  // that tells who produced a number that is none.
  enum { Loss, Labels, Norm, Tokens, Padded, Tiles, Busy, Flags };
  std::vector<double> v(Flags + communicator.size());
  for (double loss : impl->losses)
    v[Loss] += loss;
  // Replicas hold the same sums by now: one of them counts.
  if (theReplica == 0) {
    OMNIBAL_ASSIGN_OR_RETURN(v[Norm], device.backend->squaredNorm(gradients(true)));
  }
  v[Labels] = static_cast<double>(result.labelTokens);
  v[Tokens] = static_cast<double>(result.tokens);
  v[Padded] = static_cast<double>(result.paddedTokens);
  v[Tiles] = static_cast<double>(result.tiles);
  v[Busy] = impl->busySeconds;
  v[Flags + communicator.rank()] = !std::isfinite(v[Loss]) ? 1 : !std::isfinite(v[Norm]) ? 2 : 0;
  std::vector<int> everyone = communicator.everyone();
  OMNIBAL_RETURN_IF_ERROR(communicator.allReduce(std::span<double>(v), everyone));
  OMNIBAL_RETURN_IF_ERROR(measurePipeline(result));

  // A bad loss makes bad gradients everywhere: it is the better name for the cause.
  for (int flag : {1, 2})
    for (int r = 0; r < communicator.size(); ++r)
      if (v[Flags + r] == flag)
        return {Code::InvalidArgument,
                "step " + std::to_string(options.step) + ": the " +
                    (flag == 1 ? "loss" : "gradient norm") + " of rank " + std::to_string(r) +
                    " (stage " + std::to_string(r % loaded.program.stages) +
                    ") is not a finite number; nothing was updated. Lower --lr, raise "
                    "--warmup-steps, or check the data and the weights"};
  if (!std::isfinite(v[Loss]) || !std::isfinite(v[Norm]))
    return {Code::InvalidArgument, "step " + std::to_string(options.step) +
                                       ": the sum of loss or squared gradients over the ranks is "
                                       "not a finite number; nothing was updated. Lower --lr"};
  result.labelTokens = std::llround(v[Labels]);
  result.tokens = std::llround(v[Tokens]);
  result.paddedTokens = std::llround(v[Padded]);
  result.tiles = std::llround(v[Tiles]);
  if (result.labelTokens > 0) {
    result.loss = v[Loss] / v[Labels];
    result.gradientNorm = std::sqrt(v[Norm]) / v[Labels];
  }
  double available = result.pipelineSeconds * communicator.size();
  result.bubble = available > 0 ? std::max(0.0, 1.0 - v[Busy] / available) : 0;
  return Status::ok();
}

/// The pipeline ends with the last rank's last action, which need not be this one's. Clocks of
/// machines differ, but all ranks leave a reduction at the same time: each tells how long before
/// that it was done.
Status Executor::measurePipeline(StepResult &result) {
  std::chrono::duration<double> sinceStart = Clock::now() - impl->started;
  std::vector<double> waited(communicator.size());
  waited[communicator.rank()] = sinceStart.count() - result.pipelineSeconds;
  OMNIBAL_RETURN_IF_ERROR(
      communicator.allReduce(std::span<double>(waited), communicator.everyone()));
  result.pipelineSeconds =
      sinceStart.count() - std::max(0.0, *std::min_element(waited.begin(), waited.end()));
  return Status::ok();
}

Status Executor::update(const StepOptions &options, const StepResult &result) {
  if (options.beforeUpdate)
    OMNIBAL_RETURN_IF_ERROR(options.beforeUpdate(static_cast<double>(result.labelTokens)));
  if (result.labelTokens == 0) {
    // Without a label every gradient is zero, and AdamW would still decay: there is no update.
    return device.backend->fillZero(gradients(false));
  }
  AdamWOptions adam = options.adamW;
  adam.step = ++updates;
  adam.gradientScale = 1.0 / static_cast<double>(result.labelTokens);
  if (options.clip > 0)
    adam.gradientScale *= std::min(1.0, options.clip / (result.gradientNorm + clipEpsilon));
  adam.zeroGradients = true; // the next step's sums start here
  return device.backend->adamW(updated(), adam);
}

} // namespace omnibal::rt
