//===- CopyKernels.cpp - `copy` and `fill` -----------------------------------------------===//
#include "runtime/backends/host/kernels/HostKernel.h"
#include "runtime/backends/host/kernels/StridedLoop.h"
#include "runtime/support/BFloat16.h"
#include <cstring>

namespace omnibal::rt {
namespace {

/// to[i][j] (+)= from[i][j] where j is dense in `to` and i in `from`: by squares that fit a cache.
template <typename T, bool accumulate>
void transposeBlock(const T *from, int64_t fromCol, T *to, int64_t toRow, int64_t rows,
                    int64_t cols) {
  constexpr int64_t side = 16;
  for (int64_t i0 = 0; i0 < rows; i0 += side)
    for (int64_t j0 = 0; j0 < cols; j0 += side) {
      const int64_t i1 = std::min(rows, i0 + side), j1 = std::min(cols, j0 + side);
      for (int64_t i = i0; i < i1; ++i)
        for (int64_t j = j0; j < j1; ++j) {
          T value = from[i + j * fromCol];
          to[i * toRow + j] = accumulate ? static_cast<T>(to[i * toRow + j] + value) : value;
        }
    }
}

template <typename T, bool accumulate>
void copyTyped(const TensorView &dst, const TensorView &src, ThreadPool &pool) {
  auto loop = StridedLoop<2>::build({&dst, &src});
  T *to = dataOf<T>(dst);
  const T *from = dataOf<T>(src);
  const int64_t toStep = loop.innerStride(0), fromStep = loop.innerStride(1);

  // A transposition: another dimension is dense in src. Put it next to the inner one.
  int dense = -1;
  for (int d = 0; d < loop.rank - 1; ++d)
    if (loop.strides[1][d] == 1 && loop.shape[d] >= 4)
      dense = d;
  if (toStep == 1 && fromStep != 1 && fromStep != 0 && dense >= 0 && loop.inner() >= 4) {
    loop.swapDimensions(dense, loop.rank - 2);
    const int64_t rows = loop.shape[loop.rank - 2], cols = loop.inner();
    const int64_t toRow = loop.strides[0][loop.rank - 2];
    StridedLoop<2> matrices = loop;
    matrices.rank = loop.rank - 1; // the last line is now a matrix
    const int64_t strip = std::clamp<int64_t>(16384 / std::max<int64_t>(cols, 1) / 16 * 16, 16,
                                              std::max<int64_t>(rows, 16));
    const int64_t strips = (rows + strip - 1) / strip, count = matrices.outer();
    pool.parallelFor(count * strips, [&](int64_t task, int) {
      const int64_t row = task % strips * strip;
      matrices.forLines(task / strips, task / strips + 1, [&](const auto &offsets) {
        transposeBlock<T, accumulate>(from + offsets[1] + row, fromStep,
                                      to + offsets[0] + row * toRow, toRow,
                                      std::min(strip, rows - row), cols);
      });
    });
    return;
  }
  loop.parallel(pool, [&](const auto &offsets, int64_t first, int64_t count) {
    T *t = to + offsets[0] + first * toStep;
    const T *f = from + offsets[1] + first * fromStep;
    if (!accumulate && toStep == 1 && fromStep == 1) {
      std::memmove(t, f, count * sizeof(T));
    } else if (toStep == 1 && fromStep == 1) {
      for (int64_t i = 0; i < count; ++i)
        t[i] = static_cast<T>(t[i] + f[i]);
    } else {
      for (int64_t i = 0; i < count; ++i) {
        T &place = t[i * toStep];
        place = accumulate ? static_cast<T>(place + f[i * fromStep]) : f[i * fromStep];
      }
    }
  });
}

float toFloat(float value) { return value; }
float toFloat(BFloat16 value) { return value.toFloat(); }

/// Between float32 and bfloat16; sums are those of float32.
template <typename To, typename From>
void convertTyped(const TensorView &dst, const TensorView &src, bool accumulate, ThreadPool &pool) {
  auto loop = StridedLoop<2>::build({&dst, &src});
  const int64_t toStep = loop.innerStride(0), fromStep = loop.innerStride(1);
  loop.parallel(pool, [&](const auto &offsets, int64_t first, int64_t count) {
    To *to = dataOf<To>(dst) + offsets[0] + first * toStep;
    const From *from = dataOf<From>(src) + offsets[1] + first * fromStep;
    for (int64_t i = 0; i < count; ++i) {
      To &place = to[i * toStep];
      float value = toFloat(from[i * fromStep]) + (accumulate ? toFloat(place) : 0.f);
      if constexpr (std::is_same_v<To, float>)
        place = value;
      else
        place = To::fromFloat(value);
    }
  });
}

class CopyKernel final : public HostKernel {
public:
  CopyKernel(CallReader &call, const BoundCall &description) : HostKernel(description) {
    src = call.operand("src");
    dst = call.operand("dst");
    accumulate = call.flag("accumulate", false);
  }

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    const TensorView &to = views[dst], &from = views[src];
    bool narrows = from.dtype == DType::F32 && to.dtype == DType::BF16,
         widens = from.dtype == DType::BF16 && to.dtype == DType::F32;
    OMNIBAL_RETURN_IF_ERROR(
        expect(from, "src", to.rank, narrows || widens ? from.dtype : to.dtype));
    OMNIBAL_RETURN_IF_ERROR(expect(to, "dst", to.rank, to.dtype));
    OMNIBAL_RETURN_IF_ERROR(same(from, "src", to, "dst"));
    if (widens) {
      convertTyped<float, BFloat16>(to, from, accumulate, pool);
      return Status::ok();
    }
    switch (to.dtype) {
    case DType::F32:
      accumulate ? copyTyped<float, true>(to, from, pool) : copyTyped<float, false>(to, from, pool);
      break;
    case DType::F64:
      accumulate ? copyTyped<double, true>(to, from, pool)
                 : copyTyped<double, false>(to, from, pool);
      break;
    case DType::I32:
      accumulate ? copyTyped<int32_t, true>(to, from, pool)
                 : copyTyped<int32_t, false>(to, from, pool);
      break;
    case DType::I64:
      accumulate ? copyTyped<int64_t, true>(to, from, pool)
                 : copyTyped<int64_t, false>(to, from, pool);
      break;
    case DType::Bool:
      if (accumulate)
        return bad("'accumulate' has no meaning for bool");
      copyTyped<uint8_t, false>(to, from, pool);
      break;
    case DType::BF16:
      if (narrows)
        convertTyped<BFloat16, float>(to, from, accumulate, pool);
      else if (accumulate)
        convertTyped<BFloat16, BFloat16>(to, from, true, pool);
      else
        copyTyped<uint16_t, false>(to, from, pool);
      break;
    }
    return Status::ok();
  }

private:
  int src, dst;
  bool accumulate;
};

template <typename T> void fillTyped(const TensorView &dst, double value, ThreadPool &pool) {
  auto loop = StridedLoop<1>::build({&dst});
  const T v = static_cast<T>(value);
  const int64_t step = loop.innerStride(0);
  loop.parallel(pool, [&](const auto &offsets, int64_t first, int64_t count) {
    T *to = dataOf<T>(dst) + offsets[0] + first * step;
    if (step == 1)
      std::fill_n(to, count, v);
    else
      for (int64_t i = 0; i < count; ++i)
        to[i * step] = v;
  });
}

class FillKernel final : public HostKernel {
public:
  FillKernel(CallReader &call, const BoundCall &description) : HostKernel(description) {
    dst = call.operand("dst");
    value = call.number("value", 0);
  }

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    const TensorView &to = views[dst];
    OMNIBAL_RETURN_IF_ERROR(expect(to, "dst", to.rank, to.dtype));
    switch (to.dtype) {
    case DType::F32:
      fillTyped<float>(to, value, pool);
      break;
    case DType::F64:
      fillTyped<double>(to, value, pool);
      break;
    case DType::I32:
      fillTyped<int32_t>(to, value, pool);
      break;
    case DType::I64:
      fillTyped<int64_t>(to, value, pool);
      break;
    case DType::Bool:
      fillTyped<uint8_t>(to, value != 0, pool);
      break;
    case DType::BF16:
      fillTyped<uint16_t>(to, BFloat16::fromDouble(value).bits, pool);
      break;
    }
    return Status::ok();
  }

private:
  int dst;
  double value;
};

} // namespace

void addCopyKernels(KernelTable &table) {
  table["copy"] = createKernel<CopyKernel>;
  table["fill"] = createKernel<FillKernel>;
}

} // namespace omnibal::rt
