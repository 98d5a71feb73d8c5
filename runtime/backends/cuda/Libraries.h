//===- Libraries.h - NVIDIA's libraries as far as one rank uses them --------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_LIBRARIES_H
#define RUNTIME_BACKENDS_CUDA_LIBRARIES_H

#include "runtime/backends/cuda/cublas/MatrixLibrary.h"

namespace omnibal::rt::cuda {

/// Each is opened when the first kernel asks for it. Where one is absent our own kernels serve,
/// which a notice says.
class Libraries {
public:
  Libraries(std::string device, cudaStream_t stream) : device(std::move(device)), stream(stream) {}

  /// c = activation(alpha a b + bias) + residual, by whatever can do it best.
  Status multiply(const GemmShape &shape, const GemmData &data);

private:
  MatrixLibrary *matrix();

  std::string device;
  cudaStream_t stream;
  std::unique_ptr<MatrixLibrary> matrixLibrary;
  bool matrixSought = false;
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_LIBRARIES_H
