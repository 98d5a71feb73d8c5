//===- Stopwatch.h - How long a launch takes -------------------------------------------------===//
//
// A stopwatch runs on a stream of its own. While it lives, the thread may allocate and wait
// although another of its streams records a graph.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_DRIVER_STOPWATCH_H
#define RUNTIME_BACKENDS_CUDA_DRIVER_STOPWATCH_H

#include "runtime/backends/cuda/driver/Runtime.h"
#include <functional>
#include <optional>

namespace omnibal::rt::cuda {

/// Waits for the stream's work, unless the stream records a graph, whose work has not begun.
Status settle(cudaStream_t stream);

class Stopwatch {
public:
  static Result<std::unique_ptr<Stopwatch>> create();
  ~Stopwatch();
  Stopwatch(const Stopwatch &) = delete;

  cudaStream_t stream() const { return queue->handle(); }
  /// Returns the seconds of one launch, the least of a few rounds; nothing if `launch` returns
  /// false. What takes far more than `toBeat` at its second launch is not launched again.
  Result<std::optional<double>> time(const std::function<bool()> &launch,
                                     std::optional<double> toBeat = std::nullopt);

private:
  Stopwatch() = default;
  Result<double> round(int launches, const std::function<bool()> &launch, bool &went);

  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  bool relaxed = false;
  std::unique_ptr<Stream> queue;
  std::shared_ptr<DriverEvent> begin, end;
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_DRIVER_STOPWATCH_H
