//===- Dequantize.h - What the codes of a quantized matrix stand for -------------------------===//
//
// runtime/support/QuantizedMatrix.h says how a matrix is stored; its C++ is newer than nvcc's here.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_MATRIX_DEQUANTIZE_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_MATRIX_DEQUANTIZE_H

#include "runtime/backends/cuda/kernels/Strides.h"
#include <cuda_runtime_api.h>

namespace omnibal::rt::cuda {

struct DequantizeShape {
  int64_t rows = 0, cols = 0;
  int64_t scales = 0;    ///< before the codes: one a row of int8, one a block of levels
  int64_t block = 0;     ///< numbers that share a scale, a multiple of 8; 0: codes are int8
  float levels[16] = {}; ///< what codes of 4 bits stand for, the first of a byte in its upper half
  Element type = Element::F32; ///< of the result: F32 or BF16
};

/// Writes all numbers, row by row, as float32 products of codes and scales, rounded to the type.
/// `to` lies at a multiple of 16 bytes.
cudaError_t launchDequantize(const DequantizeShape &shape, const int32_t *words, void *to,
                             cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_MATRIX_DEQUANTIZE_H
