//===- Shares.cpp - Whose the gradients and the optimizer's state of a stage are
//------------------===//
//
// Without shares every replica has all of them. With shares (ZeRO-1) a replica sums and updates its
// own, and tells the others the parameters that come of it.
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/executor/ExecutorInternal.h"
#include "runtime/program/BucketShares.h"
#include "runtime/program/MomentShapes.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

/// Appends a piece, to the one before it if both lie next to each other: fewer messages.
void append(std::vector<OwnedPiece> &pieces, std::byte *data, int64_t bytes, int owner) {
  if (!pieces.empty() && pieces.back().owner == owner &&
      static_cast<std::byte *>(pieces.back().data) + pieces.back().bytes == data)
    pieces.back().bytes += bytes;
  else
    pieces.push_back({data, bytes, owner});
}

std::vector<FloatRun> runsOf(const std::vector<OwnedPiece> &pieces) {
  std::vector<FloatRun> runs;
  for (const OwnedPiece &piece : pieces)
    runs.push_back({static_cast<float *>(piece.data), piece.bytes / int64_t{sizeof(float)}});
  return runs;
}

} // namespace

std::vector<FloatRun> Executor::gradients() {
  std::vector<FloatRun> runs;
  for (const Parameter &q : stageInfo().parameters)
    if (q.trainable)
      runs.push_back({at(q.gradOffset), q.elements()});
  return runs;
}

/// What the norm counts, in the order of buckets and, within a bucket, of the arena: its blocks are
/// the same whoever has which share.
std::vector<FloatRun> Executor::countedGradients(std::vector<int> &owners) {
  const Stage &stage = stageInfo();
  std::vector<FloatRun> runs;
  auto add = [&](const Bucket &bucket) {
    for (const BucketPiece &piece : piecesOf(stage, bucket, grain())) {
      const Parameter &q = stage.parameters[piece.parameter];
      if (!counts(q))
        continue;
      const bool mine = !bucket.share || piece.owner == theReplica;
      runs.push_back(
          {mine ? at(q.gradOffset) + piece.first : nullptr, piece.count, piece.at % normBlock});
      owners.push_back(piece.owner);
    }
  };
  std::vector<bool> seen(stage.parameters.size());
  for (const Bucket &bucket : stage.buckets) {
    add(bucket);
    for (int32_t number : bucket.parameters)
      seen[number] = true;
  }
  Bucket rest; // of programs without buckets
  for (size_t i = 0; i < seen.size(); ++i)
    if (!seen[i] && stage.parameters[i].trainable)
      rest.parameters.push_back(static_cast<int32_t>(i));
  add(rest);
  return runs;
}

std::vector<FloatRun> Executor::foreignGradients() {
  std::vector<FloatRun> runs;
  for (const Bucket &bucket : stageInfo().buckets)
    for (const BucketPiece &piece : piecesOf(stageInfo(), bucket, grain()))
      if (piece.owner != theReplica)
        runs.push_back(
            {at(stageInfo().parameters[piece.parameter].gradOffset) + piece.first, piece.count});
  return runs;
}

std::vector<OwnedPiece> Executor::bucketGradients(int32_t number) {
  const Stage &stage = stageInfo();
  std::vector<OwnedPiece> pieces;
  for (const BucketPiece &piece : piecesOf(stage, stage.buckets[number], grain()))
    append(pieces,
           reinterpret_cast<std::byte *>(at(stage.parameters[piece.parameter].gradOffset) +
                                         piece.first),
           piece.count * int64_t{sizeof(float)}, piece.owner);
  return pieces;
}

int64_t Executor::grain() const { return bucketGrain(loaded.program.optimizer); }

/// `first`: in what is at these offsets, which has room for `room` elements.
void Executor::addMoments(OptimizerState &state, int64_t moment1, int64_t moment2, int64_t first,
                          int64_t room) {
  auto floats = [&](int64_t offset) { return offset < 0 ? nullptr : at(offset) + first; };
  if (isCoded(loaded.program.optimizer)) {
    state.coded1 = codedMomentAt(at(moment1), room, first);
    state.coded2 = codedMomentAt(at(moment2), room, first);
  } else {
    state.moment1 = floats(moment1);
    state.moment2 = floats(moment2);
  }
}

std::vector<OptimizerState> Executor::optimizerStates() {
  const Stage &stage = stageInfo();
  std::vector<OptimizerState> states;
  if (loaded.program.zero == 0) {
    for (const Parameter &q : stage.parameters) {
      if (!q.trainable)
        continue;
      OptimizerState &state = states.emplace_back();
      state.parameter = &q;
      state.count = q.elements();
      state.weight = at(q.weightOffset());
      state.average = at(q.averageOffset);
      addMoments(state, q.moment1Offset, q.moment2Offset, 0, q.elements());
    }
    return states;
  }
  for (const Bucket &bucket : stage.buckets)
    for (const BucketPiece &piece : piecesOf(stage, bucket, grain())) {
      if (piece.owner != theReplica)
        continue;
      const Parameter &q = stage.parameters[piece.parameter];
      const BucketShare &share = *bucket.share;
      const int64_t place = piece.at - share.bounds[theReplica];
      OptimizerState &state = states.emplace_back();
      state.parameter = &q;
      state.first = piece.first;
      state.count = piece.count;
      state.weight =
          share.masterOffset >= 0 ? at(share.masterOffset) + place : at(q.dataOffset) + piece.first;
      state.average = share.averageOffset < 0 ? nullptr : at(share.averageOffset) + place;
      addMoments(state, share.moment1Offset, share.moment2Offset, place,
                 largestShare(share.bounds));
    }
  return states;
}

void Executor::assignRates(const std::function<int32_t(const Parameter &)> &rateOf) {
  impl->rates.clear();
  for (const Parameter &q : stageInfo().parameters)
    impl->rates.push_back(q.trainable ? rateOf(q) : 0);
}

std::vector<UpdatedTensor> Executor::updated() {
  const Parameter *first = stageInfo().parameters.data();
  std::vector<UpdatedTensor> tensors;
  for (const OptimizerState &state : optimizerStates()) {
    const Parameter &q = *state.parameter;
    BFloat16 *copy = q.dtype == DType::F32
                         ? nullptr
                         : reinterpret_cast<BFloat16 *>(at(q.dataOffset)) + state.first;
    UpdatedTensor &tensor = tensors.emplace_back();
    tensor = {state.weight, at(q.gradOffset) + state.first, state.moment1, state.moment2,
              state.count,  impl->rates[&q - first],        copy};
    tensor.coded1 = state.coded1;
    tensor.coded2 = state.coded2;
    const size_t rank = q.shape.size();
    if (q.orthogonalized || isFactored(loaded.program.optimizer, rank)) {
      tensor.rows = q.shape[rank - 2], tensor.cols = q.shape[rank - 1];
      if (q.transposed) {
        std::swap(tensor.rows, tensor.cols);
        if (!q.orthogonalized) // variances are of the checkpoint's rows and columns
          std::swap(tensor.moment1, tensor.moment2);
      }
    }
  }
  return tensors;
}

std::vector<AveragedTensor> Executor::averaged() {
  std::vector<AveragedTensor> tensors;
  if (loaded.program.averages)
    for (const OptimizerState &state : optimizerStates())
      tensors.push_back({state.weight, state.average, state.count});
  return tensors;
}

Status Executor::beginAverages() {
  Backend &backend = *device.backend;
  for (const AveragedTensor &tensor : averaged()) {
    const int64_t bytes = tensor.elements * int64_t{sizeof(float)};
    OMNIBAL_RETURN_IF_ERROR(backend.read(tensor.value, bytes, [&](const std::byte *values) {
      return backend.upload(tensor.average, values, bytes);
    }));
  }
  return Status::ok();
}

/// What kernels read follows: copies, and the other replicas' shares.
Status Executor::exchangeAverages() {
  OMNIBAL_RETURN_IF_ERROR(device.backend->exchange(averaged()));
  OMNIBAL_RETURN_IF_ERROR(device.backend->copyParameters(updated()));
  if (loaded.program.zero > 0)
    for (size_t bucket = 0; bucket < stageInfo().buckets.size(); ++bucket)
      OMNIBAL_RETURN_IF_ERROR(gatherParameters(static_cast<int32_t>(bucket)));
  return Status::ok();
}

Status Executor::refreshCopies() {
  return loaded.program.zero > 0 ? takeShares() : device.backend->copyParameters(updated());
}

/// The float32 values came to the place of the gradients, which are zero between two steps.
Status Executor::takeShares() {
  std::vector<UpdatedTensor> arrived;
  for (const Parameter &q : stageInfo().parameters)
    if (q.trainable && q.dtype != DType::F32)
      arrived.push_back({at(q.weightOffset()), nullptr, nullptr, nullptr, q.elements(), 0,
                         reinterpret_cast<BFloat16 *>(at(q.dataOffset))});
  if (!bringsWeights())
    return Status::ok();
  Backend &backend = *device.backend;
  OMNIBAL_RETURN_IF_ERROR(backend.copyParameters(arrived));
  for (const OptimizerState &state : optimizerStates()) {
    const int64_t bytes = state.count * int64_t{sizeof(float)};
    OMNIBAL_RETURN_IF_ERROR(backend.read(
        at(state.parameter->weightOffset()) + state.first, bytes,
        [&](const std::byte *values) { return backend.upload(state.weight, values, bytes); }));
  }
  return backend.fillZero(gradients());
}

Status Executor::reduceBucket(int32_t number) {
  if (loaded.program.dataParallel == 1)
    return Status::ok();
  const std::vector<FloatRun> runs = runsOf(bucketGradients(number));
  OMNIBAL_ASSIGN_OR_RETURN(const std::optional<Event> after, weighBucket(number, runs));
  OMNIBAL_ASSIGN_OR_RETURN(Transport::Handle handle, startSum(runs, ranksOfReplicas(), after));
  impl->sums.push_back(handle);
  return Status::ok();
}

Status Executor::scatterBucket(int32_t number) {
  const std::vector<OwnedPiece> pieces = bucketGradients(number);
  OMNIBAL_ASSIGN_OR_RETURN(const std::optional<Event> after, weighBucket(number, runsOf(pieces)));
  OMNIBAL_ASSIGN_OR_RETURN(Transport::Handle handle,
                           device.transport->startScatter(pieces, ranksOfReplicas(), after));
  if (tracing)
    impl->sumClock = device.transport->clockOf(handle);
  impl->sums.push_back(handle);
  return Status::ok();
}

/// Multiplies a bucket's gradients by what the replica counts; returns where the queue completes
/// them, if not behind everything so far.
Result<std::optional<Event>> Executor::weighBucket(int32_t bucket, std::span<const FloatRun> runs) {
  auto complete = impl->complete.find(bucket);
  std::optional<Event> after;
  if (impl->replicaWeight != 1)
    OMNIBAL_RETURN_IF_ERROR(device.backend->scale(runs, impl->replicaWeight));
  else if (complete != impl->complete.end())
    after = complete->second;
  return after;
}

/// Nothing has changed without an update.
Status Executor::gatherBucket(int32_t number) {
  return impl->updated ? gatherParameters(number) : Status::ok();
}

/// Each replica gets what kernels read of the others' shares.
Status Executor::gatherParameters(int32_t number) {
  const Stage &stage = stageInfo();
  std::vector<OwnedPiece> pieces;
  for (const BucketPiece &piece : piecesOf(stage, stage.buckets[number], grain())) {
    const Parameter &q = stage.parameters[piece.parameter];
    const int64_t width = byteSize(q.dtype);
    append(pieces, reinterpret_cast<std::byte *>(at(q.dataOffset)) + piece.first * width,
           piece.count * width, piece.owner);
  }
  return device.transport->gather(pieces, ranksOfReplicas());
}

Status Executor::bringWeights() {
  if (!bringsWeights())
    return Status::ok();
  Backend &backend = *device.backend;
  for (const OptimizerState &state : optimizerStates()) {
    const int64_t bytes = state.count * int64_t{sizeof(float)};
    float *to = at(state.parameter->weightOffset()) + state.first;
    OMNIBAL_RETURN_IF_ERROR(backend.read(state.weight, bytes, [&](const std::byte *values) {
      return backend.upload(to, values, bytes);
    }));
  }
  return gatherGradients(); // which lie there else
}

Status Executor::forgetWeights() {
  return bringsWeights() ? device.backend->fillZero(gradients()) : Status::ok();
}

/// Whether no rank has all of its stage's float32 values.
bool Executor::bringsWeights() const {
  const Stage &stage = stageInfo();
  return std::any_of(stage.buckets.begin(), stage.buckets.end(), [](const Bucket &bucket) {
    return bucket.share && bucket.share->masterOffset >= 0;
  });
}

Status Executor::gatherGradients() {
  if (loaded.program.zero > 0)
    for (size_t b = 0; b < stageInfo().buckets.size(); ++b)
      OMNIBAL_RETURN_IF_ERROR(
          device.transport->gather(bucketGradients(static_cast<int32_t>(b)), ranksOfReplicas()));
  return Status::ok();
}

} // namespace omnibal::rt
