//===- Libraries.h - NVIDIA's libraries as far as one rank uses them --------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_LIBRARIES_LIBRARIES_H
#define RUNTIME_BACKENDS_CUDA_LIBRARIES_LIBRARIES_H

#include "runtime/backends/cuda/driver/WorkspaceLedger.h"
#include "runtime/backends/cuda/libraries/FusedAttention.h"
#include "runtime/backends/cuda/libraries/MatrixLibrary.h"

namespace omnibal::rt::cuda {

/// Each library is opened when the first kernel asks for it. If one is absent, our own kernels
/// serve, and a notice says so.
class Libraries {
public:
  /// `capability`: 90 for 9.0. `own` may be null.
  Libraries(std::string device, int capability, cudaStream_t stream, WorkspaceLedger *own = nullptr)
      : device(std::move(device)), capability(capability), stream(stream), own(own) {}

  /// Announces that a kernel will multiply: its library takes its memory now, before the arena
  /// does.
  void expectProducts() { (void)matrix(); }

  /// Does what launchGemm and launchGemmSums do, or uses whatever does the same faster.
  Status multiply(const GemmShape &shape, const GemmData &data);

  /// Computes attention by a library, or does nothing (false) if our own kernels are to do it.
  Result<bool> attend(const AttentionShape &shape, const AttentionData &data, const Load *load,
                      bool backward);
  /// Whether a library has been asked for attention.
  bool usesAttention() const { return fusedAttention != nullptr; }

private:
  MatrixLibrary *matrix();
  FusedAttention *attention();

  std::string device;
  int capability;
  cudaStream_t stream;
  WorkspaceLedger *own;
  std::unique_ptr<MatrixLibrary> matrixLibrary;
  std::unique_ptr<FusedAttention> fusedAttention;
  bool matrixSought = false, attentionSought = false;
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_LIBRARIES_LIBRARIES_H
