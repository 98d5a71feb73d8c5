//===- MpiCommunicator.h - One process a rank, over MPI ----------------------------------===//
#ifndef RUNTIME_COMM_MPI_MPICOMMUNICATOR_H
#define RUNTIME_COMM_MPI_MPICOMMUNICATOR_H

#include "runtime/comm/Communicator.h"
#include <memory>

namespace omnibal::rt {

/// Initializes MPI, which the communicator finalizes; a process calls this once. The result is
/// Unavailable if this build has no MPI. abort() ends the whole job with exit code 1, so callers
/// print their message first.
Result<std::unique_ptr<Communicator>>
createMpiCommunicator(Communicator::Milliseconds deadline = Communicator::defaultDeadline);

/// Installs a handler that writes what this rank was doing to stderr when the job is terminated
/// (after another rank's failure), and ends the process.
void reportActivityOnTermination();

} // namespace omnibal::rt
#endif // RUNTIME_COMM_MPI_MPICOMMUNICATOR_H
