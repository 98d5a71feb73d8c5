//===- GraphCapture.h - Work of a stream as a CUDA graph -------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_DRIVER_GRAPHCAPTURE_H
#define RUNTIME_BACKENDS_CUDA_DRIVER_GRAPHCAPTURE_H

#include "runtime/backends/cuda/driver/Runtime.h"

namespace omnibal::rt::cuda {

/// Returns how many graphs a rank keeps: OMNIBAL_CUDA_GRAPHS (0: none are made), else 128.
int graphsFromEnvironment();

/// Captures from here on what this thread enqueues on the stream.
Status startCapture(cudaStream_t stream);
/// Returns the graph, or null if something in it cannot be captured; nothing of it was performed.
Result<std::unique_ptr<CapturedGraph>> finishCapture(cudaStream_t stream);
Status launchGraph(CapturedGraph &work, cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_DRIVER_GRAPHCAPTURE_H
