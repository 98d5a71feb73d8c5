//===- Transports.h - Which way a run's tensors go --------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_COMM_TRANSPORTS_H
#define RUNTIME_BACKENDS_CUDA_COMM_TRANSPORTS_H

#include "runtime/backends/cuda/driver/RankStream.h"

namespace omnibal::rt::cuda {

/// Opens the transport; all ranks call it. Threads of one process share its device and copy within
/// it; ranks in several processes have a device each and use NCCL. OMNIBAL_CUDA_TRANSPORT=nccl uses
/// NCCL in any case, also for one rank alone.
Result<std::unique_ptr<Transport>> openRankTransport(Communicator &control, const RankStream &queue,
                                                     const RankGroups &groups);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_COMM_TRANSPORTS_H
