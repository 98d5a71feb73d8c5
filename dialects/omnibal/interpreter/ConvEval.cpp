//===- ConvEval.cpp - Convolution and its gradients --------------------------------------===//
#include "dialects/omnibal/interpreter/Evaluation.h"

using namespace mlir;

namespace omnibal {
namespace {

/// Shapes of input [N, C, spatial..], weight [O, C / group, kernel..], output [N, O, positions..].
struct ConvShapes {
  ArrayRef<int64_t> input, weight, output, strides, pads, dilations;
  int64_t group;
};

/// body(input offset, weight offset, output offset) for every product of the convolution.
template <typename Body> void forEachTap(const ConvShapes &s, Body body) {
  size_t spatial = s.input.size() - 2;
  ArrayRef<int64_t> sizes = s.input.drop_front(2), kernel = s.weight.drop_front(2),
                    positions = s.output.drop_front(2);
  SmallVector<int64_t> inputStrides = rowMajorStrides(sizes);
  int64_t inputSize = elementCount(sizes), kernelSize = elementCount(kernel),
          outputSize = elementCount(positions);
  int64_t groupIn = s.weight[1], groupOut = s.weight[0] / s.group;
  // Spatial pairs are the same for all channels.
  struct Tap {
    int64_t input, kernel, output;
  };
  std::vector<Tap> taps;
  SmallVector<int64_t> at(spatial), tap(spatial);
  for (int64_t o = 0; o < outputSize; ++o)
    for (int64_t k = 0; k < kernelSize; ++k) {
      int64_t restOut = o, restKernel = k, offset = 0;
      bool inside = true;
      for (size_t i = spatial; i-- > 0;) {
        at[i] = restOut % positions[i], restOut /= positions[i];
        tap[i] = restKernel % kernel[i], restKernel /= kernel[i];
        int64_t x = at[i] * s.strides[i] - s.pads[i] + tap[i] * s.dilations[i];
        inside &= x >= 0 && x < sizes[i];
        offset += x * inputStrides[i];
      }
      if (inside)
        taps.push_back({offset, k, o});
    }
  for (int64_t n = 0; n < s.input[0]; ++n)
    for (int64_t out = 0; out < s.weight[0]; ++out)
      for (int64_t in = 0; in < groupIn; ++in) {
        int64_t channel = out / groupOut * groupIn + in;
        int64_t inputBase = (n * s.input[1] + channel) * inputSize;
        int64_t weightBase = (out * groupIn + in) * kernelSize;
        int64_t outputBase = (n * s.weight[0] + out) * outputSize;
        for (const Tap &t : taps)
          body(inputBase + t.input, weightBase + t.kernel, outputBase + t.output);
      }
}

template <typename OpT>
ConvShapes shapesOf(OpT op, ArrayRef<int64_t> input, ArrayRef<int64_t> weight,
                    ArrayRef<int64_t> output) {
  return {input,
          weight,
          output,
          op.getStrides(),
          op.getPads(),
          op.getDilations(),
          static_cast<int64_t>(op.getGroup())};
}

LogicalResult conv(Evaluation &e, ConvOp op) {
  const HostTensor &input = e.operand(0), &weight = e.operand(1);
  SmallVector<int64_t> shape{input.shape[0], weight.shape[0]};
  size_t spatial = input.rank() - 2;
  for (size_t i = 0; i < spatial; ++i) {
    int64_t reach = op.getDilations()[i] * (weight.shape[2 + i] - 1) + 1;
    int64_t room = input.shape[2 + i] + op.getPads()[i] + op.getPads()[spatial + i] - reach;
    shape.push_back(room < 0 ? 0 : room / op.getStrides()[i] + 1);
  }
  HostTensor &result = e.addResult(shape);
  int64_t positions = elementCount(ArrayRef<int64_t>(shape).drop_front(2));
  if (op.getBias())
    for (int64_t i = 0; i < result.size(); ++i)
      result.floats[i] = e.operand(2).floats[i / positions % shape[1]];
  forEachTap(shapesOf(op, input.shape, weight.shape, result.shape),
             [&](int64_t x, int64_t w, int64_t y) {
               result.floats[y] += input.floats[x] * weight.floats[w];
             });
  return success();
}

LogicalResult convInputGrad(Evaluation &e, ConvInputGradOp op) {
  const HostTensor &grad = e.operand(0), &weight = e.operand(1);
  auto shape = e.declaredShape();
  if (failed(shape))
    return failure();
  HostTensor &result = e.addResult(*shape);
  forEachTap(shapesOf(op, result.shape, weight.shape, grad.shape),
             [&](int64_t x, int64_t w, int64_t y) {
               result.floats[x] += grad.floats[y] * weight.floats[w];
             });
  return success();
}

LogicalResult convWeightGrad(Evaluation &e, ConvWeightGradOp op) {
  const HostTensor &input = e.operand(0), &grad = e.operand(1);
  auto shape = e.declaredShape();
  if (failed(shape))
    return failure();
  HostTensor &result = e.addResult(*shape);
  forEachTap(shapesOf(op, input.shape, result.shape, grad.shape),
             [&](int64_t x, int64_t w, int64_t y) {
               result.floats[w] += input.floats[x] * grad.floats[y];
             });
  return success();
}

} // namespace

std::optional<LogicalResult> evaluateConvolution(Evaluation &e) {
  return llvm::TypeSwitch<Operation *, std::optional<LogicalResult>>(e.op)
      .Case([&](ConvOp op) { return conv(e, op); })
      .Case([&](ConvInputGradOp op) { return convInputGrad(e, op); })
      .Case([&](ConvWeightGradOp op) { return convWeightGrad(e, op); })
      .Default([](Operation *) { return std::nullopt; });
}

} // namespace omnibal
