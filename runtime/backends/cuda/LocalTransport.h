//===- LocalTransport.h - Ranks of one process on one device ----------------------------------===//
//
// Several logical ranks share a device: messages are copies within it, ordered by events. As with
// ThreadCommunicator, a message begins when both sides have called, and neither side's wait() comes
// back before; here it comes back when the copy is enqueued, and the rank's queue waits for it.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_LOCALTRANSPORT_H
#define RUNTIME_BACKENDS_CUDA_LOCALTRANSPORT_H

#include "runtime/backends/cuda/Runtime.h"

namespace omnibal::rt::cuda {

/// All ranks of `control` call this; InvalidArgument if they are not threads of one process.
/// `compute` is this rank's queue; it outlives the transport.
Result<std::unique_ptr<Transport>> openLocalTransport(Communicator &control, cudaStream_t compute,
                                                      Communicator::Milliseconds deadline);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_LOCALTRANSPORT_H
