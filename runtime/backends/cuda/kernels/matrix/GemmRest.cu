//===- GemmRest.cu - Bias, activation and residual after a product that a library made --------===//
#include "runtime/backends/cuda/kernels/matrix/GemmEpilogue.h"

namespace omnibal::rt::cuda {
namespace {

constexpr int threads = 256;

/// `width` neighbors of a line, lines being rows or, with `down`, columns.
template <typename T, typename To, int width>
__global__ void __launch_bounds__(threads)
    gemmRest(GemmShape s, GemmRest rest, GemmData d, int64_t batches, bool down) {
  const int64_t length = down ? s.m : s.n, lines = down ? s.n : s.m;
  const int64_t packs = (length + width - 1) / width;
  const int64_t total = batches * lines * packs;
  auto *c = static_cast<To *>(d.c), *pre = static_cast<To *>(d.pre);
  const auto *residual = static_cast<const To *>(d.residual);
  const auto *bias = static_cast<const T *>(d.bias);
  for (int64_t i = int64_t(blockIdx.x) * threads + threadIdx.x; i < total;
       i += int64_t(gridDim.x) * threads) {
    const int64_t batch = i / packs / lines, line = i / packs % lines, at = i % packs * width;
    const int64_t row = down ? at : line, col = down ? line : at;
    auto place = [&](const GemmShape::Operand &o) {
      return offsetOf(s, o, batch) + row * o.strides.row + col * o.strides.col;
    };
    const int64_t inC = place(s.c);
    const int64_t inPre = d.pre ? place(s.pre) : 0;
    float x[width];
    const auto product = loadPack<width>(rest.fromPre ? pre + inPre : c + inC);
    Pack<To, width> packed;
#pragma unroll
    for (int e = 0; e < width; ++e) {
      x[e] = toFloat(product.at[e]);
      if (rest.bias)
        x[e] += toFloat(bias[(col + (down ? 0 : e)) * s.biasStride]);
      packed.at[e] = fromFloat<To>(x[e]);
    }
    if (rest.bias && d.pre)
      storePack(pre + inPre, packed);
    Pack<To, width> where;
    if (rest.derivative)
      where = loadPack<width>(static_cast<const To *>(d.at) + place(s.at));
    Pack<To, width> added;
    if (rest.residual)
      added = loadPack<width>(residual + place(s.residual));
#pragma unroll
    for (int e = 0; e < width; ++e) {
      if (rest.derivative)
        x[e] *= derivative(s.activation, toFloat(where.at[e]));
      if (rest.activation)
        x[e] = activate(s.activation, x[e]);
      if (rest.residual)
        x[e] += toFloat(added.at[e]);
      packed.at[e] = fromFloat<To>(x[e]);
    }
    storePack(c + inC, packed);
  }
}

/// Whether all lines that are read or written begin where a pack may, and are whole packs.
bool inPacks(const GemmShape &s, const GemmData &d, bool down, int width, int64_t bytes) {
  auto fits = [&](const void *data, const GemmShape::Operand &o) {
    if (!data)
      return true;
    const RowStrides t = down ? RowStrides{o.strides.col, o.strides.row} : o.strides;
    bool whole = isAligned(data, width * bytes) && t.col == 1 && t.row % width == 0;
    for (int b = 0; b < s.batchRank; ++b)
      whole = whole && o.batch[b] % width == 0;
    return whole;
  };
  return (down ? s.m : s.n) % width == 0 && fits(d.c, s.c) && fits(d.pre, s.pre) &&
         fits(d.residual, s.residual) && fits(d.at, s.at);
}

template <typename T, typename To>
cudaError_t run(const GemmShape &s, const GemmRest &rest, const GemmData &d, cudaStream_t stream) {
  constexpr int width = 16 / sizeof(To);
  int64_t batches = 1;
  for (int b = 0; b < s.batchRank; ++b)
    batches *= s.batch[b];
  const int64_t elements = batches * s.m * s.n;
  if (elements == 0)
    return cudaSuccess;
  const bool down = s.c.strides.row == 1 && s.c.strides.col != 1 && s.m > 1;
  if (inPacks(s, d, down, width, sizeof(To)))
    OMNIBAL_LAUNCH((gemmRest<T, To, width>), dim3(gridFor(ceilDiv(elements / width, threads))),
                   dim3(threads), stream, s, rest, d, batches, down);
  else
    OMNIBAL_LAUNCH((gemmRest<T, To, 1>), dim3(gridFor(ceilDiv(elements, threads))), dim3(threads),
                   stream, s, rest, d, batches, down);
  return cudaGetLastError();
}

} // namespace

cudaError_t launchGemmRest(const GemmShape &s, const GemmRest &rest, const GemmData &d,
                           cudaStream_t stream) {
  const bool more = rest.bias || rest.activation || rest.residual || rest.fromPre;
  if (s.batchRank > GemmShape::maxBatchRank || s.accumulate || (rest.fromPre && !d.pre) ||
      (rest.bias && !d.bias) || (rest.residual && !d.residual) ||
      (rest.derivative && (!d.at || more)))
    return cudaErrorInvalidValue;
  if (s.type == Element::F32 && s.resultType == Element::F32)
    return run<float, float>(s, rest, d, stream);
  if (s.type == Element::BF16 && s.resultType == Element::BF16)
    return run<bf16, bf16>(s, rest, d, stream);
  if (s.type == Element::BF16 && s.resultType == Element::F32)
    return run<bf16, float>(s, rest, d, stream);
  return cudaErrorInvalidValue;
}

} // namespace omnibal::rt::cuda
