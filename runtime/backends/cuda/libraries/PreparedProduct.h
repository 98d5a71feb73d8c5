//===- PreparedProduct.h - The library's descriptions of one product --------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_LIBRARIES_PREPAREDPRODUCT_H
#define RUNTIME_BACKENDS_CUDA_LIBRARIES_PREPAREDPRODUCT_H

#include "runtime/backends/cuda/libraries/MatrixLibrary.h"

namespace omnibal::rt::cuda {

struct MatrixLibrary::Prepared {
  explicit Prepared(const lt::Functions &api) : api(api) {}
  Prepared(const Prepared &) = delete;
  ~Prepared() {
    for (lt::Layout layout : {a, b, c, d})
      if (layout)
        (void)api.layoutDestroy(layout);
    if (description)
      (void)api.descriptionDestroy(description);
  }

  int set(int attribute, const void *value, size_t bytes) const {
    return api.descriptionSet(description, attribute, value, bytes);
  }
  int describe(const Product &p, int compute) {
    if (int e = api.descriptionCreate(&description, compute, lt::float32))
      return e;
    const int32_t left = p.transposedA ? lt::transposed : lt::notTransposed,
                  right = p.transposedB ? lt::transposed : lt::notTransposed;
    if (int e = set(lt::transposeA, &left, sizeof left))
      return e;
    if (int e = set(lt::transposeB, &right, sizeof right))
      return e;
    if (int e = set(lt::epilogue, &p.epilogue, sizeof p.epilogue))
      return e;
    if (p.epilogue & lt::aux) {
      if (int e = set(lt::auxLine, &p.lineAux, sizeof p.lineAux))
        return e;
      if (int e = set(lt::auxBatchStride, &p.strideAux, sizeof p.strideAux))
        return e;
    }
    if (int e = layout(a, p.type, p.transposedA ? p.k : p.m, p.transposedA ? p.m : p.k, p.lineA,
                       p.batches, p.strideA))
      return e;
    if (int e = layout(b, p.type, p.transposedB ? p.n : p.k, p.transposedB ? p.k : p.n, p.lineB,
                       p.batches, p.strideB))
      return e;
    if (int e = layout(c, p.resultType, p.m, p.n, p.lineC, p.batches, p.strideC))
      return e;
    return layout(d, p.resultType, p.m, p.n, p.lineD, p.batches, p.strideD);
  }
  /// Heuristics look at the alignment of these, not behind them. `bias`: the library's sums too.
  int point(const void *bias, void *aux, uint32_t epilogue) const {
    if (epilogue & (lt::addBias | lt::sumOfA | lt::sumOfB))
      if (int e = set(lt::biasPointer, &bias, sizeof bias))
        return e;
    return epilogue & lt::aux ? set(lt::auxPointer, &aux, sizeof aux) : lt::success;
  }

  const lt::Functions &api;
  lt::Description description = nullptr;
  lt::Layout a = nullptr, b = nullptr, c = nullptr, d = nullptr;
  lt::Algorithm algorithm{};
  bool usable = false;
  double seconds = 0;       ///< as measured; 0: not
  std::optional<bool> pays; ///< of an epilogue that isSpecial()

private:
  int layout(lt::Layout &made, Element type, int64_t rows, int64_t cols, int64_t line,
             int64_t batches, int64_t stride) const {
    if (int e = api.layoutCreate(&made, type == Element::BF16 ? lt::bfloat16 : lt::float32, rows,
                                 cols, line))
      return e;
    const auto count = static_cast<int32_t>(batches);
    if (int e = api.layoutSet(made, lt::batchCount, &count, sizeof count))
      return e;
    return api.layoutSet(made, lt::batchStride, &stride, sizeof stride);
  }
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_LIBRARIES_PREPAREDPRODUCT_H
