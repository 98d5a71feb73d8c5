//===- Executor.cpp - The action loop ----------------------------------------------------===//
#include "runtime/executor/Executor.h"
#include "runtime/executor/ExecutorInternal.h"
#include "runtime/program/Names.h"
#include <cstring>

namespace omnibal::rt {
namespace {

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

bool isCompute(ActionKind kind) { return kind <= ActionKind::WeightGrad; }

/// One letter, as in pictures of schedules.
const char *shortName(ActionKind kind) {
  const char *names[] = {"F", "B", "I", "W"};
  return names[static_cast<size_t>(kind)];
}

/// Of both signs, none near zero: kernels meet no denormal numbers, which would be slow. Their
/// count is odd, so that rows differ.
std::vector<float> smallNumbers(float scale) {
  std::vector<float> numbers(4099);
  uint32_t state = 1;
  for (float &number : numbers) {
    state = state * 1664525u + 1013904223u;
    float size = 0.1f + static_cast<float>(state >> 16 & 0xff) / 128.0f;
    number = (state >> 31 ? size : -size) * scale;
  }
  return numbers;
}

/// Runs one mode's action list once.
class Run {
public:
  Run(const LoadedProgram &loaded, const PreparedMode &prepared, Executor::Impl &state,
      FunctionTable &functions, ThreadPool &pool, Communicator &communicator, std::byte *arena,
      int replica, MicrobatchSource &source, const ResultSink &sink, Trace *trace,
      const LayerClock *clock = nullptr)
      : program(loaded.program), prepared(prepared), mode(*prepared.mode), state(state),
        functions(functions), pool(pool), communicator(communicator), arena(arena),
        replica(replica), source(source), sink(sink), trace(trace), clock(clock) {}

  Status compute(const Action &a) {
    OMNIBAL_ASSIGN_OR_RETURN(const PackedMicrobatch *batch, source.get(a.microbatch));
    const PreparedPhase &phase = prepared.chunks[a.index][static_cast<size_t>(a.kind)];
    auto begin = Clock::now(), layerBegin = begin;
    for (int32_t number : phase.batchValues)
      OMNIBAL_RETURN_IF_ERROR(provide(number, a.microbatch, *batch));
    for (const PreparedLayer &layer : phase.layers) {
      formals.clear();
      for (const PreparedBinding &b : layer.bindings)
        formals.push_back(address(b, a.microbatch));
      Status status =
          functions.run(layer.call->function, formals, address(layer.workspace, a.microbatch),
                        batch->tiles, batch->tokens, pool, trace);
      if (!status)
        return std::move(status).context("layer \"" + layer.call->layer + "\"");
      communicator.progress();
      if (clock) {
        auto layerEnd = Clock::now();
        (*clock)(*layer.call, a.kind, layerEnd - layerBegin);
        layerBegin = layerEnd;
      }
    }
    auto end = Clock::now();
    state.busySeconds += seconds(end - begin);
    if (trace)
      record(a, phase, *batch, begin, end);
    for (int32_t number : phase.results) {
      const BatchValue &r = mode.results[number];
      const Region &region = mode.regions[r.region];
      OMNIBAL_RETURN_IF_ERROR(
          sink(a.microbatch, r, arena + region.offsets[a.microbatch] + r.offset, *batch));
    }
    return Status::ok();
  }

  /// Stands for a message that was received: numbers of an activation's or a gradient's size.
  Status pretendToReceive(const Action &a, std::span<const float> numbers) {
    OMNIBAL_ASSIGN_OR_RETURN(const PackedMicrobatch *batch, source.get(a.microbatch));
    const Transfer &t = mode.transfers[a.index];
    for (const Piece &p : t.pieces) {
      int64_t count = 1;
      for (const Extent &e : p.shape)
        count *= e.evaluate(batch->tiles, batch->tokens);
      std::byte *to = arena + mode.regions[t.recvRegion].offsets[a.microbatch] + p.recvOffset;
      for (int64_t done = 0; done < count; done += numbers.size())
        std::memcpy(to + done * sizeof(float), numbers.data(),
                    std::min<int64_t>(count - done, numbers.size()) * sizeof(float));
    }
    return Status::ok();
  }

  Status communicate(const Action &a) {
    const Transfer &t = mode.transfers[a.index];
    std::pair<int32_t, int32_t> key{a.index, a.microbatch};
    bool sends = a.kind == ActionKind::Send || a.kind == ActionKind::WaitSend;
    int64_t tag = int64_t{t.id} * mode.microbatches + a.microbatch;
    auto begin = Clock::now();
    OMNIBAL_ASSIGN_OR_RETURN(const PackedMicrobatch *batch, source.get(a.microbatch));
    int64_t bytes = 0;
    if (a.kind == ActionKind::Send || a.kind == ActionKind::PostRecv) {
      const Region &region = mode.regions[sends ? t.sendRegion : t.recvRegion];
      pieces.clear();
      for (const Piece &p : t.pieces) {
        int64_t size = sizeof(float);
        for (const Extent &e : p.shape)
          size *= e.evaluate(batch->tiles, batch->tokens);
        pieces.push_back(
            {arena + region.offsets[a.microbatch] + (sends ? p.sendOffset : p.recvOffset), size});
        bytes += size;
      }
      int peer = replica * program.stages + (sends ? t.toStage : t.fromStage);
      OMNIBAL_ASSIGN_OR_RETURN(state.handles[key], sends ? communicator.send(peer, tag, pieces)
                                                         : communicator.receive(peer, tag, pieces));
    } else {
      Communicator::Handle handle = state.handles[key];
      state.handles.erase(key);
      OMNIBAL_RETURN_IF_ERROR(communicator.wait(handle));
    }
    if (!trace)
      return Status::ok();
    auto end = Clock::now();
    // Posting a receive takes no time worth a bar; the wait shows what the rank waited for.
    if (a.kind != ActionKind::PostRecv)
      trace->span(sends ? Lane::Send : Lane::Receive, nameOf(a.kind), begin, end, a.microbatch,
                  batch->tiles, batch->tokens, bytes);
    int64_t flow = (tag * program.dataParallel + replica) + 1;
    if (a.kind == ActionKind::Send)
      trace->flow(Lane::Send, flow, begin, true);
    if (a.kind == ActionKind::WaitRecv)
      trace->flow(Lane::Receive, flow, end, false);
    return Status::ok();
  }

private:
  std::byte *address(const PreparedBinding &b, int32_t microbatch) const {
    return b.base + (b.region ? b.region->offsets[microbatch] : 0);
  }

  Status provide(int32_t number, int32_t microbatch, const PackedMicrobatch &batch) {
    char &done = state.provided[number * mode.microbatches + microbatch];
    if (done)
      return Status::ok();
    done = 1;
    const BatchValue &value = mode.batchValues[number];
    OMNIBAL_ASSIGN_OR_RETURN(auto data, batchData(value, batch));
    if (data.second > 0)
      std::memcpy(arena + mode.regions[value.region].offsets[microbatch] + value.offset, data.first,
                  data.second);
    return Status::ok();
  }

  void record(const Action &a, const PreparedPhase &phase, const PackedMicrobatch &batch,
              Clock::time_point begin, Clock::time_point end) {
    trace->span(Lane::Compute, shortName(a.kind), begin, end, a.microbatch, batch.tiles,
                batch.tokens);
    auto keptBy = [&](ActionKind kind) {
      int64_t kept = 0;
      for (const Extent &e : prepared.chunks[a.index][static_cast<size_t>(kind)].kept)
        kept += e.evaluate(batch.tiles, batch.tokens);
      return kept;
    };
    if (a.kind == ActionKind::Forward || a.kind == ActionKind::InputGrad)
      state.activationBytes += keptBy(a.kind);
    else
      state.activationBytes -= keptBy(ActionKind::Forward);
    if (a.kind == ActionKind::WeightGrad)
      state.activationBytes -= keptBy(ActionKind::InputGrad);
    trace->memory(end, state.activationBytes);
  }

  const Program &program;
  const PreparedMode &prepared;
  const Mode &mode;
  Executor::Impl &state;
  FunctionTable &functions;
  ThreadPool &pool;
  Communicator &communicator;
  std::byte *arena;
  int replica;
  MicrobatchSource &source;
  const ResultSink &sink;
  Trace *trace;
  const LayerClock *clock;
  std::vector<std::byte *> formals;
  std::vector<Communicator::Piece> pieces;
};

} // namespace

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
  impl->provided.assign(mode.batchValues.size() * mode.microbatches, 0);
  impl->handles.clear();
  impl->busySeconds = 0;
  impl->activationBytes = 0;
  Run run(loaded, prepared, *impl, functions, threads, communicator, arena.data(), theReplica,
          source, sink, tracing);
  Activity activity;
  activity.step = step ? step->step : -1;
  activity.stage = theStage;
  impl->started = Clock::now();
  bool epilogue = false;
  for (const Action &a : mode.actions) {
    bool perMicrobatch = a.kind <= ActionKind::WaitSend;
    activity.microbatch = perMicrobatch ? a.microbatch : -1;
    activity.action = nameOf(a.kind);
    communicator.announce(activity);
    impl->ring[impl->notes++ % impl->ring.size()] = {found->first.c_str(), a};
    if (!perMicrobatch && !epilogue) {
      epilogue = true;
      result->pipelineSeconds = seconds(Clock::now() - impl->started);
    }
    auto begin = Clock::now();
    Status status;
    if (isCompute(a.kind))
      status = run.compute(a);
    else if (perMicrobatch)
      status = run.communicate(a);
    else if (a.kind == ActionKind::ReduceShared)
      status = reduceShared(a.index);
    else if (a.kind == ActionKind::ReduceGradients)
      status = reduceBucket(stageInfo().buckets[a.index]);
    else if (a.kind == ActionKind::ReduceScalars)
      status = reduceScalars(*step, *result);
    else
      status = update(*step, *result);
    if (status)
      status = arena.checkGuards();
    // All ranks see a number that is none, and the message says whose it is.
    bool everyones = a.kind == ActionKind::ReduceScalars && status.code() == Code::InvalidArgument;
    if (!status && !everyones)
      return std::move(status).context("rank " + std::to_string(communicator.rank()) + ", " +
                                       toString(activity));
    if (!status)
      return status;
    if (tracing && !perMicrobatch)
      tracing->span(a.kind == ActionKind::Update ? Lane::Compute : Lane::Reduce, nameOf(a.kind),
                    begin, Clock::now(), -1, 0, 0);
  }
  if (result)
    result->epilogueSeconds = seconds(Clock::now() - impl->started) - result->pipelineSeconds;
  return Status::ok();
}

Status Executor::run(const std::string &mode, MicrobatchSource &source, const ResultSink &sink) {
  if (mode == "train")
    return {Code::Internal, "mode train runs through trainStep()"};
  return runActions(mode, source, sink, nullptr, nullptr);
}

Result<Rehearsal> Executor::rehearse(MicrobatchSource &source, const LayerClock &clock) {
  auto found = impl->modes.find("train");
  if (found == impl->modes.end())
    return invalid("the program has no mode \"train\"");
  const PreparedMode &prepared = found->second;
  const Mode &mode = *prepared.mode;
  impl->provided.assign(mode.batchValues.size() * mode.microbatches, 0);
  ResultSink sink = [](int32_t, const BatchValue &, const std::byte *, const PackedMicrobatch &) {
    return Status::ok();
  };
  Run run(loaded, prepared, *impl, functions, threads, communicator, arena.data(), theReplica,
          source, sink, nullptr, &clock);
  std::vector<float> activation = smallNumbers(1.0f), gradient = smallNumbers(1e-3f);
  Rehearsal result;
  for (const Action &a : mode.actions) {
    if (isCompute(a.kind)) {
      auto begin = Clock::now();
      OMNIBAL_RETURN_IF_ERROR(run.compute(a));
      result.total += Clock::now() - begin;
      ++result.actions;
    } else if (a.kind == ActionKind::WaitRecv) {
      OMNIBAL_RETURN_IF_ERROR(
          run.pretendToReceive(a, mode.transfers[a.index].gradient ? gradient : activation));
    }
  }
  return result;
}

Status Executor::initialiseForRehearsal() {
  std::vector<float> numbers = smallNumbers(0.05f);
  for (const Parameter &q : stageInfo().parameters) {
    float *data = at(q.dataOffset);
    for (int64_t i = 0; i < q.elements(); ++i)
      data[i] = numbers[i % numbers.size()];
    for (int64_t offset : {q.gradOffset, q.moment1Offset, q.moment2Offset})
      if (offset >= 0)
        std::memset(at(offset), 0, q.elements() * sizeof(float));
  }
  return loadConstants();
}

std::span<std::byte> Executor::scratch() {
  const Stage &stage = stageInfo();
  return {arena.data() + stage.persistentBytes,
          static_cast<size_t>(stage.arenaBytes - stage.persistentBytes)};
}

Result<StepResult> Executor::trainStep(MicrobatchSource &source, const StepOptions &options) {
  auto found = stageInfo().modes.find("train");
  if (found == stageInfo().modes.end())
    return invalid("the program has no mode \"train\"");
  int32_t microbatches = found->second.microbatches;
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
    }
  OMNIBAL_RETURN_IF_ERROR(runActions("train", source, sink, &options, &result));
  return result;
}

} // namespace omnibal::rt
