//===- RowSquares.cpp - `row_squares`: squared norms of a weight with its adapter -------------===//
//
// weight + scale * b a is in memory nowhere: some columns of a row at a time are summed up in
// registers and squared. Weights that lie transposed, or are codes, become some rows of numbers on
// the stack first. A row's result is one sum in the order of the columns, whoever computes it.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/host/kernels/HostKernel.h"
#include "runtime/backends/host/vector/Rows.h"
#include "runtime/device/calls/BoundDequantize.h"
#include <algorithm>
#include <array>

namespace omnibal::rt {
namespace {

class RowSquares final : public HostKernel {
public:
  RowSquares(CallReader &call, const BoundCall &description)
      : HostKernel(description), weight(call.operand("weight")), a(call.operand("a")),
        b(call.operand("b")), result(call.operand("result")),
        scale(static_cast<float>(call.number("scale", 1))) {
    if (call.has("quantized"))
      kind = quantizationOf(call);
  }

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkViews(views));
    const int64_t rows = views[b].shape[0], rank = views[b].shape[1];
    // So few rows that their factors stay in a cache.
    const int64_t strip = std::clamp<int64_t>(8192 / std::max<int64_t>(rank, 1), 1, mostRows);
    pool.parallelFor((rows + strip - 1) / strip, [&](int64_t task, int) {
      sumStrip(views, task * strip, std::min(strip, rows - task * strip));
    });
    return Status::ok();
  }

private:
  /// Of a panel of the weight.
  static constexpr int64_t mostRows = 16, width = 512;
  using Panel = std::array<float, mostRows * width>;
  struct Lines {
    const float *data;
    int64_t stride;
  };

  Status checkViews(std::span<const TensorView> views) const {
    const TensorView &va = views[a], &vb = views[b];
    OMNIBAL_RETURN_IF_ERROR(expect(va, "a", 2, DType::F32));
    OMNIBAL_RETURN_IF_ERROR(expect(vb, "b", 2, DType::F32));
    const int64_t rows = vb.shape[0], rank = vb.shape[1], cols = va.shape[1];
    if (va.shape[0] != rank)
      return bad("operand 'a' has " + std::to_string(va.shape[0]) + " rows, but 'b' " +
                 std::to_string(rank) + " columns");
    if (cols > 1 && va.strides[1] != 1)
      return bad("the rows of operand 'a' must be dense");
    OMNIBAL_RETURN_IF_ERROR(expectList(views[result], "result", DType::F32, rows));
    if (kind == Quantization::None) {
      OMNIBAL_RETURN_IF_ERROR(expect(views[weight], "weight", 2, DType::F32));
      return views[weight].shape[0] == rows && views[weight].shape[1] == cols
                 ? Status::ok()
                 : bad("operand 'weight' is " + printShape(views[weight]) + ", not [" +
                       std::to_string(rows) + ", " + std::to_string(cols) + "]");
    }
    const int64_t words = QuantizedShape{kind, rows, cols}.words();
    OMNIBAL_RETURN_IF_ERROR(expectList(views[weight], "weight", DType::I32, words));
    return words > 1 && views[weight].strides[0] != 1 ? bad("operand 'weight' must be dense")
                                                      : Status::ok();
  }

  void sumStrip(std::span<const TensorView> views, int64_t first, int64_t rows) const {
    const TensorView &va = views[a], &vb = views[b], &vr = views[result];
    const int64_t rank = vb.shape[1], cols = va.shape[1];
    std::vector<float> factors(static_cast<size_t>(rows * rank));
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t r = 0; r < rank; ++r)
        factors[static_cast<size_t>(row * rank + r)] =
            scale * dataOf<float>(vb)[(first + row) * vb.strides[0] + r * vb.strides[1]];
    std::array<float, mostRows> sums{};
    Panel numbers;
    // As many columns as let those of `a` stay in a cache.
    const int64_t step =
        std::clamp<int64_t>(6144 / std::max<int64_t>(rank, 1) / 64 * 64, 64, width);
    for (int64_t col = 0; col < cols; col += step) {
      const MatrixWindow window{first, col, rows, std::min(step, cols - col)};
      const Lines lines = linesOf(views, window, numbers);
      rowTable().addSquares({lines.data, lines.stride, rows, dataOf<float>(va) + col, va.strides[0],
                             rank, window.cols, factors.data(), sums.data()});
    }
    for (int64_t row = 0; row < rows; ++row)
      dataOf<float>(vr)[(first + row) * vr.strides[0]] = sums[static_cast<size_t>(row)];
  }

  /// A window of the weight as dense rows: where they lie, or in `numbers`.
  Lines linesOf(std::span<const TensorView> views, const MatrixWindow &window,
                Panel &numbers) const {
    const TensorView &vw = views[weight];
    if (kind != Quantization::None) {
      const QuantizedShape shape{kind, views[b].shape[0], views[a].shape[1]};
      dequantize(shape, dataOf<int32_t>(vw), window, numbers.data(), width);
      return {numbers.data(), width};
    }
    const float *from = dataOf<float>(vw) + window.row * vw.strides[0] + window.col * vw.strides[1];
    if (vw.strides[1] == 1)
      return {from, vw.strides[0]};
    // Columns one after the other, which are dense where rows are not.
    for (int64_t i = 0; i < window.cols; ++i)
      for (int64_t row = 0; row < window.rows; ++row)
        numbers[static_cast<size_t>(row * width + i)] =
            from[row * vw.strides[0] + i * vw.strides[1]];
    return {numbers.data(), width};
  }

  int weight, a, b, result;
  float scale;
  Quantization kind = Quantization::None;
};

} // namespace

void addRowSquaresKernels(KernelTable &table) { table["row_squares"] = createKernel<RowSquares>; }

} // namespace omnibal::rt
