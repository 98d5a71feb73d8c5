//===- TcpCommunicator.h - One process a rank, over TCP ---------------------------------------===//
//
// This communicator serves launchers without MPI. A thread of its own reads and writes the sockets,
// so messages advance, and bad news arrives, while the rank computes.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_COMM_TCP_TCPCOMMUNICATOR_H
#define RUNTIME_COMM_TCP_TCPCOMMUNICATOR_H

#include "runtime/comm/tcp/TcpMesh.h"
#include <functional>
#include <memory>

namespace omnibal::rt {

struct TcpOptions {
  TcpPlace place;
  Communicator::Milliseconds deadline = Communicator::defaultDeadline;
  /// Called from the communicator's thread when another rank has failed or was lost and this one
  /// has neither called abort() nor ended within `patience`: this rank hangs, and nobody else can
  /// end it.
  std::function<void(const std::string &doing, const Status &reason)> abandoned;
  Communicator::Milliseconds patience{5000};
};

/// Meets the other ranks (TcpMesh.h) within the options' deadline;
/// `waits` is the deadline of what follows.
Result<std::unique_ptr<Communicator>> createTcpCommunicator(const TcpOptions &options,
                                                            Communicator::Milliseconds waits);

} // namespace omnibal::rt
#endif // RUNTIME_COMM_TCP_TCPCOMMUNICATOR_H
