#include "runtime/device/calls/BoundConv.h"

namespace omnibal::rt {

BoundConv::BoundConv(CallReader &call, const std::string &kernel)
    : kind(kernel == "conv"              ? Forward
           : kernel == "conv_input_grad" ? InputGrad
                                         : WeightGrad),
      input(call.operand(kind == InputGrad ? "result" : "input")),
      weight(call.operand(kind == WeightGrad ? "result" : "weight")),
      output(call.operand(kind == Forward ? "result" : "grad")),
      bias(kind == Forward ? call.optionalOperand("bias") : -1), strides(call.integers("strides")),
      pads(call.integers("pads")), dilations(call.integers("dilations")),
      group(call.integer("group", 1)) {
  if (group < 1)
    call.fail("attribute 'group' must be positive");
  if (pads.size() != 2 * strides.size() || dilations.size() != strides.size())
    call.fail("attributes 'strides', 'pads' and 'dilations' do not fit together");
}

Status BoundConv::checkOperands(const CheckedKernel &kernel,
                                std::span<const TensorView> views) const {
  const TensorView &x = views[input], &w = views[weight], &y = views[output];
  if (x.rank != static_cast<int>(strides.size()) + 2 || w.rank != x.rank || y.rank != x.rank ||
      w.shape[1] * group != x.shape[1] || w.shape[0] != y.shape[1] || w.shape[0] % group != 0 ||
      y.shape[0] != x.shape[0])
    return kernel.bad("shapes and attributes do not fit together: input " + printShape(x) +
                      ", weight " + printShape(w) + ", output " + printShape(y));
  return Status::ok();
}

} // namespace omnibal::rt
