//===- Plain.h - Plain kernels: any element types, shapes and strides, not fast ---------------===//
//
// These kernels serve the ops of the dialect that have no kernel of their own (docs/kernels.md). As
// on the host, floating-point numbers are read as double, the rest as int64, and rounded once when
// written; no result depends on the order of threads. Indices are not checked: what lies outside
// reads as 0 and is not written.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_PLAIN_PLAIN_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_PLAIN_PLAIN_H

#include "runtime/backends/cuda/kernels/Strides.h"
#include "runtime/device/PlainMath.h"
#include <cuda_runtime_api.h>

namespace omnibal::rt::cuda {

/// A tensor in device memory.
struct PlainView {
  static constexpr int maxRank = 8;
  void *data = nullptr;
  Element type = Element::F32;
  int rank = 0;
  int64_t shape[maxRank] = {}, strides[maxRank] = {};

  int64_t elements() const {
    int64_t n = 1;
    for (int d = 0; d < rank; ++d)
      n *= shape[d];
    return n;
  }
};

// Elementwise: all views have the shape of `to` (stride 0 where one is broadcast).
cudaError_t launchUnary(plain::Unary op, const PlainView &to, const PlainView &from,
                        cudaStream_t stream);
cudaError_t launchBinary(plain::Binary op, const PlainView &to, const PlainView &a,
                         const PlainView &b, cudaStream_t stream);
cudaError_t launchSelect(const PlainView &to, const PlainView &condition, const PlainView &yes,
                         const PlainView &no, cudaStream_t stream);
/// The diagonal's number is the element of `diagonal`, or 0 where its data is null.
cudaError_t launchTrilu(const PlainView &to, const PlainView &from, const PlainView &diagonal,
                        bool upper, cudaStream_t stream);
/// to[i] = start + i * delta, both one element.
cudaError_t launchRange(const PlainView &to, const PlainView &start, const PlainView &delta,
                        cudaStream_t stream);

/// Which element of a tensor a position means. Axis: [a.., indices[i..], b..] for [a.., i.., b..].
/// Vector: the last dimension of the indices is a vector of them, behind `first` equal dimensions.
/// Element: the position itself, but for dimension `first`, whose index stands at the position.
enum class IndexKind { Axis, Vector, Element };
struct PlainIndex {
  IndexKind kind = IndexKind::Axis;
  int first = 0; ///< the axis, or the number of equal dimensions
  PlainView indices;
};

/// to[position] = from[what the position means].
cudaError_t launchGather(const PlainIndex &index, const PlainView &to, const PlainView &from,
                         cudaStream_t stream);

/// to[line][i] = the place of the i-th largest (or smallest) value of the line along the last
/// dimension, of equal ones the first. `to` holds as many as are wanted.
cudaError_t launchTopK(const PlainView &to, const PlainView &from, bool smallest,
                       cudaStream_t stream);

enum class ScatterKind { None, Add, Mul, Max, Min };

/// Bytes of scratch memory for so many updates.
int64_t scatterBytes(int64_t updates);
/// to[what the position means] is combined with updates[position], in the order of positions.
cudaError_t launchScatter(const PlainIndex &index, ScatterKind kind, const PlainView &to,
                          const PlainView &updates, void *scratch, cudaStream_t stream);

/// Along one axis.
cudaError_t launchSoftmax(const PlainView &to, const PlainView &from, int axis, bool logarithm,
                          cudaStream_t stream);
/// `axisAt` (its data may be null) holds the axis and goes before `axis`.
cudaError_t launchCumSum(const PlainView &to, const PlainView &from, int64_t axis,
                         const PlainView &axisAt, bool exclusive, bool reverse,
                         cudaStream_t stream);

struct PlainNorm {
  int axis = 0; ///< statistics are over dimensions [axis, rank)
  bool centered = false;
  double epsilon = 1e-5;
};

/// scale and bias have the shape of `to` (stride 0 where broadcast); their data may be null.
cudaError_t launchNorm(const PlainNorm &norm, const PlainView &to, const PlainView &from,
                       const PlainView &scale, const PlainView &bias, cudaStream_t stream);

/// ONNX Conv: input [N, C, x..], weight [O, C / group, k..], output [N, O, y..].
struct PlainConv {
  static constexpr int maxDims = PlainView::maxRank - 2;
  int64_t strides[maxDims] = {}, pads[maxDims] = {}, dilations[maxDims] = {};
  int64_t group = 1;
};

/// `bias` [O]; its data may be null.
cudaError_t launchConv(const PlainConv &conv, const PlainView &input, const PlainView &weight,
                       const PlainView &bias, const PlainView &output, cudaStream_t stream);
/// Writes `input`.
cudaError_t launchConvInputGrad(const PlainConv &conv, const PlainView &input,
                                const PlainView &weight, const PlainView &output,
                                cudaStream_t stream);
/// Writes `weight`.
cudaError_t launchConvWeightGrad(const PlainConv &conv, const PlainView &input,
                                 const PlainView &weight, const PlainView &output,
                                 cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_PLAIN_PLAIN_H
