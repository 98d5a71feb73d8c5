//===- Epilogue.h - What follows a GEMM tile while it is in cache ------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_VECTOR_EPILOGUE_H
#define RUNTIME_BACKENDS_HOST_VECTOR_EPILOGUE_H

#include "runtime/backends/host/vector/Isa.h"
#include <cstdint>

namespace omnibal::rt {

enum class Activation { None, Gelu, GeluTanh, Silu, QuickGelu, Relu };

/// c = activation(source + bias) + residual over a tile; pre = source + bias. Null = absent. With
/// `at`: c = source * derivative of the activation at `at`, and nothing else.
struct Epilogue {
  int64_t rows = 0, cols = 0;
  const float *source = nullptr; ///< may be c
  float *c = nullptr;
  const float *bias = nullptr;
  const float *residual = nullptr;
  float *pre = nullptr;
  const float *at = nullptr;
  /// Of a row.
  int64_t sourceStride = 0, cStride = 0, residualStride = 0, preStride = 0, atStride = 0;
  /// Of a column of residual, pre and at (source and c: 1); of bias: exactly one of the two is not
  /// 0, unless there is one element.
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
