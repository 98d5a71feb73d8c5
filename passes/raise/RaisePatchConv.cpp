//===- RaisePatchConv.cpp - omnibal-raise-patch-conv -------------------------------------===//
#include "passes/raise/Passes.h"
#include "passes/raise/match/Match.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_RAISEPATCHCONVPASS
#include "passes/raise/Passes.h.inc"

namespace raise {
namespace {

/// conv of [V, C, H, W] with stride = kernel: patches [V, h*w, C*P*P] times the weight, and back to
/// the convolution's own layout. The parameter keeps its shape in the checkpoint.
void raiseConv(OpBuilder &builder, ConvOp op) {
  SymbolicShape input = shapeOf(op.getInput()), kernel = shapeOf(op.getWeight()),
                output = shapeOf(op.getResult());
  int64_t spatial = static_cast<int64_t>(input.size()) - 2;
  if (op.getGroup() != 1 || spatial < 1 || !readsParameter(op.getWeight()) ||
      !llvm::all_of(
          op.getPads(), [](int64_t p) { return p == 0; }) ||
      !llvm::all_of(op.getDilations(), [](int64_t d) { return d == 1; }))
    return;
  SymbolicShape split{input[0], input[1]}, patches{input[0], 1};
  SmallVector<int64_t> permutation{0};
  SymbolicDim features = input[1];
  for (int64_t i = 0; i < spatial; ++i) {
    SymbolicDim patch = kernel[i + 2];
    if (SymbolicDim(op.getStrides()[i]) != patch || multiply(output[i + 2], patch) != input[i + 2])
      return;
    split.append({output[i + 2], patch});
    patches[1] = *multiply(patches[1], output[i + 2]);
    features = *multiply(features, patch);
    permutation.push_back(2 + 2 * i);
  }
  permutation.push_back(1);
  for (int64_t i = 0; i < spatial; ++i)
    permutation.push_back(3 + 2 * i);
  patches.push_back(features);

  builder.setInsertionPoint(op);
  Location loc = op.getLoc();
  Value x = reshapeTo(builder, loc, op.getInput(), split);
  x = reshapeTo(builder, loc, transposed(builder, loc, x, permutation), patches);
  Value weight = reshapeTo(builder, loc, op.getWeight(), {kernel[0], features});
  Value bias = op.getBias();
  if (bias && isConstant(bias, 0))
    bias = Value();
  SymbolicShape result{input[0], patches[1], kernel[0]};
  auto type = makeTensorType(op.getContext(), result, op.getType().getElementType());
  Value y = LinearOp::create(builder, loc, type, x, weight, bias, false);
  y = reshapeTo(builder, loc, transposed(builder, loc, y, {0, 2, 1}), output);
  op.getResult().replaceAllUsesWith(y);
}
} // namespace
} // namespace raise

namespace {
struct RaisePatchConvPass : impl::RaisePatchConvPassBase<RaisePatchConvPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      OpBuilder builder(function);
      raise::forEachOp(function, [&](Operation *op) {
        if (auto conv = dyn_cast<ConvOp>(op))
          raise::raiseConv(builder, conv);
      });
    }
  }
};
} // namespace
} // namespace omnibal
