//===- QuantizedGemm.cpp - Products with matrices of quantized weights ------------------------===//
//
// A few columns of the right side at a time become float32 numbers in memory that the compiler has
// planned, and are multiplied as those of any product: so a value of the result is one sum in the
// order of the depth, as if all of the matrix had been float32.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/host/kernels/Gemm.h"
#include "runtime/backends/host/kernels/HostKernel.h"
#include "runtime/device/calls/BoundDequantize.h"
#include "runtime/device/calls/BoundGemm.h"
#include "runtime/support/QuantizedMatrix.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

class QuantizedGemm final : public HostKernel, private BoundGemm {
public:
  QuantizedGemm(CallReader &call, const BoundCall &description)
      : HostKernel(description), BoundGemm(call), scratch(call.operand("scratch")),
        kind(quantizationOf(call)), transposed(call.flag("transpose_b", false)) {
    if (sumA >= 0 || sumB >= 0)
      call.fail("a product with quantized weights has no operands 'sum_a' and 'sum_b'");
  }

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkViews(views));
    const TensorView &vc = views[c];
    const int64_t depth = views[a].shape[1], cols = vc.shape[1];
    if (vc.elements() == 0)
      return Status::ok();
    const int64_t width =
        depth == 0 ? cols : std::min(cols, views[scratch].shape[0] / std::max<int64_t>(depth, 1));
    for (int64_t first = 0; first < cols; first += width) {
      const int64_t count = std::min(width, cols - first);
      const Matrix panel = expand(views, first, count, pool);
      OMNIBAL_RETURN_IF_ERROR(multiply(columns(views, panel, first, count), pool).context(where));
    }
    return Status::ok();
  }

private:
  QuantizedShape shapeOf(std::span<const TensorView> views) const {
    const int64_t depth = views[a].shape[1], cols = views[c].shape[1];
    return {kind, transposed ? cols : depth, transposed ? depth : cols};
  }

  Status checkViews(std::span<const TensorView> views) const {
    const TensorView &va = views[a], &vb = views[b], &vc = views[c];
    OMNIBAL_RETURN_IF_ERROR(expect(va, "a", 2, DType::F32));
    OMNIBAL_RETURN_IF_ERROR(expect(vc, "c", 2, DType::F32));
    if (va.shape[0] != vc.shape[0])
      return bad("shape " + printShape(va) + " does not make " + printShape(vc));
    if (!isDense(matrix(va)) || !isDense(matrix(vc)))
      return bad("a matrix of shape " + printShape(vc) + " or " + printShape(va) +
                 " has no unit stride; copy it first");
    OMNIBAL_RETURN_IF_ERROR(checkList(vb, "b", DType::I32));
    if (vb.shape[0] != shapeOf(views).words())
      return bad("operand 'b' has " + std::to_string(vb.shape[0]) + " words, but " + nameOf(kind) +
                 " needs " + std::to_string(shapeOf(views).words()) + " for " +
                 std::to_string(va.shape[1]) + " x " + std::to_string(vc.shape[1]));
    OMNIBAL_RETURN_IF_ERROR(checkList(views[scratch], "scratch", DType::F32));
    if (views[scratch].shape[0] < va.shape[1])
      return bad("operand 'scratch' has " + std::to_string(views[scratch].shape[0]) +
                 " numbers, but a column of 'b' " + std::to_string(va.shape[1]));
    if (bias >= 0) {
      OMNIBAL_RETURN_IF_ERROR(expectList(views[bias], "bias", DType::F32, vc.shape[1]));
    }
    for (auto [index, name] :
         {std::pair{residual, "residual"}, std::pair{pre, "pre"}, std::pair{at, "at"}})
      if (index >= 0) {
        OMNIBAL_RETURN_IF_ERROR(expect(views[index], name, 2, DType::F32));
        OMNIBAL_RETURN_IF_ERROR(same(views[index], name, vc, "c"));
      }
    return Status::ok();
  }

  Status checkList(const TensorView &view, const char *name, DType type) const {
    OMNIBAL_RETURN_IF_ERROR(expect(view, name, 1, type));
    return view.shape[0] > 1 && view.strides[0] != 1
               ? bad("operand '" + std::string(name) + "' must be dense")
               : Status::ok();
  }

  static Matrix matrix(const TensorView &v) {
    return {dataOf<float>(v), v.shape[0], v.shape[1], v.strides[0], v.strides[1]};
  }

  /// Columns [first, first + count) of the right side as numbers.
  Matrix expand(std::span<const TensorView> views, int64_t first, int64_t count,
                ThreadPool &pool) const {
    const QuantizedShape shape = shapeOf(views);
    const auto *words = dataOf<int32_t>(views[b]);
    auto *numbers = dataOf<float>(views[scratch]);
    const int64_t depth = views[a].shape[1];
    const int64_t lines = transposed ? count : depth, length = transposed ? depth : count;
    const int64_t strip = std::max<int64_t>(1, stripElements / std::max<int64_t>(length, 1));
    pool.parallelFor((lines + strip - 1) / strip, [&](int64_t task, int) {
      const int64_t line = task * strip, some = std::min(strip, lines - line);
      const MatrixWindow window = transposed ? MatrixWindow{first + line, 0, some, length}
                                             : MatrixWindow{line, first, some, length};
      dequantize(shape, words, window, numbers + line * length, length);
    });
    const Matrix stored{numbers, lines, length, length, 1};
    return transposed ? stored.transposed() : stored;
  }

  Product columns(std::span<const TensorView> views, const Matrix &panel, int64_t first,
                  int64_t count) const {
    auto window = [&](int operand) {
      return operand < 0 ? Matrix()
                         : matrix(views[operand]).window(0, first, views[c].shape[0], count);
    };
    Product product;
    product.a = matrix(views[a]);
    product.b = panel;
    product.c = window(c);
    product.alpha = alpha;
    product.accumulate = accumulate;
    product.activation = static_cast<Activation>(activation);
    if (bias >= 0) {
      product.biasColStride = views[bias].strides[0];
      product.bias = dataOf<float>(views[bias]) + first * product.biasColStride;
    }
    product.residual = window(residual);
    product.pre = window(pre);
    product.at = window(at);
    return product;
  }

  static constexpr int64_t stripElements = 16384; ///< that a task expands

  int scratch;
  Quantization kind;
  bool transposed; ///< `b` holds the matrix whose transpose is the right side
};

} // namespace

void addQuantizedKernels(KernelTable &table) {
  table["quantized_gemm"] = createKernel<QuantizedGemm>;
}

} // namespace omnibal::rt
