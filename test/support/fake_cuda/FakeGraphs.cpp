// Recording of streams. What is recorded does not run before the graph is launched, and then as one
// piece of work, again with every launch.
#include "test/support/fake_cuda/FakeState.h"

namespace omnibal::fake {
namespace {

/// Streams that this thread records.
thread_local std::vector<CUstream_st *> recording;
thread_local cudaStreamCaptureMode strictness = cudaStreamCaptureModeGlobal;

} // namespace

Capture::~Capture() {
  for (void *address : memory)
    state().free(address);
}

bool refuseWhileCapturing() {
  if (strictness == cudaStreamCaptureModeRelaxed)
    return false;
  for (CUstream_st *stream : recording)
    if (stream->capture)
      stream->capture->valid = false;
  return !recording.empty();
}

} // namespace omnibal::fake

using namespace omnibal::fake;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  auto guard = lock();
  if (stream->capture)
    return cudaErrorInvalidValue;
  stream->capture = std::make_shared<Capture>();
  recording.push_back(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  auto guard = lock();
  *graph = nullptr;
  if (!stream->capture)
    return cudaErrorInvalidValue;
  std::shared_ptr<Capture> work = std::move(stream->capture);
  stream->capture.reset();
  std::erase(recording, stream);
  if (!work->valid)
    return cudaErrorStreamCaptureInvalidated;
  *graph = new CUgraph_st{std::move(work)};
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
  auto guard = lock();
  *status = stream->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode) {
  std::swap(*mode, strictness);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long) {
  auto guard = lock();
  if (device().graphsFail)
    return cudaErrorMemoryAllocation;
  *made = new CUgraphExec_st{graph->work, ++state().graphs};
  ++state().liveGraphs;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  auto guard = lock();
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { // its launches are still done
  auto guard = lock();
  --state().liveGraphs;
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  enqueue(stream, "launch graph " + std::to_string(graph->number), [work = graph->work] {
    for (const auto &run : work->work)
      run();
  });
  return cudaSuccess;
}

} // extern "C"
