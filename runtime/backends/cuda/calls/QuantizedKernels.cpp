//===- QuantizedKernels.cpp - `dequantize` on the device -------------------------------------===//
#include "runtime/backends/cuda/calls/KernelTable.h"
#include "runtime/backends/cuda/kernels/matrix/Dequantize.h"
#include "runtime/device/calls/BoundDequantize.h"
#include <algorithm>

namespace omnibal::rt::cuda {
namespace {

class DequantizeKernel final : public DeviceKernel, private BoundDequantize {
public:
  DequantizeKernel(CallReader &call, const BoundCall &description, const KernelContext &context)
      : DeviceKernel(description, context), BoundDequantize(call) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    const TensorView &to = views[matrix];
    const QuantizedShape stored = shapeOf(views);
    DequantizeShape s;
    s.rows = stored.rows;
    s.cols = stored.cols;
    s.scales = stored.scales();
    if (kind == Quantization::NF4) {
      s.block = QuantizedShape::block;
      std::ranges::copy(nf4Levels, s.levels);
    }
    s.type = elementOf(to.dtype);
    return launched(launchDequantize(s, static_cast<const int32_t *>(views[codes].data), to.data,
                                     context.stream));
  }
};

} // namespace

void addQuantizedKernels(DeviceKernelTable &table) {
  table["dequantize"] = createKernelOf<DequantizeKernel>;
}

} // namespace omnibal::rt::cuda
