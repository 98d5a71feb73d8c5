//===- ThreadCommunicator.h - Ranks as threads of one process ----------------------------===//
#ifndef RUNTIME_COMM_THREADS_THREADCOMMUNICATOR_H
#define RUNTIME_COMM_THREADS_THREADCOMMUNICATOR_H

#include "runtime/comm/Communicator.h"
#include <memory>
#include <vector>

namespace omnibal::rt {

/// Returns the communicators of `ranks` threads that share nothing else. Messages have no buffers:
/// bytes go from the sender's memory to the receiver's when both have called, and only then does a
/// send end.
std::vector<std::unique_ptr<Communicator>>
createThreadCommunicators(int ranks,
                          Communicator::Milliseconds deadline = Communicator::defaultDeadline);

} // namespace omnibal::rt
#endif // RUNTIME_COMM_THREADS_THREADCOMMUNICATOR_H
