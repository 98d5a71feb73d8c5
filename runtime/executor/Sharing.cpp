//===- Sharing.cpp - What one rank reads for all that hold it ---------------------------------===//
//
// Replicas and parts of a stage, and the stages that share a parameter, begin and stay with the
// same bits. So one of them reads the files and tells the others, over what moves tensors anyway.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/executor/ExecutorInternal.h"
#include "runtime/program/MomentShapes.h"
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
