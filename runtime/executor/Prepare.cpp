//===- Prepare.cpp - From program to addresses; weights into the arena -------------------===//
#include "runtime/comm/PatientAgreement.h"
#include "runtime/executor/ExecutorInternal.h"
#include "runtime/executor/MagnitudeStart.h"
#include "runtime/executor/QuantizedLoad.h"
#include "runtime/executor/StepRehearsal.h"
#include "runtime/program/BucketShares.h"
#include "runtime/program/MomentShapes.h"
#include "runtime/program/Names.h"
#include "runtime/program/RankGrid.h"
#include "runtime/program/Sizes.h"
#include "runtime/program/Workspace.h"
#include "runtime/support/TensorFingerprint.h"
#include <algorithm>
#include <set>

namespace omnibal::rt {
namespace {

PreparedBinding bind(const Stage &stage, std::byte *arena, const Location &l) {
  switch (l.space) {
  case Space::Parameter:
    return {arena + stage.parameters[l.index].dataOffset, -1, l.offset};
  case Space::Gradient:
    return {arena + stage.parameters[l.index].gradOffset, -1, l.offset};
  case Space::Constant:
    return {arena + stage.constants[l.index].offset, -1, l.offset};
  case Space::Region:
    break;
  }
  return {arena, l.index, l.offset};
}

/// Number of the value at a location, or -1.
int32_t findValue(const std::vector<BatchValue> &values, const Location &l, DType dtype) {
  for (size_t i = 0; i < values.size(); ++i)
    if (l.space == Space::Region && values[i].region == l.index &&
        Extent{values[i].offset, 0, 0} == l.offset && values[i].dtype == dtype)
      return static_cast<int32_t>(i);
  return -1;
}

/// Copies a [rows, columns] tensor into memory as [columns, rows], a few rows at a time.
template <typename T> Status loadTransposed(const StoredTensor &tensor, DType type, T *out) {
  int64_t rows = tensor.shape[0], columns = tensor.shape[1];
  std::vector<T> buffer;
  int64_t step = std::max<int64_t>(1, 65536 / std::max<int64_t>(columns, 1));
  for (int64_t r = 0; r < rows; r += step) {
    int64_t n = std::min(step, rows - r);
    buffer.resize(n * columns);
    OMNIBAL_RETURN_IF_ERROR(convertTensor(tensor, type, buffer.data(), r * columns, n * columns));
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t i = 0; i < n; ++i)
        out[c * rows + r + i] = buffer[i * columns + c];
    releasePages(tensor, r * columns, n * columns);
  }
  return Status::ok();
}

/// The tensor converted, without its file's pages staying in memory.
Status loadPlain(const StoredTensor &tensor, DType type, std::byte *out) {
  const int64_t step = elementsAtOnce(tensor);
  for (int64_t first = 0; first < tensor.elements; first += step) {
    const int64_t count = std::min(step, tensor.elements - first);
    OMNIBAL_RETURN_IF_ERROR(
        convertTensor(tensor, type, out + first * byteSize(type), first, count));
    releasePages(tensor, first, count);
  }
  return Status::ok();
}

/// What is held of the tensor, converted.
template <typename T>
Status loadHeld(const StoredTensor &tensor, const HeldUnits &held, bool transposed, DType type,
                T *out) {
  const std::vector<int64_t> dims = heldShape(tensor.shape, held);
  const HeldRuns runs(tensor.shape, held);
  auto load = [&](int64_t begin, int64_t end, T *to) {
    return runs.each(begin, end, [&](int64_t local, int64_t whole, int64_t count) {
      return convertTensor(tensor, type, to + local - begin, whole, count);
    });
  };
  if (!transposed) {
    int64_t elements = 1;
    for (int64_t size : dims)
      elements *= size;
    return load(0, elements, out);
  }
  const int64_t rows = dims[0], columns = dims[1];
  std::vector<T> row(static_cast<size_t>(columns));
  for (int64_t r = 0; r < rows; ++r) {
    OMNIBAL_RETURN_IF_ERROR(load(r * columns, (r + 1) * columns, row.data()));
    for (int64_t c = 0; c < columns; ++c)
      out[c * rows + r] = row[static_cast<size_t>(c)];
  }
  return Status::ok();
}

/// Whether the rows of more tokens follow those of fewer in memory.
bool tokensLead(const std::vector<Extent> &shape) {
  bool first = true;
  for (const Extent &e : shape) {
    if (e.growsWithTokens() && !first)
      return false;
    first &= e == Extent{1, 0, 0};
  }
  return true;
}

/// What leaves a rank has the micro-batch's own number of rows.
bool canRoundRows(const Mode &mode) {
  for (const Transfer &transfer : mode.transfers)
    for (const Piece &piece : transfer.pieces)
      if (!tokensLead(piece.shape))
        return false;
  return std::all_of(mode.results.begin(), mode.results.end(),
                     [](const BatchValue &result) { return tokensLead(result.shape); });
}

Status loadAs(const StoredTensor &tensor, const Parameter &q, DType type, std::byte *out) {
  const bool transposed = q.transposed;
  if (q.quantization != Quantization::None)
    return loadQuantized(tensor, q, out);
  if (q.held)
    return type == DType::BF16
               ? loadHeld(tensor, *q.held, transposed, type, reinterpret_cast<BFloat16 *>(out))
               : loadHeld(tensor, *q.held, transposed, type, reinterpret_cast<float *>(out));
  if (!transposed)
    return loadPlain(tensor, type, out);
  return type == DType::BF16 ? loadTransposed(tensor, type, reinterpret_cast<BFloat16 *>(out))
                             : loadTransposed(tensor, type, reinterpret_cast<float *>(out));
}

int64_t bytesOf(const Constant &c) {
  int64_t bytes = byteSize(c.dtype);
  for (int64_t size : c.shape)
    bytes *= size;
  return bytes;
}

} // namespace

std::vector<int32_t> usedFunctions(const Stage &stage) {
  std::set<int32_t> used;
  for (const auto &[name, mode] : stage.modes)
    for (const Chunk &chunk : mode.chunks)
      for (ActionKind kind : computeKinds)
        for (const LayerCall &call : chunk.calls(kind))
          used.insert(call.function);
  return {used.begin(), used.end()};
}

PreparedMode prepareMode(const Program &program, const Stage &stage, const Mode &mode,
                         std::byte *arena) {
  PreparedMode prepared;
  prepared.mode = &mode;
  prepared.calls = callsOfMicrobatches(mode);
  prepared.plan = ownPlan(mode);
  prepared.completions = findCompletions(stage, mode, mode.actions);
  prepared.rowBucket = canRoundRows(mode) ? program.rowBucket : 1;
  for (const Chunk &chunk : mode.chunks) {
    auto &phases = prepared.chunks.emplace_back();
    for (ActionKind kind : computeKinds) {
      PreparedPhase &phase = phases[static_cast<size_t>(kind)];
      auto note = [](std::vector<int32_t> &list, int32_t number) {
        if (number >= 0 && std::find(list.begin(), list.end(), number) == list.end())
          list.push_back(number);
      };
      // Where gradients are complete their sum begins, so a recording ends.
      std::set<size_t> ends;
      for (const auto &[action, list] : prepared.completions)
        if (std::get<0>(action) == kind &&
            std::get<1>(action) == static_cast<int32_t>(prepared.chunks.size()) - 1)
          for (const Completion &each : list)
            ends.insert(each.layer);
      phase.segments = cutIntoSegments(program, mode, chunk.calls(kind), ends);
      for (const LayerCall &call : chunk.calls(kind)) {
        const Function &f = program.functions[call.function];
        PreparedLayer &layer = phase.layers.emplace_back();
        layer.call = &call;
        layer.workspace = {
            arena, f.workspaceBytes > 0 ? call.workspaceRegion : -1, {call.workspaceOffset, 0, 0}};
        for (int32_t i = 0; i < f.formals; ++i) {
          const Buffer &formal = f.buffers[i];
          const Location &l = call.bindings[i];
          layer.bindings.push_back(bind(stage, arena, l));
          layer.bindings.back().bytesOfTile = bytesOfTile(formal.dtype, formal.shape);
          bool writes = formal.role == Role::Result ||
                        (formal.role == Role::Output && kind == ActionKind::Forward);
          if (formal.role == Role::Batch)
            note(phase.batchValues, findValue(mode.batchValues, l, formal.dtype));
          else if (writes)
            note(phase.results, findValue(mode.results, l, formal.dtype));
          bool holds =
              kind == ActionKind::Forward ? formal.role == Role::Saved : formal.role == Role::Held;
          if (holds || (writes && formal.role == Role::Output)) {
            // Only the leading dimension depends on V and N in what layers keep.
            Extent bytes{byteSize(formal.dtype)};
            for (const Extent &e : formal.shape)
              bytes = e.isStatic() ? bytes.times(e.constant) : e.times(bytes.constant);
            phase.kept.push_back(bytes);
          }
        }
      }
    }
  }
  return prepared;
}

Result<BatchData> batchData(const BatchValue &value, const PackedMicrobatch &batch, int64_t rows) {
  const std::vector<int32_t> *tokens = nullptr;
  int32_t padValue = 0;
  int64_t lines = 1;
  if (value.name == "input_ids") {
    tokens = &batch.inputIds;
  } else if (value.name == "targets") {
    tokens = &batch.targets;
    padValue = noTarget;
  } else if (value.name == "positions") {
    tokens = &batch.positions;
  } else if (value.name == "cu_seqlens") {
    tokens = &batch.cuSeqlens;
    padValue = static_cast<int32_t>(batch.tokens);
  } else if (value.name == "image_rows") {
    tokens = &batch.imageRows;
    padValue = noImageRow;
  } else if (auto derived = batch.pictureInputs.integers.find(value.name);
             derived != batch.pictureInputs.integers.end()) {
    tokens = &derived->second;
    lines = value.name == "position_ids" ? 3 : 1; // each axis has the tokens that belong to nobody
  } else if (auto found = batch.tokenInputs.find(value.name); found != batch.tokenInputs.end()) {
    tokens = &found->second;
  }
  const std::vector<float> *floats = nullptr;
  if (value.name == "pixel_values")
    floats = &batch.pixels;
  else if (value.name == "image_interp_weights" && !batch.pictureInputs.integers.empty())
    floats = &batch.pictureInputs.interpWeights;
  else if (value.name == referenceValue)
    floats = &batch.references;
  if (!tokens && !floats)
    return invalid("the program reads \"" + value.name +
                   "\", which the data does not have: every sample must hold it");
  if (value.dtype != (floats ? DType::F32 : DType::I32))
    return Status(Code::DataLoss, "batch value \"" + value.name + "\" has type " +
                                      nameOf(value.dtype) + " in the program");
  auto elements = [&](int64_t tokens) {
    int64_t count = 1;
    for (const Extent &e : value.shape)
      count *= e.evaluate(batch.tiles, tokens);
    return count;
  };
  int64_t expected = elements(batch.tokens);
  int64_t have = floats ? floats->size() : tokens->size();
  if (have != expected)
    return Status(Code::Internal, "batch value \"" + value.name + "\" has " + std::to_string(have) +
                                      " elements, but the program needs " +
                                      std::to_string(expected));
  const void *data = floats ? static_cast<const void *>(floats->data()) : tokens->data();
  return BatchData{data, lines, expected / lines * 4, (elements(rows) - expected) / lines,
                   padValue};
}

Result<std::unique_ptr<Executor>> Executor::prepare(const LoadedProgram &program,
                                                    Communicator &communicator,
                                                    const ExecutorOptions &options) {
  const Program &p = program.program;
  const RankGrid grid(p);
  if (communicator.size() != grid.ranks())
    return invalid("the program needs " + std::to_string(grid.ranks()) + " ranks (" +
                   grid.product() + "), but there are " + std::to_string(communicator.size()));
  const RankPlace place = grid.placeOf(communicator.rank());
  const Stage &stage = p.stageOf(place.stage, RankGrid(p).partIn(place, p.largestDegree()));
  Device device;
  device.pool = std::make_unique<ThreadPool>(options.threads);
  BackendOptions backendOptions{
      .pool = device.pool.get(),
      .rank = communicator.rank(),
      .deadline = deadlineFromEnvironment(),
      .localRank = options.localRank,
      .batchBytes = batchBytesOfStep(p, stage),
      .updateListBytes = updateListBytes(p, stage),
      .moveBytes = moveBytes(p),
  };
  OMNIBAL_ASSIGN_OR_RETURN(device.backend, options.backend->open(backendOptions));
  OMNIBAL_ASSIGN_OR_RETURN(device.functions,
                           FunctionTable::prepare(program, usedFunctions(stage), *device.backend));
  const int64_t bytes =
      options.rehearses ? std::max(stage.arenaBytes, rehearsalBytes(stage)) : stage.arenaBytes;
  auto arena = device.backend->allocateArena(bytes, options.guarded);
  if (!arena)
    return std::move(arena).status().context("stage " + std::to_string(stage.id));
  device.arena = *std::move(arena);
  std::unique_ptr<Executor> executor(
      new Executor(program, communicator, options, std::move(device)));
  if (!p.stepProblem.empty()) {
    OMNIBAL_ASSIGN_OR_RETURN(executor->impl->stepRuns,
                             StepRuns::open(p, stage, executor->theReplica, options.stepPlans));
  }
  return executor;
}

Executor::Executor(const LoadedProgram &program, Communicator &communicator,
                   const ExecutorOptions &options, Device made)
    : loaded(program), communicator(communicator), options(options),
      theStage(RankGrid(program.program).placeOf(communicator.rank()).stage),
      theReplica(RankGrid(program.program).placeOf(communicator.rank()).replica),
      thePart(RankGrid(program.program).placeOf(communicator.rank()).part), device(std::move(made)),
      impl(std::make_unique<Impl>()) {
  assignRates([](const Parameter &q) { return q.decay ? 0 : 1; });
  for (const auto &[name, mode] : stageInfo().modes) {
    PreparedMode &prepared = impl->modes[name] =
        prepareMode(program.program, stageInfo(), mode, device.arena->data());
    joinParts(name, prepared);
  }
}

/// With whom the rank runs a mode.
void Executor::joinParts(const std::string &name, PreparedMode &prepared) {
  const Program &p = loaded.program;
  const RankGrid grid(p);
  const int32_t degree = p.degreeOf(name);
  prepared.parts = p.partsOf(name);
  prepared.part = grid.partIn({theReplica, theStage, thePart}, degree);
  if (p.hasOwnParts())
    prepared.meeting = grid.partsOf(theReplica, theStage);
  else if (degree > 1)
    prepared.meeting = grid.contextOf(theReplica, theStage, degree);
  if (trainModeNumber(name))
    prepared.work = std::make_shared<const ModelWork>(
        p, prepared.meeting.empty() ? nullptr : &stageInfo(), prepared.parts);
}

/// What is under way uses what goes now.
Executor::~Executor() {
  if (!device.backend->isSynchronous())
    (void)device.backend->finish();
}

const Stage &Executor::stageInfo() const {
  const Program &p = loaded.program;
  return p.stageOf(theStage,
                   RankGrid(p).partIn({theReplica, theStage, thePart}, p.largestDegree()));
}

float *Executor::at(int64_t offset) {
  return offset < 0 ? nullptr : reinterpret_cast<float *>(device.arena->data() + offset);
}

/// Only now, when all ranks know that all of them are prepared: connecting may need everyone.
Status Executor::connect() {
  OMNIBAL_ASSIGN_OR_RETURN(device.transport,
                           device.backend->openTransport(communicator, rankGroups(loaded.program)));
  device.functions.meetOver(*device.transport);
  return Status::ok();
}

/// Gradients and moments.
Status Executor::zeroState() {
  auto zero = [&](int64_t offset, int64_t bytes) {
    return offset < 0 ? Status::ok() : device.backend->zero(at(offset), bytes);
  };
  const OptimizerKind kind = loaded.program.optimizer;
  for (const Parameter &q : stageInfo().parameters) {
    OMNIBAL_RETURN_IF_ERROR(zero(q.gradOffset, q.elements() * int64_t{sizeof(float)}));
    const std::vector<int64_t> bytes = momentBytes(kind, q);
    OMNIBAL_RETURN_IF_ERROR(zero(q.moment1Offset, bytes.front()));
    OMNIBAL_RETURN_IF_ERROR(zero(q.moment2Offset, bytes.back()));
  }
  for (const Bucket &bucket : stageInfo().buckets)
    if (bucket.share)
      for (int64_t offset : {bucket.share->moment1Offset, bucket.share->moment2Offset})
        OMNIBAL_RETURN_IF_ERROR(
            zero(offset, momentBytes(kind, largestShare(bucket.share->bounds))));
  return Status::ok();
}

Status Executor::initialize(const TensorFiles &weights, const AdapterStart &adapters) {
  OMNIBAL_RETURN_IF_ERROR(connect());
  // All ranks go on or none: who waits for what another could not read waits in vain.
  OMNIBAL_RETURN_IF_ERROR(
      agreeAfter(communicator, [&] { return loadParameters(weights, adapters); }));
  OMNIBAL_RETURN_IF_ERROR(shareParameters(false));
  OMNIBAL_RETURN_IF_ERROR(refreshCopies());
  OMNIBAL_RETURN_IF_ERROR(zeroState());
  OMNIBAL_RETURN_IF_ERROR(beginAverages());
  return agreeAfter(communicator, [&] { return loadConstants(); });
}

Status Executor::loadParameters(const TensorFiles &weights, const AdapterStart &adapters) {
  const FirstValues first(weights, loaded.program.adapters, adapters);
  for (const Parameter &q : stageInfo().parameters) {
    if (!reads(q))
      continue;
    std::vector<float> fresh;
    StoredTensor made;
    const StoredTensor *tensor = first.find(q.name);
    const std::string path = first.filesOf(q.name).path();
    const std::string where = path + ": parameter \"" + first.nameOf(q.name) + "\"";
    if (!tensor) {
      if (!adapters.folder)
        fresh = freshAdapter(loaded.program.adapters, q.name, q.shape, adapters.seed);
      if (!adapters.folder && fresh.empty()) {
        OMNIBAL_ASSIGN_OR_RETURN(fresh, freshMagnitude(loaded.program.adapters, stageInfo(), q.name,
                                                       first, adapters.seed));
      }
      if (fresh.empty())
        return {Code::NotFound, where + " is missing; these weights belong to another model than " +
                                    loaded.program.model};
      made = viewOf(q.name, q.shape, fresh);
      tensor = &made;
    }
    if (tensor->shape != q.shape)
      return invalid(where + " has shape " + toString(tensor->shape) + ", but the program needs " +
                     toString(q.shape));
    if (!isFloat(tensor->dtype))
      return invalid(where + " has type " + std::string(storedTypeName(tensor->dtype)) +
                     ", but floating point numbers are expected (quantized weights must be "
                     "converted first)");
    // What trains is kept in float32; what kernels read of it is made from that, as an update does.
    DType type = q.trainable ? DType::F32 : q.dtype;
    auto fill = [&](std::byte *to) { return loadAs(*tensor, q, type, to).context(path); };
    OMNIBAL_RETURN_IF_ERROR(
        device.backend->write(q.trainable ? at(q.weightOffset()) : at(q.dataOffset),
                              q.trainable ? q.elements() * byteSize(type) : q.dataBytes(), fill));
    if (options.fingerprints && !q.trainable)
      frozen[q.name] = fingerprintOf(*tensor);
  }
  return Status::ok();
}

Status Executor::loadConstants() {
  for (const Constant &c : stageInfo().constants)
    OMNIBAL_RETURN_IF_ERROR(
        device.backend->write(device.arena->data() + c.offset, bytesOf(c), [&](std::byte *to) {
          return convertTensor(*loaded.constants->find(c.name), c.dtype, to);
        }));
  return Status::ok();
}

} // namespace omnibal::rt
