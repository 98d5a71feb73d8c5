#include "runtime/backends/cuda/driver/GraphCapture.h"
#include <cstdlib>

namespace omnibal::rt::cuda {
namespace {

class Graph final : public CapturedGraph {
public:
  ~Graph() override {
    if (executable)
      (void)cudaGraphExecDestroy(executable);
  }
  cudaGraphExec_t executable = nullptr;
};

} // namespace

int graphsFromEnvironment() {
  constexpr int usual = 128, most = 100000;
  const char *text = std::getenv("OMNIBAL_CUDA_GRAPHS");
  if (!text || !*text)
    return usual;
  char *end = nullptr;
  const long count = std::strtol(text, &end, 10);
  return *end || count < 0 || count > most ? usual : static_cast<int>(count);
}

Status startCapture(cudaStream_t stream) {
  // Only this thread's calls are watched: other ranks of the process go on with theirs.
  return check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "recording a stream's work");
}

Result<std::unique_ptr<CapturedGraph>> finishCapture(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  std::unique_ptr<CapturedGraph> none;
  if (cudaStreamEndCapture(stream, &graph) != cudaSuccess || !graph) {
    (void)cudaGetLastError(); // the work runs unrecorded, and says what is wrong with it
    return none;
  }
  auto made = std::make_unique<Graph>();
  const cudaError_t error = cudaGraphInstantiate(&made->executable, graph, 0);
  (void)cudaGraphDestroy(graph);
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    made->executable = nullptr;
    return none;
  }
  return std::unique_ptr<CapturedGraph>(std::move(made));
}

Status launchGraph(CapturedGraph &work, cudaStream_t stream) {
  return check(cudaGraphLaunch(static_cast<Graph &>(work).executable, stream), "recorded work");
}

} // namespace omnibal::rt::cuda
