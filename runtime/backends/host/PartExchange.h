//===- PartExchange.h - Moves among the parts of a stage, from messages
//------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_PARTEXCHANGE_H
#define RUNTIME_BACKENDS_HOST_PARTEXCHANGE_H

#include "runtime/comm/Communicator.h"
#include "runtime/device/PartMove.h"

namespace omnibal::rt {

/// Performs a move (PartMove.h) among `ranks`, of which this one is part `ranks` says it is. What
/// is sent lies where the operands do: messages name its pieces.
Status exchangeParts(Communicator &communicator, const PartMove &move,
                     std::span<const TensorView> operands, const SymbolValues &symbols,
                     std::span<const int> ranks);

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_PARTEXCHANGE_H
