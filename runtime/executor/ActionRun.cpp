#include "runtime/executor/ActionRun.h"
#include "runtime/schedule/ActionKinds.h"
#include <algorithm>
#include <cstring>

namespace omnibal::rt {
namespace {

/// Results that may be on their way to the host before it waits for them.
constexpr int64_t resultBytesAhead = int64_t{64} << 20;

/// Of a result of training.
LossKind lossKindOf(const std::string &result) {
  return result == routerLossResult       ? LossKind::Routers
         : result == chosenRewardResult   ? LossKind::ChosenRewards
         : result == rejectedRewardResult ? LossKind::RejectedRewards
         : result == preferredResult      ? LossKind::Preferred
                                          : LossKind::Samples;
}

} // namespace

Status ActionRun::compute(const Action &a) {
  OMNIBAL_ASSIGN_OR_RETURN(const PackedMicrobatch *batch, source.get(a.microbatch));
  const PreparedPhase &phase = prepared.chunks[a.index][static_cast<size_t>(a.kind)];
  transport.progress(); // what was started before the action is under way before its work
  Event begin = backend.recordEvent(), layerBegin = begin;
  auto completed = completions.find({a.kind, a.index, a.unit()});
  for (int32_t number : phase.batchValues)
    OMNIBAL_RETURN_IF_ERROR(provide(number, a, *batch));
  const int64_t rows = prepared.rows(batch->tokens);
  const Load load = loadOf(*batch);
  backend.expectLoad(load);
  for (size_t i = 0; i < phase.segments.size(); ++i) {
    const Segment &segment = phase.segments[i];
    auto work = [&] { return runLayers(a, phase, segment, *batch, layerBegin); };
    const GraphKey key = graphKey(a, i, segment, batch->tiles, rows, load, backend.goesBySamples());
    // What is timed by call or by kernel runs by itself, and so does what has other addresses in
    // every step, or other keys with every token, and what other ranks take part in.
    const bool isOwn = trace || clock || plan.ofStep || batch->kept || segment.moves;
    OMNIBAL_RETURN_IF_ERROR(isOwn ? work() : state.graphs.run(key, &mode, backend, work));
    transport.progress();
    if (completed != completions.end())
      for (const Completion &each : completed->second)
        if (each.layer >= segment.begin && each.layer < segment.end)
          state.complete[each.bucket] = backend.recordEvent();
  }
  Event end = backend.recordEvent();
  state.busy.push_back({begin, end});
  if (trace)
    record(a, phase, *batch, begin, end);
  for (int32_t number : phase.results) {
    const BatchValue &r = mode.results[number];
    OMNIBAL_RETURN_IF_ERROR(give(r, regionAt(r.region, a.unit()) + r.offset, a.microbatch, *batch));
  }
  return Status::ok();
}

Status ActionRun::runLayers(const Action &a, const PreparedPhase &phase, const Segment &segment,
                            const PackedMicrobatch &batch, Event &begin) {
  for (size_t i = segment.begin; i < segment.end; ++i) {
    const PreparedLayer &layer = phase.layers[i];
    const FunctionTable::Kept kept{batch.kept, a.index, i, batch.tokens};
    Status status = Status::ok();
    if (joinsParts(a, layer)) {
      for (int32_t p = 0; p < plan.partsOf(a.microbatch) && status; ++p)
        status = runLayer(layer, {a.microbatch, p}, plan.tilesOf({a.microbatch, p}, batch.tiles),
                          batch, kept);
    } else {
      status = runLayer(layer, a.unit(), tilesOf(a, batch), batch, kept);
    }
    if (!status)
      return std::move(status).context("layer \"" + layer.call->layer + "\"");
    if (backend.graphs() == 0)
      transport.progress();
    if (clock) {
      Event end = backend.recordEvent();
      state.clocked.push_back({layer.call, a.kind, begin, end});
      begin = end;
    }
  }
  return Status::ok();
}

Status ActionRun::runLayer(const PreparedLayer &layer, Unit unit, const TileRange &tiles,
                           const PackedMicrobatch &batch, const FunctionTable::Kept &kept) {
  const RunLoad load = regionLoad(batch);
  formals.clear();
  for (const PreparedBinding &b : layer.bindings)
    formals.push_back(address(b, unit, tiles, load));
  return functions.run(layer.call->function, formals, address(layer.workspace, unit, tiles, load),
                       symbolsOf(tiles.count, prepared.rows(batch.tokens)), kept, pool, backend,
                       trace);
}

bool ActionRun::joinsParts(const Action &a, const PreparedLayer &layer) const {
  return plan.divided && !plan.isDividedChunk(a.index) &&
         std::any_of(layer.bindings.begin(), layer.bindings.end(), [&](const PreparedBinding &b) {
           return b.region >= 0 && plan.isDividedRegion(b.region);
         });
}

Status ActionRun::settle() {
  OMNIBAL_RETURN_IF_ERROR(backend.finish());
  OMNIBAL_RETURN_IF_ERROR(deliver());
  for (const auto &timed : state.clocked)
    (*clock)(*timed.call, timed.kind, backend.timeOf(timed.end) - backend.timeOf(timed.begin));
  state.clocked.clear();
  for (const auto &draw : state.traced)
    draw();
  state.traced.clear();
  if (trace)
    trace->settle(backend);
  return Status::ok();
}

Status ActionRun::pretendToReceive(const Action &a, std::span<const float> numbers) {
  OMNIBAL_ASSIGN_OR_RETURN(const PackedMicrobatch *batch, source.get(a.microbatch));
  const Transfer &t = mode.transfers[a.index];
  std::vector<BFloat16> rounded;
  for (float number : numbers)
    rounded.push_back(BFloat16::fromFloat(number));
  for (const Piece &p : t.pieces) {
    int64_t count = 1, width = byteSize(p.dtype);
    for (const Extent &e : p.shape)
      count *= e.evaluate(symbolsOf(batch->tiles, prepared.rows(batch->tokens)));
    const void *from =
        p.dtype == DType::BF16 ? static_cast<const void *>(rounded.data()) : numbers.data();
    std::byte *to = pieceAt(t.recvRegion, p, p.recvOffset, a.unit(), {0, batch->tiles}, *batch);
    for (int64_t done = 0; done < count; done += numbers.size())
      OMNIBAL_RETURN_IF_ERROR(backend.upload(
          to + done * width, from, std::min<int64_t>(count - done, numbers.size()) * width));
  }
  return Status::ok();
}

Status ActionRun::communicate(const Action &a) {
  const Transfer &t = mode.transfers[a.index];
  std::pair<int32_t, Unit> key{a.index, a.unit()};
  bool sends = a.kind == ActionKind::Send || a.kind == ActionKind::WaitSend;
  int64_t tag = (int64_t{t.id} * mode.microbatches + a.microbatch) * plan.mostParts + a.part;
  Event begin = trace ? backend.recordEvent() : Event();
  OMNIBAL_ASSIGN_OR_RETURN(const PackedMicrobatch *batch, source.get(a.microbatch));
  const TileRange tiles = tilesOf(a, *batch);
  int64_t bytes = 0;
  if (a.kind == ActionKind::Send || a.kind == ActionKind::PostRecv) {
    const int32_t region = sends ? t.sendRegion : t.recvRegion;
    pieces.clear();
    for (const Piece &p : t.pieces) {
      const int64_t size = bytesAt(p.dtype, p.shape, symbolsOf(tiles.count, rowsSent(p, *batch)));
      const Extent &within = sends ? p.sendOffset : p.recvOffset;
      pieces.push_back({pieceAt(region, p, within, a.unit(), tiles, *batch), size});
      bytes += size;
    }
    const int peer =
        RankGrid(program).rankOf({place.replica, sends ? t.toStage : t.fromStage, place.part});
    OMNIBAL_ASSIGN_OR_RETURN(state.handles[key], sends ? transport.send(peer, tag, pieces)
                                                       : transport.receive(peer, tag, pieces));
  } else {
    Transport::Handle handle = state.handles[key];
    state.handles.erase(key);
    OMNIBAL_RETURN_IF_ERROR(transport.wait(handle));
    if (!sends)
      OMNIBAL_RETURN_IF_ERROR(clearTails(t, a, *batch));
  }
  if (!trace)
    return Status::ok();
  Event end = backend.recordEvent();
  const int64_t pipeline = int64_t{place.replica} * program.modelParallel + place.part;
  int64_t flow = tag * program.dataParallel * program.modelParallel + pipeline + 1;
  state.traced.push_back([this, a, sends, begin, end, batch, bytes, flow, tiles] {
    // Posting a receive takes no time worth a bar; the wait shows what the rank waited for.
    if (a.kind != ActionKind::PostRecv)
      trace->span(sends ? Lane::Send : Lane::Receive, nameOf(a.kind), backend.timeOf(begin),
                  backend.timeOf(end), a.microbatch, tiles.count, batch->tokens, bytes);
    if (a.kind == ActionKind::Send)
      trace->flow(Lane::Send, flow, backend.timeOf(begin), true);
    if (a.kind == ActionKind::WaitRecv)
      trace->flow(Lane::Receive, flow, backend.timeOf(end), false);
  });
  return Status::ok();
}

std::byte *ActionRun::address(const PreparedBinding &b, Unit unit, const TileRange &tiles,
                              const RunLoad &load) const {
  return b.base + (b.region >= 0 ? plan.place(b.region, unit, tiles, load, b.offset, b.bytesOfTile)
                                 : b.offset.evaluate(load));
}

/// What the step says of the micro-batch beside its own values.
Result<BatchData> ActionRun::dataOf(const BatchValue &value, const PackedMicrobatch &batch) {
  const int64_t rows = prepared.rows(batch.tokens);
  if (value.name == routerLossWeightValue)
    return BatchData{&state.routerLossWeight, 1, sizeof state.routerLossWeight, 0, 0};
  auto elements = [&](int64_t tokens) {
    int64_t count = 1;
    for (const Extent &e : value.shape)
      count *= e.evaluate(batch.tiles, tokens);
    return count;
  };
  const int64_t expected = elements(batch.tokens);
  if (!makeNumbers(value, batch, expected))
    return batchData(value, batch, rows);
  const auto made = static_cast<int64_t>(state.numbers.size());
  if (value.dtype != DType::I32 || made != expected)
    return Status(Code::DataLoss, "batch value \"" + value.name + "\" has " +
                                      std::to_string(expected) + " elements of type " +
                                      nameOf(value.dtype) + " in the program, where there are " +
                                      std::to_string(made) + " of type i32");
  return BatchData{state.numbers.data(), 1, made * int64_t{sizeof(int32_t)},
                   elements(rows) - expected, 0};
}

/// Writes what follows from sizes and random keys alone; false for other values.
bool ActionRun::makeNumbers(const BatchValue &value, const PackedMicrobatch &batch,
                            int64_t elements) {
  std::vector<int32_t> &out = state.numbers;
  const RandomKeys &random = batch.random;
  out.clear();
  if (value.name == realTokensValue) {
    out.resize(batch.tokens, 1);
  } else if (value.name == randomKeysValue) {
    out = random.ofTokens;
    out.resize(batch.tokens, 0);
  } else if (value.name.starts_with(imageRandomKeysPrefix)) {
    const int64_t rowsOfTile = batch.tiles > 0 ? elements / batch.tiles : 0;
    for (int64_t tile = 0; tile < batch.tiles; ++tile)
      for (int64_t row = 0; row < rowsOfTile; ++row)
        out.push_back(random.ofTiles.empty() ? 0 : keyOfRow(random.ofTiles[tile], row));
  } else if (value.name == sampleTokensValue) {
    for (size_t s = 0; s + 1 < batch.borders.size(); ++s)
      out.resize(batch.borders[s + 1],
                 static_cast<int32_t>(batch.borders[s + 1] - batch.borders[s]));
  } else if (const std::optional<int64_t> layer = layerOfValue(value.name)) {
    out.push_back(static_cast<int32_t>(*layer));
  } else {
    return false;
  }
  return true;
}

Status ActionRun::provide(int32_t number, const Action &a, const PackedMicrobatch &batch) {
  const BatchValue &value = mode.batchValues[number];
  const Unit unit = plan.holder(value.region, a.unit());
  if (!state.provided.insert({number, unit}).second)
    return Status::ok();
  OMNIBAL_ASSIGN_OR_RETURN(BatchData data, dataOf(value, batch));
  if (plan.isDividedRegion(value.region)) { // one line of tiles
    const int64_t tile = bytesOfTile(value.dtype, value.shape);
    const TileRange tiles = tilesOf(a, batch);
    data.data = static_cast<const std::byte *>(data.data) + tiles.first * tile;
    data.bytes = tiles.count * tile;
  }
  std::byte *to = regionAt(value.region, unit) + value.offset;
  const int64_t line = data.bytes + data.padding * int64_t{sizeof data.padValue};
  if (line * data.lines == 0)
    return Status::ok();
  return backend.prefetch(to, line * data.lines, [&](std::byte *out) {
    for (int64_t i = 0; i < data.lines; ++i, out += line) {
      if (data.bytes > 0)
        std::memcpy(out, static_cast<const std::byte *>(data.data) + i * data.bytes, data.bytes);
      std::fill_n(reinterpret_cast<int32_t *>(out + data.bytes), data.padding, data.padValue);
    }
    return Status::ok();
  });
}

/// A message brings the micro-batch's own rows; kernels run over more.
Status ActionRun::clearTails(const Transfer &t, const Action &a, const PackedMicrobatch &batch) {
  const int64_t rows = prepared.rows(batch.tokens);
  const TileRange tiles = tilesOf(a, batch);
  for (const Piece &p : t.pieces) {
    const int64_t bytes = bytesAt(p.dtype, p.shape, symbolsOf(tiles.count, rowsSent(p, batch))),
                  all = bytesAt(p.dtype, p.shape, symbolsOf(tiles.count, rows));
    if (all > bytes)
      OMNIBAL_RETURN_IF_ERROR(backend.zero(
          pieceAt(t.recvRegion, p, p.recvOffset, a.unit(), tiles, batch) + bytes, all - bytes));
  }
  return Status::ok();
}

Status ActionRun::give(const BatchValue &value, const std::byte *from, int32_t microbatch,
                       const PackedMicrobatch &batch) {
  if (prepared.part != 0)
    return Status::ok();
  int64_t bytes = byteSize(value.dtype);
  for (const Extent &e : value.shape)
    bytes *= e.evaluate(batch.tiles, batch.tokens);
  if (!sink) // of training: the step's losses
    return backend.addLosses({reinterpret_cast<const float *>(from),
                              static_cast<size_t>(bytes / int64_t{sizeof(float)})},
                             lossKindOf(value.name));
  OMNIBAL_ASSIGN_OR_RETURN(HostCopy readback, backend.startRead(from, bytes));
  if (backend.isSynchronous())
    return sink(microbatch, value, readback.data, batch);
  state.results.push_back({microbatch, &value, &batch, readback});
  state.resultBytes += bytes;
  return state.resultBytes < resultBytesAhead ? Status::ok() : deliver();
}

Status ActionRun::deliver() {
  for (const auto &result : state.results) {
    OMNIBAL_RETURN_IF_ERROR(backend.reach(result.bytes.ready));
    OMNIBAL_RETURN_IF_ERROR(
        sink(result.microbatch, *result.value, result.bytes.data, *result.batch));
    backend.release(result.bytes);
  }
  state.results.clear();
  state.resultBytes = 0;
  return Status::ok();
}

void ActionRun::record(const Action &a, const PreparedPhase &phase, const PackedMicrobatch &batch,
                       Event begin, Event end) {
  const TileRange tiles = tilesOf(a, batch);
  auto keptBy = [&](ActionKind kind) {
    int64_t kept = 0;
    for (const Extent &e : prepared.chunks[a.index][static_cast<size_t>(kind)].kept)
      kept += e.evaluate(symbolsOf(tiles.count, batch.tokens));
    return kept;
  };
  if (a.kind == ActionKind::Forward || a.kind == ActionKind::InputGrad)
    state.activationBytes += keptBy(a.kind);
  else
    state.activationBytes -= keptBy(ActionKind::Forward);
  if (a.kind == ActionKind::WeightGrad)
    state.activationBytes -= keptBy(ActionKind::InputGrad);
  state.traced.push_back([this, a, &batch, begin, end, tiles, kept = state.activationBytes] {
    trace->span(Lane::Compute, std::string(1, letterOf(plannedKind(a.kind))), backend.timeOf(begin),
                backend.timeOf(end), a.microbatch, tiles.count, batch.tokens, 0,
                mode.chunks[a.index].id);
    trace->memory(backend.timeOf(end), kept);
  });
}

} // namespace omnibal::rt
