//===- Gemm.h - Plain matrix products with what follows them ----------------------------------===//
//
// This kernel computes what a library declines (strides, alignment) and serves to check one. It
// takes any strides and computes in float32 on the ordinary cores, with one order of summation for
// every shape.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_MATRIX_GEMM_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_MATRIX_GEMM_H

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
  Operand a, b, c, residual, pre, at;
  int64_t biasStride = 1;
  float alpha = 1;
  bool accumulate = false; ///< c += alpha a b; no bias, residual, pre or activation then
  GemmActivation activation = GemmActivation::None;
  Element type = Element::F32;       ///< of a, b and bias: F32 or BF16
  Element resultType = Element::F32; ///< of c, residual, pre and at: the same, or F32
};

/// Operands in device memory; from `bias` on they may be null.
struct GemmData {
  const void *a = nullptr, *b = nullptr;
  void *c = nullptr;
  const void *bias = nullptr, *residual = nullptr;
  void *pre = nullptr;
  const void *at = nullptr; ///< excludes bias, residual and pre
  /// += the sums of a [m] and b [n] over k; dense, for products without batches.
  float *sumA = nullptr, *sumB = nullptr;
  float *partials = nullptr; ///< for the sums: columnSumScratch values, or null
};

/// Computes c = activation(alpha a b + bias) + residual, and pre = the argument of the activation.
/// With `at`, it computes c = alpha a b * the derivative of the activation there. residual may be
/// c. It does not compute the sums.
cudaError_t launchGemm(const GemmShape &shape, const GemmData &data, cudaStream_t stream);

/// Which steps after a product are still to be done.
struct GemmRest {
  bool bias = false, activation = false, residual = false;
  bool fromPre = false;    ///< the product lies in `pre`, not in `c`
  bool derivative = false; ///< the product is to be multiplied by it; nothing else then
  bool any() const { return bias || activation || residual || fromPre || derivative; }
};

/// Finishes a product that a library has left in c or pre; pre is written again where the bias was
/// missing. residual may be c only with fromPre.
cudaError_t launchGemmRest(const GemmShape &shape, const GemmRest &rest, const GemmData &data,
                           cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_MATRIX_GEMM_H
