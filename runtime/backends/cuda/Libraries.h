//===- Libraries.h - NVIDIA's libraries as far as one rank uses them --------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_LIBRARIES_H
#define RUNTIME_BACKENDS_CUDA_LIBRARIES_H

#include "runtime/backends/cuda/OwnMemory.h"
#include "runtime/backends/cuda/cublas/MatrixLibrary.h"

namespace omnibal::rt::cuda {

/// Each is opened when the first kernel asks for it. Where one is absent our own kernels serve,
/// which a notice says.
class Libraries {
public:
  /// `own` may be null.
  Libraries(std::string device, cudaStream_t stream, OwnMemory *own = nullptr)
      : device(std::move(device)), stream(stream), own(own) {}

  /// A kernel will multiply: its library takes its memory now, before the arena does.
  void expectProducts() { (void)matrix(); }

  /// launchGemm and launchGemmSums, or whatever does the same faster.
  Status multiply(const GemmShape &shape, const GemmData &data);

private:
  MatrixLibrary *matrix();

  std::string device;
  cudaStream_t stream;
  OwnMemory *own;
  std::unique_ptr<MatrixLibrary> matrixLibrary;
  bool matrixSought = false;
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_LIBRARIES_H
