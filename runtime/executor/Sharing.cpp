//===- Sharing.cpp - What one rank reads for all that hold it ---------------------------------===//
//
// Replicas and parts of a stage, and the stages that share a parameter, begin and stay with the
// same bits. So one of them reads the files and tells the others, over what moves tensors anyway.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/executor/ExecutorInternal.h"
#include "runtime/program/MomentShapes.h"
#include "runtime/support/Checksum.h"
#include <algorithm>
#include <set>

namespace omnibal::rt {
namespace {

/// Neighbors in memory as one. Only among those that hold a stage, which have the same layout: all
/// ranks must name the same sizes.
std::vector<Transport::Piece> joined(const std::vector<Transport::Piece> &pieces) {
  std::vector<Transport::Piece> result;
  for (const Transport::Piece &piece : pieces)
    if (!result.empty() &&
        static_cast<std::byte *>(result.back().data) + result.back().bytes == piece.data)
      result.back().bytes += piece.bytes;
    else
      result.push_back(piece);
  return result;
}

} // namespace

/// Compares checksums of 32 bits, which doubles hold.
Status Executor::checkCopies() {
  if (!options.guarded)
    return Status::ok();
  for (const bool isHeld : {false, true}) {
    const std::vector<int> ranks = isHeld ? ranksOfReplicas() : ranksOfHolders();
    if (ranks.size() == 1)
      continue;
    std::vector<const Parameter *> list;
    for (const Parameter &q : stageInfo().parameters)
      if (q.held.has_value() == isHeld)
        list.push_back(&q);
    const size_t place = std::find(ranks.begin(), ranks.end(), communicator.rank()) - ranks.begin();
    std::vector<double> sums(ranks.size() * list.size());
    for (size_t i = 0; i < list.size(); ++i)
      OMNIBAL_RETURN_IF_ERROR(device.backend->read(
          at(list[i]->dataOffset), list[i]->dataBytes(), [&](const std::byte *bytes) {
            const uint64_t sum = fnv1a(
                {reinterpret_cast<const char *>(bytes), static_cast<size_t>(list[i]->dataBytes())});
            sums[place * list.size() + i] = static_cast<uint32_t>(sum ^ sum >> 32);
            return Status::ok();
          }));
    OMNIBAL_RETURN_IF_ERROR(communicator.allReduce(std::span<double>(sums), ranks));
    for (size_t i = 0; i < sums.size(); ++i)
      if (sums[i] != sums[i % list.size()])
        return {Code::Internal, "parameter \"" + list[i % list.size()]->name +
                                    "\" has other bits on rank " +
                                    std::to_string(ranks[i / list.size()]) + " than on rank " +
                                    std::to_string(ranks.front()) +
                                    "; ranks that hold the same must compute the same: are their "
                                    "processors of one kind?"};
  }
  return Status::ok();
}

bool Executor::reads(const Parameter &q) const {
  if (!readsWeights())
    return false;
  // Frozen ones of several stages may lie in other ways there.
  return !q.trainable || q.sharedGroup < 0 ||
         ranksOfShared(q.sharedGroup).front() == communicator.rank();
}

Status Executor::shareParameters(bool moments) {
  auto valuesOf = [&](const Parameter &q, std::vector<Transport::Piece> &pieces) {
    const int64_t floats = q.elements() * int64_t{sizeof(float)};
    if (!q.trainable && !moments) // a checkpoint holds what trains
      pieces.push_back({at(q.dataOffset), q.dataBytes()});
    if (q.trainable)
      pieces.push_back({at(q.weightOffset()), floats});
    const std::vector<int64_t> ofMoments = momentBytes(loaded.program.optimizer, q);
    for (auto [offset, bytes] :
         {std::pair{q.moment1Offset, ofMoments.front()},
          std::pair{q.moment2Offset, ofMoments.back()}, std::pair{q.averageOffset, floats}})
      if (q.trainable && moments && offset >= 0) // those of shares are nobody else's
        pieces.push_back({at(offset), bytes});
  };
  Transport &transport = *device.transport;
  std::set<int32_t> groups; // in one order on all stages
  for (const Parameter &q : stageInfo().parameters)
    if (readsWeights() && q.trainable && q.sharedGroup >= 0)
      groups.insert(q.sharedGroup);
  for (int32_t group : groups) {
    std::vector<Transport::Piece> pieces;
    for (const Parameter &q : stageInfo().parameters)
      if (q.trainable && q.sharedGroup == group)
        valuesOf(q, pieces);
    const std::vector<int> ranks = ranksOfShared(group);
    OMNIBAL_RETURN_IF_ERROR(transport.broadcast(pieces, ranks.front(), ranks));
  }
  const std::vector<int> ranks =
      loaded.program.hasOwnParts() ? ranksOfReplicas() : ranksOfHolders();
  if (ranks.size() == 1)
    return Status::ok();
  std::vector<Transport::Piece> pieces;
  for (const Parameter &q : stageInfo().parameters)
    valuesOf(q, pieces);
  return transport.broadcast(joined(pieces), ranks.front(), ranks);
}

} // namespace omnibal::rt
