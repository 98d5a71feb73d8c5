//===- ActionRun.h - Performs the actions of one mode, one after the other --------------------===//
#ifndef RUNTIME_EXECUTOR_ACTIONRUN_H
#define RUNTIME_EXECUTOR_ACTIONRUN_H

#include "runtime/executor/ExecutorInternal.h"
#include "runtime/program/Names.h"
#include "runtime/program/RankGrid.h"
#include "runtime/program/Sizes.h"

namespace omnibal::rt {

inline double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

/// Runs the actions of a plan of one mode once.
class ActionRun {
public:
  ActionRun(const LoadedProgram &loaded, const PreparedMode &prepared, const RunPlan &plan,
            const Completions &completions, Executor::Impl &state, FunctionTable &functions,
            ThreadPool &pool, Backend &backend, Transport &transport, std::byte *arena,
            const RankPlace &place, MicrobatchSource &source, const ResultSink &sink, Trace *trace,
            const LayerClock *clock = nullptr)
      : program(loaded.program), prepared(prepared), mode(*prepared.mode), plan(plan),
        completions(completions), state(state), functions(functions), pool(pool), backend(backend),
        transport(transport), arena(arena), place(place), source(source), sink(sink), trace(trace),
        clock(clock) {}

  Status compute(const Action &a);
  /// Waits for all work so far and does what was postponed until then: results and the trace.
  Status settle();
  /// Takes the place of receiving a message: writes numbers of the size of an activation or a
  /// gradient.
  Status pretendToReceive(const Action &a, std::span<const float> numbers);
  Status communicate(const Action &a);

private:
  /// The tiles of an action's unit.
  TileRange tilesOf(const Action &a, const PackedMicrobatch &batch) const {
    const bool isDivided =
        isCompute(a.kind) ? plan.isDividedChunk(a.index) : plan.isDividedTransfer(a.index);
    return isDivided ? plan.tilesOf(a.unit(), batch.tiles) : TileRange{0, batch.tiles};
  }
  /// Runs the layers of an action. `begin` is the end of the layer call before, if layer calls are
  /// timed.
  Status runLayers(const Action &a, const PreparedPhase &phase, const Segment &segment,
                   const PackedMicrobatch &batch, Event &begin);
  /// Runs a layer for the tiles of a unit.
  Status runLayer(const PreparedLayer &layer, Unit unit, const TileRange &tiles,
                  const PackedMicrobatch &batch, const FunctionTable::Kept &kept);
  /// Whether the layer, of a chunk that is not divided, reads what one made that is: a copy, which
  /// is made for each sub-micro-batch.
  bool joinsParts(const Action &a, const PreparedLayer &layer) const;
  std::byte *address(const PreparedBinding &b, Unit unit, const TileRange &tiles,
                     const RunLoad &load) const;
  SymbolValues symbolsOf(int64_t tiles, int64_t tokens) const {
    return SymbolValues::of(tiles, tokens, prepared.part, prepared.parts);
  }
  /// N of a message: the micro-batch's own, but a part's share is one of all rows of kernels.
  int64_t rowsSent(const Piece &piece, const PackedMicrobatch &batch) const {
    return isOwn(piece.shape) ? prepared.rows(batch.tokens) : batch.tokens;
  }
  /// N as regions are sized for it.
  RunLoad regionLoad(const PackedMicrobatch &batch) const {
    return symbolsOf(batch.tiles, program.roundedTokens(batch.tokens));
  }
  std::byte *regionAt(int32_t region, Unit unit) const { return arena + plan.offset(region, unit); }
  std::byte *pieceAt(int32_t region, const Piece &piece, const Extent &within, Unit unit,
                     const TileRange &tiles, const PackedMicrobatch &batch) const {
    return arena + plan.place(region, unit, tiles, regionLoad(batch), within,
                              bytesOfTile(piece.dtype, piece.shape));
  }
  Result<BatchData> dataOf(const BatchValue &value, const PackedMicrobatch &batch);
  bool makeNumbers(const BatchValue &value, const PackedMicrobatch &batch, int64_t elements);
  Status provide(int32_t number, const Action &a, const PackedMicrobatch &batch);
  /// Hands a result to the sink, now or when it has come from the device. Training has no results:
  /// its losses are added up where they are. Of a stage's parts, which have equal ones, the first
  /// does so.
  Status give(const BatchValue &value, const std::byte *from, int32_t microbatch,
              const PackedMicrobatch &batch);
  Status deliver();
  Status clearTails(const Transfer &t, const Action &a, const PackedMicrobatch &batch);
  void record(const Action &a, const PreparedPhase &phase, const PackedMicrobatch &batch,
              Event begin, Event end);

  const Program &program;
  const PreparedMode &prepared;
  const Mode &mode;
  const RunPlan &plan;
  const Completions &completions;
  Executor::Impl &state;
  FunctionTable &functions;
  ThreadPool &pool;
  Backend &backend;
  Transport &transport;
  std::byte *arena;
  RankPlace place;
  MicrobatchSource &source;
  const ResultSink &sink;
  Trace *trace;
  const LayerClock *clock;
  std::vector<std::byte *> formals;
  std::vector<Transport::Piece> pieces;
};

} // namespace omnibal::rt
#endif // RUNTIME_EXECUTOR_ACTIONRUN_H
