//===- Executor.cpp - The action loop ----------------------------------------------------===//
#include "runtime/executor/ActionRun.h"
#include "runtime/program/Names.h"
#include <algorithm>
#include <utility>

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
                            const ResultSink &sink, const StepOptions *options,
                            StepUnderWay *step) {
  auto found = impl->modes.find(modeName);
  if (found == impl->modes.end())
    return invalid("the program has no mode \"" + modeName + "\"");
  const PreparedMode &prepared = found->second;
  if (!step || !impl->stepRuns)
    return runPlan(modeName, prepared.plan, prepared.completions, source, sink, options, step);
  auto planned = impl->stepRuns->of(options->run.value_or(options->step), source);
  if (!planned)
    return std::move(planned).status().context("rank " + std::to_string(communicator.rank()) +
                                               ", " + stepForPeople(options->step));
  StepPlanFacts facts = (*planned)->facts;
  if (step->result.plan)
    facts.add(*step->result.plan);
  step->result.plan = facts;
  Status status =
      runPlan(modeName, (*planned)->plan, (*planned)->completions, source, sink, options, step);
  if (status && tracing)
    tracing->plan(*(*planned)->planned, device.backend->timeOf(step->runBegin));
  return status;
}

Status Executor::runPlan(const std::string &modeName, const RunPlan &plan,
                         const Completions &completions, MicrobatchSource &source,
                         const ResultSink &sink, const StepOptions *options, StepUnderWay *step) {
  auto found = impl->modes.find(modeName);
  const PreparedMode &prepared = found->second;
  impl->startRun();
  device.functions.meetWith(prepared.meeting);
  Backend &backend = *device.backend;
  ActionRun run(loaded, prepared, plan, completions, *impl, device.functions, *device.pool, backend,
                *device.transport, device.arena->data(), RankPlace{theReplica, theStage, thePart},
                source, sink, tracing);
  Activity activity;
  activity.step = options ? options->step : -1;
  activity.stage = theStage;
  if (loaded.program.modelParallel > 1)
    activity.part = thePart;
  auto failure = [&](Status status) {
    return std::move(status).context("rank " + std::to_string(communicator.rank()) + ", " +
                                     toString(activity));
  };
  auto perMicrobatch = [](const Action &a) { return a.kind <= ActionKind::WaitSend; };
  const size_t pipeline = std::find_if(plan.actions.rbegin(), plan.actions.rend(), perMicrobatch) -
                          plan.actions.rbegin();
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    const Action &a = plan.actions[i];
    if (options && options->goesOn && !perMicrobatch(a))
      continue;
    activity.microbatch = perMicrobatch(a) ? a.microbatch : -1;
    activity.action = nameOf(a.kind);
    communicator.announce(activity);
    impl->ring[impl->notes++ % impl->ring.size()] = {found->first.c_str(), a};
    Status status = a.kind == ActionKind::ReduceScalars ? waitForSums() : Status::ok();
    if (!status)
      return failure(std::move(status));
    Event begin = perMicrobatch(a) ? Event() : backend.recordEvent();
    impl->sumClock = nullptr;
    status = isCompute(a.kind)                        ? run.compute(a)
             : perMicrobatch(a)                       ? run.communicate(a)
             : a.kind == ActionKind::ReduceShared     ? reduceShared(a.index)
             : a.kind == ActionKind::ReduceGradients  ? reduceBucket(a.index)
             : a.kind == ActionKind::ScatterGradients ? scatterBucket(a.index)
             : a.kind == ActionKind::ReduceScalars    ? reduceScalars(source, *options, *step)
             : a.kind == ActionKind::GatherParameters ? gatherBucket(a.index)
                                                      : update(*options, *step);
    if (status)
      status = device.arena->checkGuards();
    if (!status && status.code() == Code::InvalidArgument && a.kind == ActionKind::Update)
      return status; // everyone's: it names the rank
    if (!status)
      return failure(std::move(status));
    if (step && i + 1 == plan.actions.size() - pipeline)
      step->pipelineEnd = backend.recordEvent();
    if (perMicrobatch(a))
      continue;
    Event end = backend.recordEvent();
    // Alone, a rank waits for nobody in a reduction.
    if (a.kind == ActionKind::Update || communicator.size() == 1)
      step->tail.push_back({begin, end});
    if (tracing)
      impl->traced.push_back([this, &backend, a, begin, end, clock = std::move(impl->sumClock)] {
        const TimeSpan span =
            clock ? clock() : TimeSpan{backend.timeOf(begin), backend.timeOf(end)};
        tracing->span(a.kind == ActionKind::Update ? Lane::Compute : Lane::Reduce, nameOf(a.kind),
                      span.begin, span.end, -1, 0, 0);
      });
  }
  if (step && !tracing)
    return Status::ok(); // the host goes on
  Status status = run.settle();
  return status ? Status::ok() : failure(std::move(status));
}

Status Executor::run(const std::string &mode, MicrobatchSource &source, const ResultSink &sink) {
  if (trainModeNumber(mode))
    return {Code::Internal, "mode " + mode + " runs through trainStep()"};
  if (!impl->steps.empty() || impl->begun)
    return {Code::Internal, "a mode is run while a training step is under way"};
  device.backend->forgetEvents();
  return runActions(mode, source, sink, nullptr, nullptr);
}

std::span<std::byte> Executor::scratch() {
  const Stage &stage = stageInfo();
  return {device.arena->data() + stage.persistentBytes,
          static_cast<size_t>(stage.arenaBytes - stage.persistentBytes)};
}

Result<StepResult> Executor::trainStep(MicrobatchSource &source, const StepOptions &options) {
  OMNIBAL_RETURN_IF_ERROR(startStep(source, options));
  OMNIBAL_ASSIGN_OR_RETURN(StepResult result, finishStep());
  if (!result.undefined.empty())
    return invalid(result.undefined);
  return result;
}

Status Executor::startStep(MicrobatchSource &source, const StepOptions &options) {
  const std::string mode = trainModeName(options.mode);
  if (!stageInfo().modes.count(mode))
    return invalid("the program has no mode \"" + mode + "\"");
  Backend &backend = *device.backend;
  if (impl->steps.empty() && !impl->begun) {
    backend.forgetEvents();
    impl->lastEnd.reset();
  }
  const bool isFirst = !impl->begun;
  StepUnderWay step = isFirst ? StepUnderWay() : *std::exchange(impl->begun, std::nullopt);
  step.step = options.step;
  step.runBegin = backend.recordEvent();
  if (isFirst)
    step.begin = step.runBegin;
  if (Status status = weighLosses(source, options, step); !status)
    return std::move(status).context("rank " + std::to_string(communicator.rank()) + ", " +
                                     stepForPeople(step.step));
  OMNIBAL_RETURN_IF_ERROR(runActions(mode, source, nullptr, &options, &step));
  step.busy.insert(step.busy.end(), impl->busy.begin(), impl->busy.end());
  impl->busy.clear();
  if (options.goesOn) {
    OMNIBAL_RETURN_IF_ERROR(countRun(source, options, step));
    impl->begun = std::move(step);
    return Status::ok();
  }
  step.end = backend.recordEvent();
  impl->steps.push_back(std::move(step));
  return Status::ok();
}

Result<StepResult> Executor::finishStep() {
  if (impl->steps.empty())
    return Status(Code::Internal, "no training step is under way");
  StepUnderWay step = std::move(impl->steps.front());
  impl->steps.pop_front();
  OMNIBAL_RETURN_IF_ERROR(readSums(step));
  if (Status status = device.backend->reach(step.end); !status)
    return std::move(status).context("rank " + std::to_string(communicator.rank()) + ", " +
                                     stepForPeople(step.step));
  OMNIBAL_RETURN_IF_ERROR(measure(step));
  if (Status status = checkCopies(); !status)
    return std::move(status).context(stepForPeople(step.step));
  return step.result;
}

Status Executor::forgetUndefinedStep(int64_t count) {
  if (!impl->steps.empty())
    return {Code::Internal, "a step is forgotten while one is under way"};
  updates = count;
  OMNIBAL_RETURN_IF_ERROR(device.backend->restartSums());
  return device.backend->fillZero(gradients());
}

bool Executor::wasDropped() const {
  return !impl->steps.empty() && impl->steps.back().result.dropped;
}

void Executor::forgetTraffic() { impl->lastTraffic = communicator.traffic(); }

int Executor::stepsUnderWay() const { return static_cast<int>(impl->steps.size()); }

} // namespace omnibal::rt
