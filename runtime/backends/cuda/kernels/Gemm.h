//===- Gemm.h - Plain matrix products with what follows them ----------------------------------===//
//
// For what a library declines (strides, alignment) and for checking one: any strides, float32
// arithmetic on the ordinary cores, one order of summation for every shape.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_GEMM_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_GEMM_H

#include "runtime/backends/cuda/kernels/Strides.h"
#include <cuda_runtime_api.h>

namespace omnibal::rt::cuda {

enum class GemmActivation { None, Gelu, GeluTanh, Silu, QuickGelu, Relu };

/// Matrices a [m, k], b [k, n], c [m, n] in batches of up to six leading dimensions.
struct GemmShape {
  static constexpr int maxBatchRank = 6;
  struct Operand {
    RowStrides strides;
    int64_t batch[maxBatchRank] = {}; ///< strides of the leading dimensions; 0 broadcasts
  };
  int64_t m = 0, n = 0, k = 0;
  int batchRank = 0;
  int64_t batch[maxBatchRank] = {};
  Operand a, b, c, residual, pre;
  int64_t biasStride = 1;
  float alpha = 1;
  bool accumulate = false; ///< c += alpha a b; no bias, residual, pre or activation then
  GemmActivation activation = GemmActivation::None;
  Element type = Element::F32;       ///< of a, b and bias: F32 or BF16
  Element resultType = Element::F32; ///< of c, residual and pre: the same, or F32
};

/// c = activation(alpha a b + bias) + residual; pre = what the activation gets. The last three
/// pointers may be null; residual may be c.
cudaError_t launchGemm(const GemmShape &shape, const void *a, const void *b, void *c,
                       const void *bias, const void *residual, void *pre, cudaStream_t stream);

/// Which steps after a product are still to be done.
struct GemmRest {
  bool bias = false, activation = false, residual = false;
  bool fromPre = false; ///< the product lies in `pre`, not in `c`
  bool any() const { return bias || activation || residual || fromPre; }
};

/// Finishes a product that a library has left in c or pre; pre is written again where the bias was
/// missing. residual may be c only with fromPre.
cudaError_t launchGemmRest(const GemmShape &shape, const GemmRest &rest, void *c, const void *bias,
                           const void *residual, void *pre, cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_GEMM_H
