//===- Dequantize.cpp - What the codes of a quantized matrix stand for -----------------------===//
#include "runtime/backends/host/kernels/HostKernel.h"
#include "runtime/device/calls/BoundDequantize.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

class Dequantize final : public HostKernel, private BoundDequantize {
public:
  Dequantize(CallReader &call, const BoundCall &description)
      : HostKernel(description), BoundDequantize(call) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    const QuantizedShape shape = shapeOf(views);
    const auto *words = dataOf<int32_t>(views[codes]);
    auto *numbers = dataOf<float>(views[matrix]);
    const int64_t strip = std::max<int64_t>(1, stripElements / std::max<int64_t>(shape.cols, 1));
    pool.parallelFor((shape.rows + strip - 1) / strip, [&](int64_t task, int) {
      const int64_t row = task * strip;
      dequantize(shape, words, {row, 0, std::min(strip, shape.rows - row), shape.cols},
                 numbers + row * shape.cols, shape.cols);
    });
    return Status::ok();
  }

private:
  static constexpr int64_t stripElements = 16384; ///< of a task
};

} // namespace

void addDequantizeKernels(KernelTable &table) { table["dequantize"] = createKernel<Dequantize>; }

} // namespace omnibal::rt
