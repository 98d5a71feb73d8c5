//===- PlainRowKernels.cpp - Softmax, norms, running sums and convolutions on the device ------===//
#include "runtime/backends/cuda/calls/PlainKernel.h"
#include "runtime/device/calls/BoundConv.h"

namespace omnibal::rt::cuda {
namespace {

class Softmax final : public PlainKernel {
public:
  Softmax(CallReader &call, const BoundCall &description, const KernelContext &context)
      : PlainKernel(description, context), input(call.operand("input")),
        result(call.operand("result")), axis(call.integer("axis", -1)),
        logarithm(description.kernel == "log_softmax") {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    const TensorView &from = views[input], &to = views[result];
    OMNIBAL_RETURN_IF_ERROR(same(to, "result", from, "input"));
    OMNIBAL_ASSIGN_OR_RETURN(const int at, axisOf(axis, from));
    return launched(launchSoftmax(plainView(to), plainView(from), at, logarithm, context.stream));
  }

private:
  int input, result;
  int64_t axis;
  bool logarithm;
};

/// layer_norm and rms_norm over dimensions [axis, rank); scale and bias broadcast from the right.
class Norm final : public PlainKernel {
public:
  Norm(CallReader &call, const BoundCall &description, const KernelContext &context)
      : PlainKernel(description, context), input(call.operand("input")),
        result(call.operand("result")), axis(call.integer("axis", -1)) {
    norm.centered = description.kernel == "layer_norm";
    norm.epsilon = call.number("epsilon", 1e-5);
    scale = norm.centered ? call.operand("scale") : call.optionalOperand("scale");
    bias = norm.centered ? call.optionalOperand("bias") : -1;
  }

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    const TensorView &from = views[input], &to = views[result];
    OMNIBAL_RETURN_IF_ERROR(same(to, "result", from, "input"));
    OMNIBAL_ASSIGN_OR_RETURN(norm.axis, axisOf(axis, from));
    OMNIBAL_ASSIGN_OR_RETURN(const PlainView factor, broadcast(views, scale, to));
    OMNIBAL_ASSIGN_OR_RETURN(const PlainView shift, broadcast(views, bias, to));
    return launched(
        launchNorm(norm, plainView(to), plainView(from), factor, shift, context.stream));
  }

private:
  int input, scale, bias, result;
  int64_t axis;
  PlainNorm norm;
};

class CumSum final : public PlainKernel {
public:
  CumSum(CallReader &call, const BoundCall &description, const KernelContext &context)
      : PlainKernel(description, context), input(call.operand("input")),
        result(call.operand("result")), axisOperand(call.optionalOperand("axisOperand")),
        axis(axisOperand < 0 ? call.requiredInteger("axis") : call.integer("axis", 0)),
        exclusive(call.flag("exclusive", false)), reverse(call.flag("reverse", false)) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    const TensorView &from = views[input], &to = views[result];
    OMNIBAL_RETURN_IF_ERROR(same(to, "result", from, "input"));
    if (axisOperand < 0)
      OMNIBAL_RETURN_IF_ERROR(axisOf(axis, from).status());
    return launched(launchCumSum(plainView(to), plainView(from), axis,
                                 axisOperand < 0 ? PlainView() : plainView(views[axisOperand]),
                                 exclusive, reverse, context.stream));
  }

private:
  int input, result, axisOperand;
  int64_t axis;
  bool exclusive, reverse;
};

class ConvKernel final : public PlainKernel, private BoundConv {
public:
  ConvKernel(CallReader &call, const BoundCall &description, const KernelContext &context)
      : PlainKernel(description, context), BoundConv(call, description.kernel) {
    const size_t dims = strides.size();
    if (dims > PlainConv::maxDims)
      call.fail("convolutions have at most " + std::to_string(PlainConv::maxDims) +
                " dimensions besides images and channels");
    if (dims > PlainConv::maxDims || pads.size() < dims || dilations.size() < dims)
      return; // an error of the call
    conv.group = group;
    std::copy_n(strides.begin(), dims, conv.strides);
    std::copy_n(pads.begin(), dims, conv.pads); // those before the input; the output's size says
    std::copy_n(dilations.begin(), dims, conv.dilations); // the others
  }

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    const TensorView &x = views[input], &w = views[weight], &y = views[output];
    const PlainView in = plainView(x), factors = plainView(w), out = plainView(y);
    switch (kind) {
    case Forward:
      return launched(launchConv(conv, in, factors, bias < 0 ? PlainView() : plainView(views[bias]),
                                 out, context.stream));
    case InputGrad:
      return launched(launchConvInputGrad(conv, in, factors, out, context.stream));
    case WeightGrad:
      return launched(launchConvWeightGrad(conv, in, factors, out, context.stream));
    }
    return Status::ok();
  }

private:
  PlainConv conv;
};

} // namespace

void addPlainRowKernels(DeviceKernelTable &table) {
  table["softmax"] = createKernelOf<Softmax>;
  table["log_softmax"] = createKernelOf<Softmax>;
  table["layer_norm"] = createKernelOf<Norm>;
  table["rms_norm"] = createKernelOf<Norm>;
  table["cumsum"] = createKernelOf<CumSum>;
  for (const char *name : {"conv", "conv_input_grad", "conv_weight_grad"})
    table[name] = createKernelOf<ConvKernel>;
}

} // namespace omnibal::rt::cuda
