//===- Epilogue.h - What follows a GEMM tile while it is in cache ------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_VECTOR_EPILOGUE_H
#define RUNTIME_BACKENDS_HOST_VECTOR_EPILOGUE_H

#include "runtime/backends/host/vector/Isa.h"
#include <cstdint>

namespace omnibal::rt {

enum class Activation { None, Gelu, GeluTanh, Silu, QuickGelu, Relu };

/// The epilogue computes c = activation(source + bias) + residual over a tile, and pre = source +
/// bias. A null operand is absent. With `at` it computes c = source * derivative of the activation
/// at `at`, and nothing else.
struct Epilogue {
  int64_t rows = 0, cols = 0;
  const float *source = nullptr; ///< may be c
  float *c = nullptr;
  const float *bias = nullptr;
  const float *residual = nullptr;
  float *pre = nullptr;
  const float *at = nullptr;
  /// The strides from row to row.
  int64_t sourceStride = 0, cStride = 0, residualStride = 0, preStride = 0, atStride = 0;
  /// The strides from column to column of residual, pre and at; those of source and c are 1.
  /// Exactly one of the two strides of bias is not 0, unless there is one element.
  int64_t residualColStride = 1, preColStride = 1, atColStride = 1;
  int64_t biasRowStride = 0, biasColStride = 1;
  Activation activation = Activation::None;
};

struct EpilogueTable {
  void (*apply)(const Epilogue &);
};
OMNIBAL_DECLARE_VECTOR_TABLE(EpilogueTable, epilogueTable)

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_VECTOR_EPILOGUE_H
