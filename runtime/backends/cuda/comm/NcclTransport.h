//===- NcclTransport.h - Ranks with a device each, over NCCL ----------------------------------===//
//
// Messages go on one stream in the order of the calls. Those between two waits, or until the rank's
// next work, are one group, whose sends and receives help each other. NCCL pairs messages by their
// order, so tags are not sent: rule p11 of programs (docs/program.md) says that the orders agree
// and that no group waits for one behind it. Sums have a separate stream.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_COMM_NCCLTRANSPORT_H
#define RUNTIME_BACKENDS_CUDA_COMM_NCCLTRANSPORT_H

#include "runtime/backends/cuda/driver/RankStream.h"

namespace omnibal::rt::cuda {

/// Opens the transport; all ranks of `control` call it, each with a device of its own.
Result<std::unique_ptr<Transport>> openNcclTransport(Communicator &control, const RankStream &queue,
                                                     const RankGroups &groups);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_COMM_NCCLTRANSPORT_H
