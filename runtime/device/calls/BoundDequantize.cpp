#include "runtime/device/calls/BoundDequantize.h"
#include <string>

namespace omnibal::rt {

Quantization quantizationOf(CallReader &call) {
  return call.choice("quantized", {"int8", "nf4"}) == 0 ? Quantization::Int8 : Quantization::NF4;
}

BoundDequantize::BoundDequantize(CallReader &call)
    : codes(call.operand("codes")), matrix(call.operand("matrix")), kind(quantizationOf(call)) {}

Status BoundDequantize::checkOperands(const CheckedKernel &kernel,
                                      std::span<const TensorView> views) const {
  const TensorView &to = views[matrix], &words = views[codes];
  OMNIBAL_RETURN_IF_ERROR(kernel.expectFloat(to, "matrix", 2));
  if ((to.shape[1] > 1 && to.strides[1] != 1) || (to.shape[0] > 1 && to.strides[0] != to.shape[1]))
    return kernel.bad("operand 'matrix' must be dense");
  const QuantizedShape shape = shapeOf(views);
  OMNIBAL_RETURN_IF_ERROR(kernel.expect(words, "codes", 1, DType::I32));
  if (words.shape[0] > 1 && words.strides[0] != 1)
    return kernel.bad("operand 'codes' must be dense");
  if (words.shape[0] != shape.words())
    return kernel.bad("operand 'codes' has " + std::to_string(words.shape[0]) + " words, but " +
                      nameOf(kind) + " needs " + std::to_string(shape.words()) + " for " +
                      std::to_string(shape.rows) + " x " + std::to_string(shape.cols));
  return Status::ok();
}

} // namespace omnibal::rt
