//===- AttentionLibrary.h - A library of fused attention, opened at run time ------------------===//
//
// libomnibal_cudnn.so is such a library, by cuDNN's graph API. It is a separate shared object,
// because only that API's C++ headers can describe attention: if they are absent it is not built,
// and our own kernels serve. Docs: docs/cuda.md, "Attention by cuDNN".
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_LIBRARIES_ATTENTIONLIBRARY_H
#define RUNTIME_BACKENDS_CUDA_LIBRARIES_ATTENTIONLIBRARY_H

#include "runtime/backends/cuda/libraries/AttentionForm.h"
#include "runtime/support/Status.h"
#include <cuda_runtime_api.h>
#include <memory>
#include <string>

namespace omnibal::rt::cuda {

/// Computes calls of one form. out and lse, or dq, dk and dv, are written for the samples' rows
/// only. lse is the natural logarithm of the sum of exponentials of the scaled masked scores.
class AttentionPlan {
public:
  virtual ~AttentionPlan() = default;
  virtual int64_t workspaceBytes() const = 0;
  /// Enqueues the call.
  virtual Status run(const AttentionCall &call) = 0;
};

class AttentionLibrary {
public:
  virtual ~AttentionLibrary() = default;
  /// "cuDNN 9.19.0"
  virtual std::string description() const = 0;
  /// NotFound: the library has no kernel for the form, and says why.
  virtual Result<std::unique_ptr<AttentionPlan>> plan(const AttentionForm &form) = 0;
};

struct AttentionDevice {
  cudaStream_t stream = nullptr;
  int capability = 0;  ///< 90 for 9.0
  std::string runtime; ///< the file of CUDA's runtime that the backend runs on
  /// If this is not empty, there is no device: plans are made for the device that this JSON
  /// describes (cuDNN's serialized device properties) and cannot run.
  std::string properties;
};

/// What an attention library exports as "omnibalAttentionPlugin".
struct AttentionPlugin {
  const char *interface; ///< attentionInterface of its build
  /// Null: `error` says why.
  AttentionLibrary *(*open)(const AttentionDevice &device, Status &error);
};

/// Looks for libomnibal_cudnn.so in OMNIBAL_CUDA_LIBRARIES and beside the plugin, and fills in
/// AttentionDevice::runtime. NotFound without a message: there is none.
Result<std::unique_ptr<AttentionLibrary>> openAttentionLibrary(AttentionDevice device);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_LIBRARIES_ATTENTIONLIBRARY_H
