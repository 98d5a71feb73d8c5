//===- Executor.cpp - The action loop ----------------------------------------------------===//
#include "runtime/executor/ActionRun.h"
#include "runtime/program/Names.h"

namespace omnibal::rt {
std::string Executor::recentActions() const {
  std::string text;
  size_t count = std::min(impl->notes, impl->ring.size());
  for (size_t i = impl->notes - count; i < impl->notes; ++i) {
    const Impl::Note &note = impl->ring[i % impl->ring.size()];
    text += (text.empty() ? "" : ", ") + std::string(nameOf(note.action.kind)) + "(mb " +
            std::to_string(note.action.microbatch) + ", " + std::to_string(note.action.index) + ")";
  }
  return text;
}

Status Executor::runActions(const std::string &modeName, MicrobatchSource &source,
                            const ResultSink &sink, const StepOptions *step, StepResult *result) {
  auto found = impl->modes.find(modeName);
  if (found == impl->modes.end())
    return invalid("the program has no mode \"" + modeName + "\"");
  const PreparedMode &prepared = found->second;
  const Mode &mode = *prepared.mode;
  impl->startRun(mode);
  Backend &backend = *device.backend;
  backend.forgetMarks();
  ActionRun run(loaded, prepared, *impl, device.functions, *device.pool, backend, *device.transport,
                device.arena->data(), theReplica, source, sink, tracing);
  Activity activity;
  activity.step = step ? step->step : -1;
  activity.stage = theStage;
  impl->started = Clock::now();
  bool epilogue = false;
  Mark pipelineEnd;
  auto settleAndReduceScalars = [&]() -> Status {
    OMNIBAL_RETURN_IF_ERROR(run.settle()); // what is reduced is known only now
    result->pipelineSeconds = seconds(backend.timeOf(pipelineEnd) - impl->started);
    return reduceScalars(*step, *result);
  };
  auto failure = [&](Status status) {
    return std::move(status).context("rank " + std::to_string(communicator.rank()) + ", " +
                                     toString(activity));
  };
  for (const Action &a : mode.actions) {
    bool perMicrobatch = a.kind <= ActionKind::WaitSend;
    activity.microbatch = perMicrobatch ? a.microbatch : -1;
    activity.action = nameOf(a.kind);
    communicator.announce(activity);
    impl->ring[impl->notes++ % impl->ring.size()] = {found->first.c_str(), a};
    if (!perMicrobatch && !epilogue) {
      epilogue = true;
      pipelineEnd = backend.mark();
    }
    Mark begin = tracing ? backend.mark() : Mark();
    Status status = isCompute(a.kind)                       ? run.compute(a)
                    : perMicrobatch                         ? run.communicate(a)
                    : a.kind == ActionKind::ReduceShared    ? reduceShared(a.index)
                    : a.kind == ActionKind::ReduceGradients ? reduceBucket(a.index)
                    : a.kind == ActionKind::ReduceScalars   ? settleAndReduceScalars()
                                                            : update(*step, *result);
    if (status)
      status = device.arena->checkGuards();
    // All ranks see a number that is none, and the message says whose it is.
    bool everyones = a.kind == ActionKind::ReduceScalars && status.code() == Code::InvalidArgument;
    if (!status && !everyones)
      return failure(std::move(status));
    if (!status)
      return status;
    if (tracing && !perMicrobatch)
      impl->traced.push_back([this, &backend, a, begin, end = backend.mark()] {
        tracing->span(a.kind == ActionKind::Update ? Lane::Compute : Lane::Reduce, nameOf(a.kind),
                      backend.timeOf(begin), backend.timeOf(end), -1, 0, 0);
      });
  }
  if (Status status = run.settle(); !status)
    return failure(std::move(status));
  if (result)
    result->epilogueSeconds = seconds(Clock::now() - impl->started) - result->pipelineSeconds;
  return Status::ok();
}

Status Executor::run(const std::string &mode, MicrobatchSource &source, const ResultSink &sink) {
  if (mode == "train")
    return {Code::Internal, "mode train runs through trainStep()"};
  return runActions(mode, source, sink, nullptr, nullptr);
}

std::span<std::byte> Executor::scratch() {
  const Stage &stage = stageInfo();
  return {device.arena->data() + stage.persistentBytes,
          static_cast<size_t>(stage.arenaBytes - stage.persistentBytes)};
}

Result<StepResult> Executor::trainStep(MicrobatchSource &source, const StepOptions &options) {
  auto found = stageInfo().modes.find("train");
  if (found == stageInfo().modes.end())
    return invalid("the program has no mode \"train\"");
  int32_t microbatches = found->second.microbatches;
  const PreparedMode &prepared = impl->modes.at("train");
  impl->losses.assign(microbatches, 0.0);
  StepResult result;
  ResultSink sink = [&](int32_t microbatch, const BatchValue &value, const std::byte *data,
                        const PackedMicrobatch &batch) {
    if (value.name != "loss")
      return Status::ok();
    const float *losses = reinterpret_cast<const float *>(data);
    double sum = 0;
    for (int64_t t = 0; t < batch.tokens; ++t)
      sum += losses[t];
    impl->losses[microbatch] = sum;
    result.labelTokens += batch.labelTokens;
    return Status::ok();
  };
  if (theStage == 0)
    for (int32_t m = 0; m < microbatches; ++m) {
      OMNIBAL_ASSIGN_OR_RETURN(const PackedMicrobatch *batch, source.get(m));
      result.tiles += batch->tiles;
      result.tokens += batch->tokens;
      result.paddedTokens += prepared.rows(batch->tokens) - batch->tokens;
    }
  OMNIBAL_RETURN_IF_ERROR(runActions("train", source, sink, &options, &result));
  return result;
}

} // namespace omnibal::rt
