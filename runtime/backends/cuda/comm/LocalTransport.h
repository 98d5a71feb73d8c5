//===- LocalTransport.h - Ranks of one process on one device ----------------------------------===//
//
// Several logical ranks share a device: messages are copies within it, ordered by events. As with
// ThreadCommunicator, a message begins when both sides have called, and neither side's wait()
// returns before that. Here wait() returns when the copy is enqueued, and the rank's queue waits
// for the copy.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_COMM_LOCALTRANSPORT_H
#define RUNTIME_BACKENDS_CUDA_COMM_LOCALTRANSPORT_H

#include "runtime/backends/cuda/driver/RankStream.h"

namespace omnibal::rt::cuda {

/// Opens the transport; all ranks of `control` call this, as threads of one process. The rank's
/// queue outlives the transport.
Result<std::unique_ptr<Transport>> openLocalTransport(Communicator &control,
                                                      const RankStream &queue);

/// Returns whether all ranks are threads of one process; all of them call this.
Result<bool> inOneProcess(Communicator &control);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_COMM_LOCALTRANSPORT_H
